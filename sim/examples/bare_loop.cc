// SPDX-License-Identifier: MIT OR Apache-2.0
// The compiled design with nothing around it: moves the clock and prints cycles per
// second of wall time.
//
// bare_loop OBJECT CLOCK_PORT CYCLES

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>

int main(int argc, char** argv) {
    if (argc != 4) {
        std::fprintf(stderr, "usage: bare_loop OBJECT CLOCK_PORT CYCLES\n");
        return 2;
    }
    void* object = dlopen(argv[1], RTLD_NOW);
    if (!object) {
        std::fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    auto make = reinterpret_cast<void* (*)()>(dlsym(object, "tsonic_new"));
    auto eval = reinterpret_cast<const char* (*)(void*)>(dlsym(object, "tsonic_eval"));
    auto port = reinterpret_cast<void* (*)(void*, unsigned, unsigned*)>(dlsym(object, "tsonic_port"));
    if (!make || !eval || !port) {
        std::fprintf(stderr, "not an object of tsonic\n");
        return 1;
    }
    void* model = make();
    unsigned bytes = 0;
    auto clock = static_cast<unsigned char*>(port(model, std::strtoul(argv[2], nullptr, 10), &bytes));
    const unsigned long cycles = std::strtoul(argv[3], nullptr, 10);
    const auto started = std::chrono::steady_clock::now();
    for (unsigned long i = 0; i < cycles; ++i) {
        *clock = 0;
        if (const char* why = eval(model)) {
            std::fprintf(stderr, "%s\n", why);
            return 1;
        }
        *clock = 1;
        if (const char* why = eval(model)) {
            std::fprintf(stderr, "%s\n", why);
            return 1;
        }
    }
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - started;
    std::printf("%f\n", cycles / wall.count());
}
