// SPDX-License-Identifier: MIT OR Apache-2.0
//! Last stage of the parser: at the end of a frame, says what its checksums are
//! worth, its hash and its queue, from what the other stages captured and from
//! the frame's length.
//!
//! | | |
//! |---|---|
//! | IPv4 header | Ethertype, version 4, IHL of at least 5, and all of it in the frame; else the frame is no IP |
//! | IPv6 header | Ethertype, version 6, 40 bytes in the frame; else the frame is no IP |
//! | `ip_csum` | of an IPv4 header: sum over it |
//! | TCP/UDP | the protocol behind the (extension) headers, when no fragment, and those headers lie inside the datagram's length and the frame |
//! | `hash_kind` | l4: TCP/UDP with both ports inside the datagram's length and the frame; else l3 for IP; else none |
//! | `l4_csum` none | no TCP/UDP; a UDP header over IPv4 with checksum 0 |
//! | `l4_csum` bad | datagram's length beyond the frame; less than a TCP (20) or UDP (8) header; UDP length below 8 (0 over IPv6 excepted) or beyond the datagram; UDP over IPv6 with checksum 0; a wrong sum |
//! | queue | row of the indirection table by the hash's low 7 bits; row 0 without hash |
//!
//! Samples other stages at fixed cycles after the end marker; the windows
//! in which their outputs belong to the frame are given by the timing notes of
//! [`super::ethernet`], [`super::network`], [`super::transport`] and
//! [`super::toeplitz`]. One verdict a frame, in order, at a fixed latency of
//! [`LATENCY`] cycles after the frame's last beat was offered.

use crate::prelude::*;

/// Cycles from the last beat at the input of [`super::ethernet::Ethernet`] to
/// the verdict.
pub const LATENCY: usize = 13;

/// See the module.
#[derive(LogicBlock, Default)]
pub struct Verdict {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// End marker of a frame.
    pub end_valid: Signal<In, bool>,
    /// The frame was marked as damaged.
    pub end_bad: Signal<In, bool>,
    /// Bytes of the frame.
    pub end_length: Signal<In, Bits<16>>,
    /// Bytes from the L3 header on.
    pub end_l3_length: Signal<In, Bits<17>>,
    /// Ethertype is IPv4's.
    pub end_ipv4: Signal<In, bool>,
    /// Ethertype is IPv6's.
    pub end_ipv6: Signal<In, bool>,

    /// See [`super::network::Network`], here and below.
    pub well_formed: Signal<In, bool>,
    /// Bytes up to the L4 header.
    pub off_l4: Signal<In, Bits<16>>,
    /// Bytes behind.
    pub rest: Signal<In, Bits<18>>,
    /// Protocol.
    pub protocol: Signal<In, Bits<8>>,
    /// No extension header is half walked.
    pub whole: Signal<In, bool>,
    /// A fragment.
    pub fragment: Signal<In, bool>,
    /// Sum of the IPv4 header.
    pub header_sum: Signal<In, Bits<22>>,
    /// Sum of the addresses.
    pub address_sum: Signal<In, Bits<22>>,
    /// See [`super::transport::Transport`], here and below.
    pub udp_length: Signal<In, Bits<16>>,
    /// UDP checksum field is 0.
    pub udp_zero: Signal<In, bool>,
    /// Sum from the L4 header on.
    pub sum: Signal<In, Bits<32>>,
    /// Hash of the addresses.
    pub l3_hash: Signal<In, Bits<32>>,
    /// The ports' part.
    pub l4_part: Signal<In, Bits<32>>,

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

    // What only has to come along: by cycles after the marker.
    valid1: DFF<bool>,
    valid2: DFF<bool>,
    valid3: DFF<bool>,
    valid4: DFF<bool>,
    valid5: DFF<bool>,
    valid6: DFF<bool>,
    valid7: DFF<bool>,
    valid8: DFF<bool>,
    valid9: DFF<bool>,
    pass: Delay<Bits<17>, 9>,
    pass_pack: Pack2<16, 1, 17>,
    passed: Signal<Local, Bits<17>>,
    len1: DFF<Bits<17>>,
    len2: DFF<Bits<17>>,
    four1: DFF<bool>,
    four2: DFF<bool>,
    six1: DFF<bool>,
    six2: DFF<bool>,

