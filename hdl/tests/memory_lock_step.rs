// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory port's arbiter: RustHDL's simulation against its Verilog.

mod support;

use support::{RngExt, bits_of, lock_step};
use tsonic_hdl::memory::Memory;

#[test]
fn memory() {
    lock_step(
        Memory::default(),
        |b| &mut b.clock,
        20_000,
        1,
        |b, rng| {
            for signal in &mut b.req_valid {
                signal.next = rng.random_bool(0.3);
            }
            for signal in &mut b.req_addr {
                signal.next = bits_of(rng);
            }
            for signal in &mut b.req_len {
                signal.next = bits_of(rng);
            }
            for signal in &mut b.data_ready {
                signal.next = rng.random_bool(0.8);
            }
            for signal in &mut b.write_valid {
                signal.next = rng.random_bool(0.4);
            }
            for signal in &mut b.write_addr {
                signal.next = bits_of(rng);
            }
            for signal in &mut b.write_data {
                signal.next = bits_of(rng);
            }
            for signal in &mut b.write_strb {
                signal.next = bits_of(rng);
            }
            for signal in &mut b.write_last {
                signal.next = rng.random_bool(0.3);
            }
            b.rd_req_ready.next = rng.random_bool(0.6);
            b.rd_valid.next = rng.random_bool(0.6);
            b.rd_data.next = bits_of(rng);
            b.rd_last.next = rng.random_bool(0.4);
            b.rd_err.next = rng.random_bool(0.1);
            b.wr_ready.next = rng.random_bool(0.6);
            b.interrupt_valid.next = rng.random_bool(0.1);
            b.irq_ready.next = rng.random_bool(0.6);
        },
    );
}
