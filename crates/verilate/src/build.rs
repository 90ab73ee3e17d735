// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verilog -> C++ -> shared object.

use crate::cache::{cache_dir, once};
use crate::{Design, Error, Optimisation};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Goes into every hash; changes when the shim or the command lines do.
const RECIPE: &str = "1";
/// Lines of a log that an error shows.
const TAIL_LINES: usize = 30;

/// Arguments of Verilator. Lint is a gate of its own, hence `-Wno-lint`;
/// unknown values start as 0, as an FPGA's registers do.
const VERILATOR_ARGS: &[&str] = &[
    "--cc",
    "-O3",
    "--no-timing",
    "--x-assign",
    "fast",
    "--x-initial",
    "fast",
    "--noassert",
    "-Wno-fatal",
    "-Wno-lint",
    "-Wno-UNOPTFLAT",
    "--prefix",
    "Vtop",
];

/// Arguments of the C++ compiler. No unique symbols: objects of several
/// designs live in one process and must not share statics.
const CXX_ARGS: &[&str] = &[
    "-std=c++17",
    "-fPIC",
    "-fno-gnu-unique",
    "-fvisibility=hidden",
    "-fno-strict-aliasing",
    "-w",
    "-DVL_USER_FATAL",
];

struct Toolchain {
    version: String,
    include: PathBuf,
    compiler: String,
}

/// Name of the C++ class member of a port. Verilator writes characters that
/// C++ does not know as `__0` and two hex digits, and so the second of two
/// underscores.
pub(crate) fn member(name: &str) -> String {
    let mut member = String::new();
    let mut characters = name.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '_' if characters.peek() == Some(&'_') => {
                characters.next();
                member.push_str("___05F");
            }
            c if c == '_' || c.is_ascii_alphanumeric() => member.push(c),
            c => {
                let _ = write!(member, "__0{:02X}", c as u32);
            }
        }
    }
    member
}

fn spawn_error(program: &str, source: std::io::Error) -> Error {
    match (source.kind(), program) {
        (ErrorKind::NotFound, "verilator") => Error::VerilatorMissing,
        (ErrorKind::NotFound, _) => Error::CompilerMissing(program.into()),
        _ => Error::Run {
            program: program.into(),
            source,
        },
    }
}

fn output(program: &str, args: &[&str]) -> Result<String, Error> {
    let output = Command::new(program)
        .args(args)
        .output()
        .map_err(|source| spawn_error(program, source))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

impl Toolchain {
    fn find() -> Result<Self, Error> {
        let version = output("verilator", &["--version"])?;
        let root = output("verilator", &["--getenv", "VERILATOR_ROOT"])?;
        let include = Path::new(&root).join("include");
        if !include.join("verilated.cpp").exists() {
            return Err(Error::RuntimeMissing(include));
        }
        let compiler = std::env::var("CXX")
            .ok()
            .filter(|cxx| !cxx.trim().is_empty());
        let compiler = compiler.unwrap_or_else(|| "g++".into());
        let compiler_version = output(&compiler, &["--version"])?;
        let first = compiler_version.lines().next().unwrap_or_default();
        Ok(Self {
            version: format!("{version} / {first}"),
            include,
            compiler,
        })
    }

    fn key(&self, optimisation: Optimisation, parts: &[&str]) -> String {
        let mut hash = Sha256::new();
        for part in [RECIPE, &self.version, level(optimisation)]
            .iter()
            .chain(VERILATOR_ARGS)
            .chain(CXX_ARGS)
            .chain(parts)
        {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        let digest = hash.finalize();
        digest
            .iter()
            .take(12)
            .fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            })
    }

    fn cxx(&self, optimisation: Optimisation) -> Command {
        let mut command = Command::new(&self.compiler);
        command
            .arg(level(optimisation))
            .args(CXX_ARGS)
            .arg("-I")
            .arg(&self.include)
            .arg("-I")
            .arg(self.include.join("vltstd"));
        command
    }
}

fn level(optimisation: Optimisation) -> &'static str {
    match optimisation {
        Optimisation::Quick => "-O1",
        Optimisation::Full => "-O3",
    }
}

/// Runs a command with its output in a log file; on failure `error` gets the
/// log's path and tail.
fn logged(
    command: &mut Command,
    log: PathBuf,
    error: impl FnOnce(PathBuf, String) -> Error,
) -> Result<(), Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    tracing::debug!(?command, "run");
    let output = command
        .output()
        .map_err(|source| spawn_error(&program, source))?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    fs::write(&log, &text).map_err(Error::io("cannot write", &log))?;
    if output.status.success() {
        return Ok(());
    }
    let lines: Vec<_> = text.lines().collect();
    let tail = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n");
    Err(error(log, tail))
}

fn compile_error(log: PathBuf, tail: String) -> Error {
    Error::Compile { log, tail }
}

