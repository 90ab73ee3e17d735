// SPDX-License-Identifier: MIT OR Apache-2.0
//! TCP headers with options (RFC 9293, 3.1; window scale and timestamps RFC
//! 7323; SACK RFC 2018).

use super::{be16, be32, put16, put32};
use tsonic_types::SeqNum;

/// Bytes of a header without options.
pub const HEADER: usize = 20;
/// Bytes of the timestamps option with its two NOPs.
pub const TIMESTAMP_BYTES: usize = 12;
/// Most SACK blocks in a header.
pub const SACK_MAX: usize = 4;

/// Control bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Flags = Flags(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Flags = Flags(0x02);
    /// Reset the connection.
    pub const RST: Flags = Flags(0x04);
    /// Push.
    pub const PSH: Flags = Flags(0x08);
    /// The acknowledgement field counts.
    pub const ACK: Flags = Flags(0x10);
    /// ECN echo (RFC 3168).
    pub const ECE: Flags = Flags(0x40);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Flags = Flags(0x80);

    /// Whether all bits of `f` are set.
    pub const fn has(self, f: Flags) -> bool {
        self.0 & f.0 == f.0
    }

    /// The bits of both.
    #[must_use]
    pub const fn with(self, f: Flags) -> Flags {
        Flags(self.0 | f.0)
    }

    /// With `f`'s bits when `on`.
    #[must_use]
    pub const fn with_if(self, on: bool, f: Flags) -> Flags {
        if on { self.with(f) } else { self }
    }
}

/// A SACK block: from `0` up to, not including, `1`.
pub type SackBlock = (SeqNum, SeqNum);

/// Options of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size.
    pub mss: Option<u16>,
    /// Window scale shift, as received (may exceed 14).
    pub window_scale: Option<u8>,
    /// SACK permitted.
    pub sack_permitted: bool,
    /// Timestamps: value and echo reply.
    pub timestamp: Option<(u32, u32)>,
    /// SACK blocks, the first `sack_count` count.
    pub sack: [SackBlock; SACK_MAX],
    /// Blocks in `sack`.
    pub sack_count: usize,
}

/// A TCP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number of the first byte (or of SYN).
    pub seq: SeqNum,
    /// Acknowledgement number.
    pub ack: SeqNum,
    /// Control bits.
    pub flags: Flags,
    /// Window, unscaled.
    pub window: u16,
    /// Options.
    pub options: Options,
}

impl Options {
    /// The SACK blocks.
    pub fn blocks(&self) -> &[SackBlock] {
        &self.sack[..self.sack_count.min(SACK_MAX)]
    }

    /// Bytes that [`Header::emit`] needs for them, a multiple of 4.
    #[inline]
    pub fn emitted_len(&self) -> usize {
        let mut n = 0;
        if self.mss.is_some() {
            n += 4;
        }
        if self.window_scale.is_some() {
            n += 4;
        }
        n += match (self.sack_permitted, self.timestamp.is_some()) {
            (_, true) => TIMESTAMP_BYTES,
            (true, false) => 4,
            (false, false) => 0,
        };
        if self.sack_count > 0 {
            n += 4 + 8 * self.sack_count;
        }
        n
    }

    #[inline]
    fn read(&mut self, b: &[u8]) {
        let mut rest = b;
        // What nearly every segment begins with, and many end with (RFC 7323,
        // appendix A).
        if let [1, 1, 8, 10, v0, v1, v2, v3, e0, e1, e2, e3, behind @ ..] = b {
            let value = u32::from_be_bytes([*v0, *v1, *v2, *v3]);
            let echo = u32::from_be_bytes([*e0, *e1, *e2, *e3]);
            self.timestamp = Some((value, echo));
            rest = behind;
        }
        if !rest.is_empty() {
            self.read_each(rest);
        }
    }

    fn read_each(&mut self, mut b: &[u8]) {
        let o = self;
        while let [kind, rest @ ..] = b {
            match kind {
                0 => break,
                1 => {
                    b = rest;
                    continue;
                }
                _ => {}
            }
            let Some(len) = rest.first().map(|l| usize::from(*l)) else {
                break;
            };
            if len < 2 || b.len() < len {
                break;
            }
            let body = &b[2..len];
            match (kind, body.len()) {
                (2, 2) => o.mss = be16(body, 0),
                (3, 1) => o.window_scale = Some(body[0]),
                (4, 0) => o.sack_permitted = true,
                (5, n) if n >= 8 && n.is_multiple_of(8) => {
                    o.sack_count = 0;
                    for block in body.chunks_exact(8).take(SACK_MAX) {
                        if let (Some(l), Some(r)) = (be32(block, 0), be32(block, 4)) {
                            o.sack[o.sack_count] = (SeqNum(l), SeqNum(r));
                            o.sack_count += 1;
                        }
                    }
                }
                (8, 8) => o.timestamp = be32(body, 0).zip(be32(body, 4)),
                _ => {}
            }
            b = &b[len..];
        }
    }

