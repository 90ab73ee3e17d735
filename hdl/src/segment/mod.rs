// SPDX-License-Identifier: MIT OR Apache-2.0
//! The segmenter: header template and payload of one segment in, one finished
//! frame out, at 64 bits a cycle.
//!
//! ```text
//! job ─► Intake ─plan─► Loader ◄─ header beats       sums        ┌────────┐
//!                 │       ├─ patched words + tags ─► header RAM ─►        │
//!                 │       └─ header sums ──────────────► Finish ─►  Emit  ├─► frame beats
//!                 └───► Slicer ◄─ payload beats    └────► ▲      │        ├─► departed
//!                         ├─ words ────────────────► payload ring►        │
//!                         └─ payload sum ─────────────────┘      └────────┘
//! ```
//!
//! A frame's L4 checksum stands in front of the bytes that it covers, so a
//! segment is stored while it is summed, and its header leaves after it.
//!
//! # Alignment
//!
//! Inside, byte 0 of a word is its most significant byte, so that a halfword is
//! the number that the protocols mean. The header is shifted so that it *ends*
//! on a word boundary: the payload then needs no shift, header and payload never
//! share a word, and, L3 and L4 header lengths being multiples of 4, every field
//! that changes lies in one 32-bit half of a word. The up to 6 bytes of padding
//! in front of the frame are dropped by a shift at the very end.
//!
//! # Rules (those of the Linux kernel's software segmentation)
//!
//! * IPv4 total length, IPv6 payload length (with extension headers), UDP length,
//!   IPv4 header checksum and L4 checksum are computed; what the template holds
//!   in those places is ignored.
//! * TCP sequence number + `offset`; IPv4 identification + `index`, unless fixed;
//!   FIN and PSH on the last segment only; CWR on the first only, or on all
//!   (accurate ECN); every other flag, RST and URG too, is copied.
//! * A UDP checksum of 0 becomes 0xffff, and so does a TCP one in checksum-only
//!   mode; segmentation leaves a TCP checksum of 0.
//! * The pseudo header holds the *final* destination: behind an IPv6 routing
//!   header of type 0, 2 or 4 with segments left that is the last address of the
//!   route (RFC 8200, 8.1; RFC 8754), not the one in the IPv6 header.
//! * `Raw` frames pass untouched.
//!
//! # Faults
//!
//! A segment is dropped whole, and `departed` says so, when its payload or header
//! ends with `err`, when either has more or fewer beats than its length says, or
//! when the job breaks a rule of `tsonic_regs::check`. A job that is dropped still
//! consumes its header and payload beats up to `last`.

mod emit;
mod finish;
mod intake;
mod loader;
mod routing;
mod slicer;
mod top;
mod types;

pub use emit::Emit;
pub use finish::Finish;
pub use intake::Intake;
pub use loader::Loader;
pub use routing::Routing;
pub use slicer::Slicer;
pub use top::{DefaultSegmenter, Segmenter};
pub use types::{Departed, HeaderSums, HeaderWord, JobPlan, PayloadSum, SegmentJob, SegmentPlan};

/// log2 of the jobs inside the segmenter at a time: as many as the FIFOs between
/// its parts have words and the header RAM has banks, so none of them can run
/// over.
pub const SLOTS_LOG2: usize = 4;
/// Free words of the payload ring at which no beat is taken: its level is known
/// one cycle late, and one more beat may have come.
pub const RING_MARGIN: usize = 1;
/// Free words of the output FIFO at which no more words are read from the RAMs:
/// three may be on their way when one more is read, and a frame's last word can
/// become two beats.
pub const OUTPUT_MARGIN: usize = 4;
/// log2 of the words of the output FIFO.
pub const OUTPUT_LOG2: usize = 4;