    // +3: sampled from the network stage.
    len3: DFF<Bits<18>>,
    four3: DFF<bool>,
    six3: DFF<bool>,
    off3: DFF<Bits<18>>,
    rest3: DFF<Bits<18>>,
    tcp3: DFF<bool>,
    udp3: DFF<bool>,
    l4_3: DFF<bool>,
    has20: Signal<Local, bool>,
    has40: Signal<Local, bool>,
    // +4
    four4: DFF<bool>,
    six4: DFF<bool>,
    after4: DFF<Bits<18>>,
    rest4: DFF<Bits<18>>,
    tcp4: DFF<bool>,
    udp4: DFF<bool>,
    l4_4: DFF<bool>,
    slack: Signal<Local, Bits<18>>,
    after_ok: Signal<Local, bool>,
    rest_ok: Signal<Local, bool>,
    rest_4: Signal<Local, bool>,
    rest_8: Signal<Local, bool>,
    rest_20: Signal<Local, bool>,
    after_4: Signal<Local, bool>,
    after_8: Signal<Local, bool>,
    // +5
    four5: DFF<bool>,
    six5: DFF<bool>,
    l4_5: DFF<bool>,
    tcp5: DFF<bool>,
    udp5: DFF<bool>,
    ports5: DFF<bool>,
    fits5: DFF<bool>,
    head5: DFF<bool>,
    rest5: DFF<Bits<16>>,
    header5: DFF<Bits<17>>,
    eff: Signal<Local, Bits<16>>,
    swap: ByteReverse<16>,
    protocol_half: Signal<Local, Bits<16>>,
    udp_default: Signal<Local, bool>,
    udp_fits: Signal<Local, bool>,
    // +6
    four6: DFF<bool>,
    six6: DFF<bool>,
    ports6: DFF<bool>,
    ip6: DFF<Bits<2>>,
    none6: DFF<bool>,
    doubt6: DFF<bool>,
    pseudo6: DFF<Bits<22>>,
    // +7
    ip7: DFF<Bits<2>>,
    none7: DFF<bool>,
    doubt7: DFF<bool>,
    kind7: DFF<Bits<2>>,
    total7: DFF<Bits<32>>,
    hash7: DFF<Bits<32>>,
    // +8
    ip8: DFF<Bits<2>>,
    none8: DFF<bool>,
    doubt8: DFF<bool>,
    kind8: DFF<Bits<2>>,
    fold8: DFF<Bits<17>>,
    hash8: DFF<Bits<32>>,
    queue8: DFF<Bits<8>>,
    // +9
    ip9: DFF<Bits<2>>,
    l4_9: DFF<Bits<2>>,
    kind9: DFF<Bits<2>>,
    hash9: DFF<Bits<32>>,
    queue9: DFF<Bits<8>>,
    queues: LutRam<Bits<8>, 7>,
}

