// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receive path: MAC to host memory.
//!
//! ```text
//! MAC ─┬─► Parse ──verdict──► Store ──frame, words──► Deliver ──► memory write
//!      │    └ Ethernet ► Network ► Transport, Toeplitz ► Verdict    │ ▲
//!      └──────words───────────►┘                          take, complete │ descriptor
//! csr ──registers, doorbells──► RingTable ◄──────────────────────┘ cache
//!                                 ▲   ▲                                  ▲
//!                               fetch fill                               │
//!                   RingFetch ────┘   └──── RingFill ────────────────────┘
//!                      └─► memory read ─────────┘
//! ```
//!
//! A frame's life: its words go into [`Store`]'s buffer while [`Parse`] reads
//! along; the verdict follows the last beat by [`verdict::LATENCY`] cycles, and
//! with it the frame joins the list of those to be delivered. [`Deliver`] takes a
//! buffer of its queue from the descriptor cache, which [`RingFetch`] and
//! [`RingFill`] keep stocked with up to 16 descriptors a queue, writes the words
//! and a completion. [`RingTable`] holds all pointers.
//!
//! The MAC is never held up: what finds no room is dropped as a whole and
//! counted. One queue's lack of buffers delays no other; only a descriptor that is
//! already being read is waited for.
//!
//! Words of descriptors and completions: `tsonic-regs`.

pub mod deliver;
pub mod ethernet;
pub mod network;
pub mod parse;
pub mod ring_fetch;
pub mod ring_fill;
pub mod ring_table;
pub mod store;
pub mod toeplitz;
pub mod transport;
pub mod verdict;

use crate::prelude::*;
use deliver::Deliver;
use parse::Parse;
use ring_fetch::RingFetch;
use ring_fill::{RingFill, RxBufferRow};
use ring_table::{CACHE_LOG2, RingTable};
use store::Store;

/// Receive path of Q queues (2 to 256). 2^A is at least Q and at least 2; C is
/// A + 4, the width of an address of the descriptor cache.
#[derive(LogicBlock)]
pub struct Receive<const Q: usize, const A: usize, const C: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// The device is enabled.
    pub enable: Signal<In, bool>,
    /// A reset is under way: queues are turned off, frames and completions that
    /// are inside are thrown away, and nothing more is counted for want of buffers.
    pub resetting: Signal<In, bool>,
    /// Now.
    pub ticks: Signal<In, Bits<64>>,

    /// A beat from the MAC.
    pub rx_valid: Signal<In, bool>,
    /// Its bytes, the first at bits 7:0.
    pub rx_data: Signal<In, Bits<64>>,
    /// How many, 1..=8; 8 but in the frame's last beat.
    pub rx_bytes: Signal<In, Bits<4>>,
    /// It is the frame's last.
    pub rx_last: Signal<In, bool>,
    /// The frame is damaged (with last).
    pub rx_bad: Signal<In, bool>,

    /// A queue register is written.
    pub cfg_valid: Signal<In, bool>,
    /// Queue of the register.
    pub cfg_queue: Signal<In, Bits<8>>,
    /// Offset of the register in its queue block.
    pub cfg_offset: Signal<In, Bits<7>>,
    /// Value written.
    pub cfg_value: Signal<In, Bits<32>>,
    /// A receive doorbell is rung (never in the cycle of a register write).
    pub bell_valid: Signal<In, bool>,
    /// Its queue.
    pub bell_queue: Signal<In, Bits<8>>,
    /// New tail.
    pub bell_tail: Signal<In, Bits<32>>,
    /// Writes a word of the RSS key.
    pub key_write: Signal<In, bool>,
    /// Number of the word, 0 to 9.
    pub key_index: Signal<In, Bits<4>>,
    /// Four bytes of the key, the first at bits 7:0.
    pub key_value: Signal<In, Bits<32>>,
    /// Writes a row of the RSS indirection table.
    pub table_write: Signal<In, bool>,
    /// Row.
    pub table_index: Signal<In, Bits<7>>,
    /// Its queue.
    pub table_value: Signal<In, Bits<8>>,

    /// Read request.
    pub rd_req_valid: Signal<Out, bool>,
    /// Taken.
    pub rd_req_ready: Signal<In, bool>,
    /// Address.
    pub rd_req_addr: Signal<Out, Bits<64>>,
    /// Bytes, 16 to 64.
    pub rd_req_len: Signal<Out, Bits<13>>,
    /// A word that was read.
    pub rd_valid: Signal<In, bool>,
    /// Taken.
    pub rd_ready: Signal<Out, bool>,
    /// The word.
    pub rd_data: Signal<In, Bits<64>>,
    /// Last of its request.
    pub rd_last: Signal<In, bool>,
    /// The request failed.
    pub rd_err: Signal<In, bool>,
    /// A beat of a write.
    pub wr_valid: Signal<Out, bool>,
    /// Taken.
    pub wr_ready: Signal<In, bool>,
    /// Address of the beat.
    pub wr_addr: Signal<Out, Bits<64>>,
    /// Data.
    pub wr_data: Signal<Out, Bits<64>>,
    /// Byte enables.
    pub wr_strb: Signal<Out, Bits<8>>,
    /// Last of its request.
    pub wr_last: Signal<Out, bool>,

    /// A completion's last beat was taken for memory.
    pub written: Signal<Out, bool>,
    /// Its queue.
    pub written_queue: Signal<Out, Bits<8>>,
    /// It is an error.
    pub written_error: Signal<Out, bool>,
    /// Counts a frame received whole.
    pub count_frame: Signal<Out, bool>,
    /// Bytes of that frame.
    pub count_bytes: Signal<Out, Bits<16>>,
    /// Counts a frame dropped, or cut, for want of a buffer, be it the host's or
    /// the device's own.
    pub count_no_buffer: Signal<Out, bool>,
    /// Counts a frame that was damaged or too long.
    pub count_error: Signal<Out, bool>,
    /// Counts a frame with a wrong checksum.
    pub count_csum_error: Signal<Out, bool>,
    /// Counts a refused doorbell.
    pub count_refused: Signal<Out, bool>,
    /// No frame is inside and no request is under way.
    pub idle: Signal<Out, bool>,

    parse: Parse,
    store: Store,
    rings: RingTable<Q, A>,
    fetch: RingFetch<Q, A>,
    fill: RingFill,
    deliver: Deliver<Q>,
    cache: Ram<RxBufferRow, C>,
    cache_write: Pack2<4, A, C>,
    cache_read: Pack2<4, A, C>,
    spilled: DFF<Bits<8>>,
}