/// The C shim: the object's whole interface.
///
/// `vl_fatal` is what Verilator's run time calls when the design does not
/// settle or stops itself; the exception unwinds to `tsonic_eval`, which hands
/// its text to Rust.
fn shim(design: &Design) -> String {
    let mut code = String::from(
        r#"#include "Vtop.h"
#include "verilated.h"
#include <stdexcept>
#include <string>
double sc_time_stamp() { return 0; }
void vl_fatal(const char* file, int line, const char*, const char* text) {
    throw std::runtime_error(std::string(text) + " (" + (file ? file : "") + ":" + std::to_string(line) + ")");
}
namespace {
struct Model {
    VerilatedContext context;
    Vtop top{&context};
    std::string message;
};
}
#define EXPORT extern "C" __attribute__((visibility("default")))
EXPORT void* tsonic_new() { try { return new Model; } catch (...) { return nullptr; } }
EXPORT void tsonic_free(void* model) { delete static_cast<Model*>(model); }
EXPORT const char* tsonic_eval(void* pointer) {
    Model* model = static_cast<Model*>(pointer);
    try {
        model->top.eval();
        return nullptr;
    } catch (const std::exception& error) {
        model->message = error.what();
    } catch (...) {
        model->message = "unknown exception";
    }
    return model->message.c_str();
}
EXPORT void* tsonic_port(void* pointer, unsigned index, unsigned* bytes) {
    Model* model = static_cast<Model*>(pointer);
    switch (index) {
"#,
    );
    for (index, port) in design.ports.iter().enumerate() {
        let member = member(&port.name);
        let _ = writeln!(
            code,
            "    case {index}: *bytes = sizeof(model->top.{member}); return (void*)&model->top.{member};"
        );
    }
    code.push_str("    default: return nullptr;\n    }\n}\n");
    code
}

fn verilate(tools: &Toolchain, design: &Design, scratch: &Path) -> Result<Vec<PathBuf>, Error> {
    let source = scratch.join("top.v");
    fs::write(&source, &design.verilog).map_err(Error::io("cannot write", &source))?;
    let mut command = Command::new("verilator");
    command
        .args(VERILATOR_ARGS)
        .args(["--top-module", &design.top])
        .arg("--Mdir")
        .arg(scratch)
        .arg(&source);
    logged(&mut command, scratch.join("verilator.log"), |log, tail| {
        Error::Verilate { log, tail }
    })?;
    let mut sources: Vec<PathBuf> = fs::read_dir(scratch)
        .map_err(Error::io("cannot list", scratch))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| {
            path.extension().is_some_and(|extension| extension == "cpp")
                && !path.to_string_lossy().contains("__ALL")
        })
        .collect();
    sources.sort();
    let shim_path = scratch.join("shim.cpp");
    fs::write(&shim_path, shim(design)).map_err(Error::io("cannot write", &shim_path))?;
    sources.push(shim_path);
    tracing::debug!(
        version = tools.version,
        sources = sources.len(),
        "verilated"
    );
    Ok(sources)
}

/// The shared object of a design, from the cache or built now.
pub(crate) fn object(design: &Design, optimisation: Optimisation) -> Result<PathBuf, Error> {
    let tools = Toolchain::find()?;
    let dir = cache_dir()?.join("verilated");
    let ports: String = design.ports.iter().fold(String::new(), |mut text, port| {
        let _ = writeln!(text, "{} {} {:?}", port.name, port.width, port.direction);
        text
    });
    let key = tools.key(optimisation, &[&design.top, &design.verilog, &ports]);
    once(&dir, &format!("{key}.so"), |scratch| {
        if let Some(notice) = crate::NOTICE.get() {
            notice();
        }
        let runtime_key = tools.key(optimisation, &["runtime"]);
        let runtime = once(&dir, &format!("runtime-{runtime_key}.o"), |scratch| {
            let object = scratch.join("runtime.o");
            let mut command = tools.cxx(optimisation);
            command
                .args(["-r", "-nostdlib", "-o"])
                .arg(&object)
                .arg(tools.include.join("verilated.cpp"))
                .arg(tools.include.join("verilated_threads.cpp"));
            logged(&mut command, scratch.join("compiler.log"), compile_error)?;
            Ok(object)
        })?;
        let sources = verilate(&tools, design, scratch)?;
        // One translation unit: the headers are most of the work.
        let unit = scratch.join("unit.cc");
        let text = sources.iter().fold(String::new(), |mut text, path| {
            let _ = writeln!(text, "#include \"{}\"", path.display());
            text
        });
        fs::write(&unit, text).map_err(Error::io("cannot write", &unit))?;
        let object = scratch.join("object");
        let mut command = tools.cxx(optimisation);
        command
            .args(["-shared", "-pthread", "-Wl,-Bsymbolic", "-I"])
            .arg(scratch)
            .arg("-o")
            .arg(&object)
            .arg(&unit)
            .arg(&runtime);
        logged(&mut command, scratch.join("compiler.log"), compile_error)?;
        Ok(object)
    })
}

#[cfg(test)]
mod tests {
    use super::{Error, member, output};

    #[test]
    fn port_names_become_members_as_verilator_writes_them() {
        assert_eq!(member("data"), "data");
        assert_eq!(member("mac$valid"), "mac__024valid");
        assert_eq!(member("a_b"), "a_b");
        assert_eq!(member("a__b"), "a___05Fb");
    }

    #[test]
    fn a_missing_tool_is_named() {
        let error = output("tsonic-no-such-compiler", &[]).unwrap_err();
        assert!(
            matches!(&error, Error::CompilerMissing(name) if name == "tsonic-no-such-compiler")
        );
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        let error = super::spawn_error("verilator", missing);
        assert!(
            error.to_string().contains("apt-get install verilator"),
            "{error}"
        );
    }
}
