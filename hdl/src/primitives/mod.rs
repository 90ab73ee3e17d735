// SPDX-License-Identifier: MIT OR Apache-2.0
//! Catalogue of the primitives: the only place where hand-written Verilog
//! stands. Each is a Rust model and its Verilog, held together by lock-step
//! simulation (`tests/primitives.rs`).
//!
//! Conventions: `clock` is the only clock; field 0, byte 0 and bit 0 are the
//! least significant; widths that the type system cannot compute (`W = A + B`)
//! are extra const parameters that the constructor checks. "comb." means that
//! the output follows the input in the same cycle.
//!
//! | primitive | what it does | timing |
//! |---|---|---|
//! | [`Zext`]`<N, M>` | zero-extends (or truncates) N bits to M; the safe `bit_cast` of arithmetic | comb. |
//! | [`Pack2`]..[`Pack8`]`<A, B, .., W>` | concatenates `i0` (low), `i1`, .. into `out` | comb. |
//! | [`Unpack2`]..[`Unpack8`]`<A, B, .., W>` | splits `data` into `o0` (low), `o1`, .. | comb. |
//! | [`PackArray`]`<W, N, T>` / [`UnpackArray`]`<W, N, T>` | N equal fields of W bits to and from T bits | comb. |
//! | [`Select`]`<T, W, L>` | word `index` of W bits out of T bits (an array index that may vary) | comb. |
//! | [`Reg`]`<D>` | register with enable, synchronous reset and reset value | 1 cycle |
//! | [`Delay`]`<D, N>` | N registers in a row, with enable | N cycles |
//! | [`Ram`]`<D, A>` | 2^A words, one write and one read port, block RAM; a read must not hit a write of its cycle | read 1 cycle |
//! | [`RamBe`]`<A, W, B>` | the same with B byte enables | read 1 cycle |
//! | [`PairRam`]`<D, A>` | 2^A pairs of words, one of a pair at a time; otherwise as `Ram` | read 1 cycle |
//! | [`QueueRam`]`<D, Q, L>` | words of Q queues; a read may hit a write of its cycle and then returns the new word; distributed RAM up to 32 words, else block RAM | read 1 cycle |
//! | [`LutRam`]`<D, A>` | 2^A words, one write port, one asynchronous read port, distributed RAM | read comb. |
//! | [`LutRam2`]`<D, A>` | the same with two read ports | read comb. |
//! | [`SizedLutRam`]`<D, A>` | `LutRam` whose number of words is a value, for arrays of blocks | read comb. |
//! | [`Flags`]`<N, L>` | N bits, one set and one cleared a cycle, two read | 1 cycle, read comb. |
//! | [`Fifo`]`<D, A>` | 2^A words, first-word-fall-through, flush, almost-full by margin; distributed RAM up to 32 words, else block RAM | write to read 1 (LUT) or 2 cycles |
//! | [`Skid`]`<D>` | skid buffer: registers data, valid and ready of a stream | 1 cycle |
//! | [`ByteReverse`]`<W>` | reverses the bytes of a word: network order and back | comb. |
//! | [`Rotator`]`<W, S>` | rotates W/8 bytes to the right (down) or left | comb. |
//! | [`FirstOne`]`<N, L>` | index of the lowest or highest set bit, and one-hot | comb. |
//! | [`RoundRobin`]`<N, L>` | first set bit after `last`, cyclically | comb. |
//! | [`Above`]`<N, L>` | bits above an index | comb. |
//! | [`OneHot`]`<L, N>` | index to one-hot, with enable | comb. |
//! | [`ByteMask`]`<C, B, W>` | count of valid bytes to byte enables, and data with the other bytes cleared | comb. |
//! | [`ByteMerge`]`<B, W>` | each byte from one of two words | comb. |
//! | [`Fixed`]`<N, V>` | the constant V, which a block can hold and derive `Default` | constant |
//! | [`Setting`]`<N>` | the same for a value that a constructor computes | constant |
//! | [`Multiplier`]`<A, B, P>` | unsigned product, pipelined, on MULT18X18D | [`Multiplier::LATENCY`] cycles |

mod above;
mod bits;
mod fields;
mod fifo;
mod find;
mod fixed;
mod flags;
mod merge;
mod multiplier;
mod pack;
mod pair_ram;
mod queue_ram;
mod ram;
mod register;
mod reverse;
mod rotator;
mod select;
mod setting;
mod sized_ram;
mod skid;

pub use above::Above;
pub(crate) use fields::{pack_word, unpack_word};
pub use fifo::Fifo;
pub use find::{FirstOne, OneHot, RoundRobin};
pub use fixed::Fixed;
pub use flags::Flags;
pub use merge::ByteMerge;
pub use multiplier::Multiplier;
pub use pack::{
    Pack2, Pack3, Pack4, Pack5, Pack6, Pack7, Pack8, PackArray, Unpack2, Unpack3, Unpack4, Unpack5,
    Unpack6, Unpack7, Unpack8, UnpackArray, Zext,
};
pub use pair_ram::PairRam;
pub use queue_ram::QueueRam;
pub use ram::{LutRam, LutRam2, Ram, RamBe};
pub use register::{Delay, Reg};
pub use reverse::ByteReverse;
pub use rotator::Rotator;
pub use select::{ByteMask, Select};
pub use setting::Setting;
pub use sized_ram::SizedLutRam;
pub use skid::Skid;