    fn emit(&self, out: &mut [u8]) {
        if let (Some((value, echo)), Ok(out)) = (
            self.timestamp,
            <&mut [u8; TIMESTAMP_BYTES]>::try_from(&mut *out),
        ) && !self.sack_permitted
        {
            // Nothing else has room.
            out[..4].copy_from_slice(&[1, 1, 8, 10]);
            out[4..8].copy_from_slice(&value.to_be_bytes());
            out[8..].copy_from_slice(&echo.to_be_bytes());
            return;
        }
        let mut at = 0;
        if let Some(mss) = self.mss {
            out[at..at + 2].copy_from_slice(&[2, 4]);
            put16(out, at + 2, mss);
            at += 4;
        }
        match (self.sack_permitted, self.timestamp) {
            (sack, Some((value, echo))) => {
                let lead = if sack { [4, 2] } else { [1, 1] };
                out[at..at + 2].copy_from_slice(&lead);
                out[at + 2..at + 4].copy_from_slice(&[8, 10]);
                put32(out, at + 4, value);
                put32(out, at + 8, echo);
                at += TIMESTAMP_BYTES;
            }
            (true, None) => {
                out[at..at + 4].copy_from_slice(&[1, 1, 4, 2]);
                at += 4;
            }
            (false, None) => {}
        }
        if let Some(shift) = self.window_scale {
            out[at..at + 4].copy_from_slice(&[1, 3, 3, shift]);
            at += 4;
        }
        if self.sack_count > 0 {
            let len = (2 + 8 * self.sack_count) as u8;
            out[at..at + 4].copy_from_slice(&[1, 1, 5, len]);
            at += 4;
            for (l, r) in self.blocks() {
                put32(out, at, l.0);
                put32(out, at + 4, r.0);
                at += 8;
            }
        }
    }
}

impl Header {
    /// Reads a segment into a header that is still as by default; answers the
    /// payload.
    #[inline(always)]
    pub fn read<'b>(&mut self, b: &'b [u8]) -> Option<&'b [u8]> {
        let h: &[u8; HEADER] = b.first_chunk()?;
        let len = usize::from(h[12] >> 4) * 4;
        if len < HEADER || b.len() < len {
            return None;
        }
        self.src_port = u16::from_be_bytes([h[0], h[1]]);
        self.dst_port = u16::from_be_bytes([h[2], h[3]]);
        self.seq = SeqNum(u32::from_be_bytes([h[4], h[5], h[6], h[7]]));
        self.ack = SeqNum(u32::from_be_bytes([h[8], h[9], h[10], h[11]]));
        self.flags = Flags(h[13]);
        self.window = u16::from_be_bytes([h[14], h[15]]);
        self.options.read(&b[HEADER..len]);
        Some(&b[len..])
    }

    /// Header and payload of a segment.
    pub fn parse(b: &[u8]) -> Option<(Header, &[u8])> {
        let mut header = Header::default();
        let payload = header.read(b)?;
        Some((header, payload))
    }

    /// Bytes that [`Header::emit`] writes.
    #[inline]
    pub fn emitted_len(&self) -> usize {
        HEADER + self.options.emitted_len()
    }

    /// Writes the header to the start of `out`, checksum field 0; answers its
    /// length.
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let len = self.emitted_len();
        let (head, options) = out[..len].split_at_mut(HEADER);
        let (ports, rest) = head.split_at_mut(4);
        let (numbers, rest) = rest.split_at_mut(8);
        put32(
            ports,
            0,
            u32::from(self.src_port) << 16 | u32::from(self.dst_port),
        );
        put32(numbers, 0, self.seq.0);
        put32(numbers, 4, self.ack.0);
        rest.copy_from_slice(&[
            ((len / 4) as u8) << 4,
            self.flags.0,
            (self.window >> 8) as u8,
            self.window as u8,
            0,
            0,
            0,
            0,
        ]);
        self.options.emit(options);
        len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn options() -> impl Strategy<Value = Options> {
        (
            any::<Option<u16>>(),
            proptest::option::of(0u8..15),
            any::<bool>(),
            any::<Option<(u32, u32)>>(),
            any::<[(u32, u32); SACK_MAX]>(),
            0usize..4,
        )
            .prop_map(|(mss, window_scale, sack_permitted, timestamp, raw, n)| {
                let mut sack = [(SeqNum(0), SeqNum(0)); SACK_MAX];
                // A SYN carries no blocks, and 40 bytes hold three with timestamps.
                let sack_count = if mss.is_some() || window_scale.is_some() {
                    0
                } else {
                    n
                };
                for i in 0..sack_count {
                    sack[i] = (SeqNum(raw[i].0), SeqNum(raw[i].1));
                }
                Options {
                    mss,
                    window_scale,
                    sack_permitted,
                    timestamp,
                    sack,
                    sack_count,
                }
            })
    }

    proptest! {
        #[test]
        fn a_header_survives(options in options(), seq: u32, ack: u32, flags: u8, window: u16) {
            let h = Header {
                src_port: 443, dst_port: 50_000, seq: SeqNum(seq), ack: SeqNum(ack),
                flags: Flags(flags), window, options,
            };
            let mut b = [0u8; 64];
            let n = h.emit(&mut b);
            prop_assert!(n <= 60);
            let (back, rest) = Header::parse(&b[..n]).unwrap();
            prop_assert_eq!(back, h);
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn any_bytes_are_parsed_without_panic(b in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = Header::parse(&b);
            let _ = super::super::ip::parse_v4(&b, false);
            let _ = super::super::ip::parse_v6(&b);
            let _ = super::super::ethernet::Ethernet::parse(&b);
            let _ = super::super::arp::Arp::parse(&b);
        }
    }
}