impl<const Q: usize, const A: usize, const C: usize> Default for Receive<Q, A, C> {
    /// # Panics
    /// When the parameters do not fit together.
    fn default() -> Self {
        assert!((2..=256).contains(&Q), "queues of the receive path");
        assert!(
            A >= 2 && A <= 8 && 1 << A >= Q && C == A + CACHE_LOG2,
            "widths of the receive path"
        );
        Self {
            clock: Default::default(),
            enable: Default::default(),
            resetting: Default::default(),
            ticks: Default::default(),
            rx_valid: Default::default(),
            rx_data: Default::default(),
            rx_bytes: Default::default(),
            rx_last: Default::default(),
            rx_bad: Default::default(),
            cfg_valid: Default::default(),
            cfg_queue: Default::default(),
            cfg_offset: Default::default(),
            cfg_value: Default::default(),
            bell_valid: Default::default(),
            bell_queue: Default::default(),
            bell_tail: Default::default(),
            key_write: Default::default(),
            key_index: Default::default(),
            key_value: Default::default(),
            table_write: Default::default(),
            table_index: Default::default(),
            table_value: Default::default(),
            rd_req_valid: Default::default(),
            rd_req_ready: Default::default(),
            rd_req_addr: Default::default(),
            rd_req_len: Default::default(),
            rd_valid: Default::default(),
            rd_ready: Default::default(),
            rd_data: Default::default(),
            rd_last: Default::default(),
            rd_err: Default::default(),
            wr_valid: Default::default(),
            wr_ready: Default::default(),
            wr_addr: Default::default(),
            wr_data: Default::default(),
            wr_strb: Default::default(),
            wr_last: Default::default(),
            written: Default::default(),
            written_queue: Default::default(),
            written_error: Default::default(),
            count_frame: Default::default(),
            count_bytes: Default::default(),
            count_no_buffer: Default::default(),
            count_error: Default::default(),
            count_csum_error: Default::default(),
            count_refused: Default::default(),
            idle: Default::default(),
            parse: Default::default(),
            store: Default::default(),
            rings: Default::default(),
            fetch: Default::default(),
            fill: Default::default(),
            deliver: Default::default(),
            cache: Default::default(),
            cache_write: Default::default(),
            cache_read: Default::default(),
            spilled: Default::default(),
        }
    }
}

