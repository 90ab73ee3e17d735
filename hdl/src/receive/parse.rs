// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parser: frames of the MAC in, one verdict a frame out. Takes a beat every
//! cycle whatever the frames are.

use super::ethernet::Ethernet;
use super::network::Network;
use super::toeplitz::Toeplitz;
use super::transport::Transport;
use super::verdict::Verdict;
use crate::prelude::*;

/// See the module; ports as in the stages.
#[derive(LogicBlock, Default)]
pub struct Parse {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// A beat arrives.
    pub rx_valid: Signal<In, bool>,
    /// Its bytes, the first at bits 7:0.
    pub rx_data: Signal<In, Bits<64>>,
    /// How many, 1..=8.
    pub rx_bytes: Signal<In, Bits<4>>,
    /// It is the frame's last.
    pub rx_last: Signal<In, bool>,
    /// The frame is damaged (with last).
    pub rx_bad: Signal<In, bool>,
    /// Writes a word of the RSS key.
    pub key_write: Signal<In, bool>,
    /// Number of the word, 0 to 9.
    pub key_index: Signal<In, Bits<4>>,
    /// Four bytes of the key, the first at bits 7:0.
    pub key_value: Signal<In, Bits<32>>,
    /// Writes a row of the indirection table.
    pub table_write: Signal<In, bool>,
    /// Row.
    pub table_index: Signal<In, Bits<7>>,
    /// Its queue.
    pub table_value: Signal<In, Bits<8>>,

    /// The outputs below hold a frame's verdict.
    pub valid: Signal<Out, bool>,
    /// The frame was marked as damaged.
    pub bad: Signal<Out, bool>,
    /// Bytes of the frame.
    pub length: Signal<Out, Bits<16>>,
    /// IPv4 header checksum, a `ChecksumVerdict`.
    pub ip_csum: Signal<Out, Bits<2>>,
    /// L4 checksum, a `ChecksumVerdict`.
    pub l4_csum: Signal<Out, Bits<2>>,
    /// A `HashKind`.
    pub hash_kind: Signal<Out, Bits<2>>,
    /// Hash, 0 if none.
    pub hash: Signal<Out, Bits<32>>,
    /// Queue.
    pub rss_queue: Signal<Out, Bits<8>>,

    ethernet: Ethernet,
    network: Network,
    transport: Transport,
    toeplitz: Toeplitz,
    verdict: Verdict,
    rest: Signal<Local, Bits<18>>,
}

impl Logic for Parse {
    #[hdl_gen]
    fn update(&mut self) {
        self.ethernet.clock.next = self.clock.val();
        self.network.clock.next = self.clock.val();
        self.transport.clock.next = self.clock.val();
        self.toeplitz.clock.next = self.clock.val();
        self.verdict.clock.next = self.clock.val();

        self.ethernet.rx_valid.next = self.rx_valid.val();
        self.ethernet.rx_data.next = self.rx_data.val();
        self.ethernet.rx_bytes.next = self.rx_bytes.val();
        self.ethernet.rx_last.next = self.rx_last.val();
        self.ethernet.rx_bad.next = self.rx_bad.val();

        self.network.l3_event.next = self.ethernet.l3_event.val();
        self.network.l3_data.next = self.ethernet.l3_data.val();
        self.network.l3_start.next = self.ethernet.l3_start.val();
        self.network.l3_ipv6.next = self.ethernet.l3_ipv6.val();

        self.rest.next = self.network.rest.val();
        self.transport.l4_event.next = self.network.l4_event.val();
        self.transport.l4_data.next = self.network.l4_data.val();
        self.transport.l4_start.next = self.network.l4_start.val();
        self.transport.udp.next = self.network.protocol.val() == 17;
        self.transport.ipv6.next = self.network.ipv6.val();
        self.transport.rest.next = self.rest.val().get_bits::<16>(0);

        self.toeplitz.key_write.next = self.key_write.val();
        self.toeplitz.key_index.next = self.key_index.val();
        self.toeplitz.key_value.next = self.key_value.val();
        self.toeplitz.l3_valid.next = self.network.hash_valid.val();
        self.toeplitz.l3_first.next = self.network.hash_first.val();
        self.toeplitz.l3_data.next = self.network.hash_data.val();
        self.toeplitz.l3_word.next = self.network.hash_word.val();
        self.toeplitz.l4_valid.next = self.transport.hash_valid.val();
        self.toeplitz.l4_data.next = self.transport.hash_data.val();
        self.toeplitz.l4_word.next = self.transport.hash_word.val();

        self.verdict.end_valid.next = self.ethernet.end_valid.val();
        self.verdict.end_bad.next = self.ethernet.end_bad.val();
        self.verdict.end_length.next = self.ethernet.end_length.val();
        self.verdict.end_l3_length.next = self.ethernet.end_l3_length.val();
        self.verdict.end_ipv4.next = self.ethernet.end_ipv4.val();
        self.verdict.end_ipv6.next = self.ethernet.end_ipv6.val();
        self.verdict.well_formed.next = self.network.well_formed.val();
        self.verdict.off_l4.next = self.network.off_l4.val();
        self.verdict.rest.next = self.network.rest.val();
        self.verdict.protocol.next = self.network.protocol.val();
        self.verdict.whole.next = self.network.whole.val();
        self.verdict.fragment.next = self.network.fragment.val();
        self.verdict.header_sum.next = self.network.header_sum.val();
        self.verdict.address_sum.next = self.network.address_sum.val();
        self.verdict.udp_length.next = self.transport.udp_length.val();
        self.verdict.udp_zero.next = self.transport.udp_zero.val();
        self.verdict.sum.next = self.transport.sum.val();
        self.verdict.l3_hash.next = self.toeplitz.l3_hash.val();
        self.verdict.l4_part.next = self.toeplitz.l4_part.val();
        self.verdict.table_write.next = self.table_write.val();
        self.verdict.table_index.next = self.table_index.val();
        self.verdict.table_value.next = self.table_value.val();

        self.valid.next = self.verdict.valid.val();
        self.bad.next = self.verdict.bad.val();
        self.length.next = self.verdict.length.val();
        self.ip_csum.next = self.verdict.ip_csum.val();
        self.l4_csum.next = self.verdict.l4_csum.val();
        self.hash_kind.next = self.verdict.hash_kind.val();
        self.hash.next = self.verdict.hash.val();
        self.rss_queue.next = self.verdict.rss_queue.val();
    }
}