impl Logic for Verdict {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self, clock, valid1, valid2, valid3, valid4, valid5, valid6, valid7, valid8, valid9,
            len1, len2, four1, four2, six1, six2, len3, four3, six3, off3, rest3, tcp3, udp3, l4_3,
            four4, six4, after4, rest4, tcp4, udp4, l4_4, four5, six5, l4_5, tcp5, udp5, ports5,
            fits5, head5, rest5, header5, four6, six6, ports6, ip6, none6, doubt6, pseudo6, ip7,
            none7, doubt7, kind7, total7, hash7, ip8, none8, doubt8, kind8, fold8, hash8, queue8,
            ip9, l4_9, kind9, hash9, queue9
        );
        self.valid1.d.next = self.end_valid.val();
        self.valid2.d.next = self.valid1.q.val();
        self.valid3.d.next = self.valid2.q.val();
        self.valid4.d.next = self.valid3.q.val();
        self.valid5.d.next = self.valid4.q.val();
        self.valid6.d.next = self.valid5.q.val();
        self.valid7.d.next = self.valid6.q.val();
        self.valid8.d.next = self.valid7.q.val();
        self.valid9.d.next = self.valid8.q.val();
        self.pass.clock.next = self.clock.val();
        self.pass.enable.next = true;
        self.pass_pack.i0.next = self.end_length.val();
        self.pass_pack.i1.next = self.end_bad.val().into();
        self.pass.d.next = self.pass_pack.out.val();
        self.passed.next = self.pass.q.val();
        self.len1.d.next = self.end_l3_length.val();
        self.len2.d.next = self.len1.q.val();
        self.four1.d.next = self.end_ipv4.val();
        self.four2.d.next = self.four1.q.val();
        self.six1.d.next = self.end_ipv6.val();
        self.six2.d.next = self.six1.q.val();

        // The network stage's captures belong to the frame from +2 to +3.
        self.has20.next = !self.len2.q.val().get_bit(16) & (self.len2.q.val() > 19);
        self.has40.next = !self.len2.q.val().get_bit(16) & (self.len2.q.val() > 39);
        self.len3.d.next = bit_cast::<18, 17>(self.len2.q.val());
        self.four3.d.next = self.four2.q.val() & self.well_formed.val() & self.has20.val();
        self.six3.d.next = self.six2.q.val() & self.well_formed.val() & self.has40.val();
        self.off3.d.next = bit_cast::<18, 16>(self.off_l4.val());
        self.rest3.d.next = self.rest.val();
        self.tcp3.d.next = self.protocol.val() == 6;
        self.udp3.d.next = self.protocol.val() == 17;
        self.l4_3.d.next = !self.fragment.val()
            & self.whole.val()
            & ((self.protocol.val() == 6) | (self.protocol.val() == 17));

        // Bytes of the frame from the L4 header on.
        self.four4.d.next = self.four3.q.val();
        self.six4.d.next = self.six3.q.val();
        self.after4.d.next = self.len3.q.val() - self.off3.q.val();
        self.rest4.d.next = self.rest3.q.val();
        self.tcp4.d.next = self.tcp3.q.val();
        self.udp4.d.next = self.udp3.q.val();
        self.l4_4.d.next = self.l4_3.q.val();

        // What lies inside of what.
        self.slack.next = self.after4.q.val() - self.rest4.q.val();
        self.after_ok.next = !self.after4.q.val().get_bit(17);
        self.rest_ok.next = !self.rest4.q.val().get_bit(17);
        self.rest_4.next = self.rest_ok.val() & self.rest4.q.val().get_bits::<16>(2).any();
        self.rest_8.next = self.rest_ok.val() & self.rest4.q.val().get_bits::<15>(3).any();
        self.rest_20.next = self.rest_ok.val() & (self.rest4.q.val() > 19);
        self.after_4.next = self.after_ok.val() & self.after4.q.val().get_bits::<16>(2).any();
        self.after_8.next = self.after_ok.val() & self.after4.q.val().get_bits::<15>(3).any();
        self.four5.d.next = self.four4.q.val() & self.after_ok.val();
        self.six5.d.next = self.six4.q.val();
        self.tcp5.d.next = self.tcp4.q.val();
        self.udp5.d.next = self.udp4.q.val();
        self.l4_5.d.next = (self.four4.q.val() | self.six4.q.val())
            & self.l4_4.q.val()
            & self.after_ok.val()
            & self.rest_ok.val();
        self.ports5.d.next = (self.four4.q.val() | self.six4.q.val())
            & self.l4_4.q.val()
            & self.rest_4.val()
            & self.after_4.val();
        self.fits5.d.next = !self.slack.val().get_bit(17);
        self.head5.d.next = (self.tcp4.q.val() & self.rest_20.val())
            | (self.udp4.q.val() & self.rest_8.val() & self.after_8.val());
        self.rest5.d.next = self.rest4.q.val().get_bits::<16>(0);
        // The header sum belongs to the frame from +4 to +5.
        self.header5.d.next = bit_cast::<17, 16>(self.header_sum.val().get_bits::<16>(0))
            + bit_cast::<17, 6>(self.header_sum.val().get_bits::<6>(16));

        // Pseudo-header; the address sum belongs to the frame up to +5.
        self.udp_default.next = self.six5.q.val() & (self.udp_length.val() == 0);
        self.udp_fits.next = self.udp_default.val()
            | ((self.udp_length.val() > 7) & (self.udp_length.val() <= self.rest5.q.val()));
        self.eff.next = self.rest5.q.val();
        self.protocol_half.next = 0x0600.into();
        if self.udp5.q.val() {
            self.protocol_half.next = 0x1100.into();
            if !self.udp_default.val() {
                self.eff.next = self.udp_length.val();
            }
        }
        self.swap.data.next = self.eff.val();
        self.pseudo6.d.next = (self.address_sum.val() + bit_cast::<22, 16>(self.swap.out.val()))
            + bit_cast::<22, 16>(self.protocol_half.val());
        self.four6.d.next = self.four5.q.val();
        self.six6.d.next = self.six5.q.val();
        self.ports6.d.next = self.ports5.q.val();
        self.ip6.d.next = 0.into();
        if self.four5.q.val() {
            self.ip6.d.next = 2.into();
            if (self.header5.q.val() == 0x0ffff) | (self.header5.q.val() == 0x1fffe) {
                self.ip6.d.next = 1.into();
            }
        }
        // Nothing to check, and what is wrong whatever the sum.
        self.none6.d.next = !self.l4_5.q.val()
            | (self.udp5.q.val() & self.head5.q.val() & self.four5.q.val() & self.udp_zero.val());
        self.doubt6.d.next = !self.head5.q.val()
            | !self.fits5.q.val()
            | (self.udp5.q.val()
                & (!self.udp_fits.val() | (self.udp_zero.val() & self.six5.q.val())));

        // Sum and hash belong to the frame from +6 on.
        self.ip7.d.next = self.ip6.q.val();
        self.none7.d.next = self.none6.q.val();
        self.doubt7.d.next = self.doubt6.q.val();
        self.total7.d.next = self.sum.val() + bit_cast::<32, 22>(self.pseudo6.q.val());
        self.kind7.d.next = 0.into();
        self.hash7.d.next = 0.into();
        if self.four6.q.val() | self.six6.q.val() {
            self.kind7.d.next = 1.into();
            self.hash7.d.next = self.l3_hash.val();
            if self.ports6.q.val() {
                self.kind7.d.next = 2.into();
                self.hash7.d.next = self.l3_hash.val() ^ self.l4_part.val();
            }
        }

        self.queues.clock.next = self.clock.val();
        self.queues.write_enable.next = self.table_write.val();
        self.queues.write_address.next = self.table_index.val();
        self.queues.write_data.next = self.table_value.val();
        self.queues.read_address.next = self.hash7.q.val().get_bits::<7>(0);
        self.ip8.d.next = self.ip7.q.val();
        self.none8.d.next = self.none7.q.val();
        self.doubt8.d.next = self.doubt7.q.val();
        self.kind8.d.next = self.kind7.q.val();
        self.hash8.d.next = self.hash7.q.val();
        self.queue8.d.next = self.queues.read_data.val();
        self.fold8.d.next = bit_cast::<17, 16>(self.total7.q.val().get_bits::<16>(0))
            + bit_cast::<17, 16>(self.total7.q.val().get_bits::<16>(16));

        self.ip9.d.next = self.ip8.q.val();
        self.kind9.d.next = self.kind8.q.val();
        self.hash9.d.next = self.hash8.q.val();
        self.queue9.d.next = self.queue8.q.val();
        self.l4_9.d.next = 2.into();
        if self.none8.q.val() {
            self.l4_9.d.next = 0.into();
        } else if !self.doubt8.q.val()
            & ((self.fold8.q.val() == 0x0ffff) | (self.fold8.q.val() == 0x1fffe))
        {
            self.l4_9.d.next = 1.into();
        }

        self.valid.next = self.valid9.q.val();
        self.bad.next = self.passed.val().get_bit(16);
        self.length.next = self.passed.val().get_bits::<16>(0);
        self.ip_csum.next = self.ip9.q.val();
        self.l4_csum.next = self.l4_9.q.val();
        self.hash_kind.next = self.kind9.q.val();
        self.hash.next = self.hash9.q.val();
        self.rss_queue.next = self.queue9.q.val();
    }
}