impl<const Q: usize, const A: usize, const C: usize> Logic for Receive<Q, A, C> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, spilled);
        clock!(
            self, clock, parse, store, rings, fetch, fill, deliver, cache
        );

        self.parse.rx_valid.next = self.rx_valid.val();
        self.parse.rx_data.next = self.rx_data.val();
        self.parse.rx_bytes.next = self.rx_bytes.val();
        self.parse.rx_last.next = self.rx_last.val();
        self.parse.rx_bad.next = self.rx_bad.val();
        self.parse.key_write.next = self.key_write.val();
        self.parse.key_index.next = self.key_index.val();
        self.parse.key_value.next = self.key_value.val();
        self.parse.table_write.next = self.table_write.val();
        self.parse.table_index.next = self.table_index.val();
        self.parse.table_value.next = self.table_value.val();

        self.store.enable.next = self.enable.val();
        self.store.now.next = self.ticks.val().get_bits::<32>(0);
        self.store.rx_valid.next = self.rx_valid.val();
        self.store.rx_data.next = self.rx_data.val();
        self.store.rx_last.next = self.rx_last.val();
        self.store.rx_bad.next = self.rx_bad.val();
        self.store.verdict_valid.next = self.parse.valid.val();
        self.store.verdict_bad.next = self.parse.bad.val();
        self.store.verdict_length.next = self.parse.length.val();
        self.store.verdict_ip_csum.next = self.parse.ip_csum.val();
        self.store.verdict_l4_csum.next = self.parse.l4_csum.val();
        self.store.verdict_hash_kind.next = self.parse.hash_kind.val();
        self.store.verdict_hash.next = self.parse.hash.val();
        self.store.verdict_queue.next = self.parse.rss_queue.val();
        self.store.frame_ready.next = self.deliver.frame_ready.val();
        self.store.read_enable.next = self.deliver.read_enable.val();
        self.store.read_pointer.next = self.deliver.read_pointer.val();

        self.rings.enable.next = self.enable.val();
        self.rings.resetting.next = self.resetting.val();
        self.rings.cfg_valid.next = self.cfg_valid.val();
        self.rings.cfg_queue.next = self.cfg_queue.val();
        self.rings.cfg_offset.next = self.cfg_offset.val();
        self.rings.cfg_value.next = self.cfg_value.val();
        self.rings.bell_valid.next = self.bell_valid.val();
        self.rings.bell_queue.next = self.bell_queue.val();
        self.rings.bell_tail.next = self.bell_tail.val();
        self.rings.fetch_valid.next = self.fetch.fetch_valid.val();
        self.rings.fetch_claim.next = self.fetch.fetch_claim.val();
        self.rings.fetch_queue.next = self.fetch.fetch_queue.val();
        self.rings.fetch_count.next = self.fetch.fetch_count.val();
        self.rings.fetch_epoch.next = self.fetch.fetch_epoch.val();
        self.rings.fill_valid.next = self.fill.fill_valid.val();
        self.rings.fill_peek.next = self.fill.fill_peek.val();
        self.rings.fill_queue.next = self.fill.fill_queue.val();
        self.rings.fill_taken.next = self.fill.fill_taken.val();
        self.rings.fill_good.next = self.fill.fill_good.val();
        self.rings.fill_epoch.next = self.fill.fill_epoch.val();
        self.rings.deliver_valid.next = self.deliver.deliver_valid.val();
        self.rings.deliver_take.next = self.deliver.deliver_take.val();
        self.rings.deliver_queue.next = self.deliver.deliver_queue.val();
        self.rings.deliver_epoch.next = self.deliver.deliver_epoch.val();
        self.rings.deliver_any.next = self.deliver.deliver_any.val();

        self.fetch.cfg_valid.next = self.cfg_valid.val();
        self.fetch.cfg_queue.next = self.cfg_queue.val();
        self.fetch.cfg_offset.next = self.cfg_offset.val();
        self.fetch.cfg_value.next = self.cfg_value.val();
        self.fetch.bell_valid.next = self.bell_valid.val();
        self.fetch.bell_queue.next = self.bell_queue.val();
        self.fetch.want_valid.next = self.deliver.want_valid.val();
        self.fetch.want_queue.next = self.deliver.want_queue.val();
        self.fetch.fetch_ready.next = self.rings.fetch_ready.val();
        self.fetch.found.next = self.rings.found.val();
        self.fetch.count.next = self.rings.count.val();
        self.fetch.slot.next = self.rings.slot.val();
        self.fetch.epoch.next = self.rings.epoch.val();
        self.fetch.rd_req_ready.next = self.rd_req_ready.val();
        self.fetch.request_ready.next = self.fill.request_ready.val();
        self.rd_req_valid.next = self.fetch.rd_req_valid.val();
        self.rd_req_addr.next = self.fetch.rd_req_addr.val();
        self.rd_req_len.next = self.fetch.rd_req_len.val();

        self.fill.request_valid.next = self.fetch.request_valid.val();
        self.fill.request.next = self.fetch.request.val();
        self.fill.rd_valid.next = self.rd_valid.val();
        self.fill.rd_data.next = self.rd_data.val();
        self.fill.rd_last.next = self.rd_last.val();
        self.fill.rd_err.next = self.rd_err.val();
        self.fill.fill_ready.next = self.rings.fill_ready.val();
        self.fill.place.next = self.rings.place.val();
        self.fill.epoch.next = self.rings.epoch.val();
        self.fill.refusal_ready.next = self.deliver.refusal_ready.val();
        self.rd_ready.next = self.fill.rd_ready.val();

        self.cache_write.i0.next = self.fill.cache_place.val();
        self.cache_write.i1.next = bit_cast::<A, 8>(self.fill.cache_queue.val());
        self.cache.write_enable.next = self.fill.cache_write.val();
        self.cache.write_address.next = self.cache_write.out.val();
        self.cache.write_data.next = self.fill.cache_row.val();
        self.cache_read.i0.next = self.deliver.cache_place.val();
        self.cache_read.i1.next = bit_cast::<A, 8>(self.deliver.cache_queue.val());
        self.cache.read_enable.next = self.deliver.cache_read.val();
        self.cache.read_address.next = self.cache_read.out.val();

        self.deliver.ticks.next = self.ticks.val();
        self.deliver.cfg_valid.next = self.cfg_valid.val();
        self.deliver.cfg_queue.next = self.cfg_queue.val();
        self.deliver.cfg_offset.next = self.cfg_offset.val();
        self.deliver.cfg_value.next = self.cfg_value.val();
        self.deliver.frame_valid.next = self.store.frame_valid.val();
        self.deliver.frame.next = self.store.frame.val();
        self.deliver.read_data.next = self.store.read_data.val();
        self.deliver.bell_error.next = self.rings.bell_error.val();
        self.deliver.bell_error_queue.next = self.rings.bell_error_queue.val();
        self.deliver.refusal_valid.next = self.fill.refusal_valid.val();
        self.deliver.refusal.next = self.fill.refusal.val();
        self.deliver.deliver_ready.next = self.rings.deliver_ready.val();
        self.deliver.place.next = self.rings.place.val();
        self.deliver.epoch.next = self.rings.epoch.val();
        self.deliver.found.next = self.rings.found.val();
        self.deliver.waiting.next = self.rings.waiting.val();
        self.deliver.index.next = self.rings.index.val();
        self.deliver.turned.next = self.rings.turned.val();
        self.deliver.cache_row.next = self.cache.read_data.val();
        self.deliver.wr_ready.next = self.wr_ready.val();
        self.wr_valid.next = self.deliver.wr_valid.val();
        self.wr_addr.next = self.deliver.wr_addr.val();
        self.wr_data.next = self.deliver.wr_data.val();
        self.wr_strb.next = self.deliver.wr_strb.val();
        self.wr_last.next = self.deliver.wr_last.val();

        self.written.next = self.deliver.written.val();
        self.written_queue.next = self.deliver.written_queue.val();
        self.written_error.next = self.deliver.written_error.val();
        self.count_frame.next = self.store.counted.val();
        self.count_bytes.next = self.store.counted_bytes.val();
        self.count_error.next = self.store.error.val();
        self.count_csum_error.next = self.store.csum_error.val();
        self.count_refused.next = self.rings.refused.val();
        // Two sources, one pulse a cycle: those of the buffer wait.
        self.count_no_buffer.next =
            (self.deliver.no_buffer.val() | (self.spilled.q.val() != 0)) & !self.resetting.val();
        if self.store.overflow.val() & (self.deliver.no_buffer.val() | (self.spilled.q.val() == 0))
        {
            self.spilled.d.next = self.spilled.q.val() + 1;
        } else if !self.store.overflow.val()
            & !self.deliver.no_buffer.val()
            & (self.spilled.q.val() != 0)
        {
            self.spilled.d.next = self.spilled.q.val() - 1;
        }
        self.idle.next = self.store.idle.val()
            & self.deliver.idle.val()
            & self.fetch.idle.val()
            & (self.spilled.q.val() == 0);
    }
}
