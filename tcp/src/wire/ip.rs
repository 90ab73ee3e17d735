// SPDX-License-Identifier: MIT OR Apache-2.0
//! IPv4 (RFC 791) and IPv6 (RFC 8200) headers. Fragments are not reassembled:
//! a parse answers `None` for one.

use super::checksum::{fold, sum};
use super::{be16, put16};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Protocol number of ICMP.
pub const ICMP: u8 = 1;
/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of ICMPv6.
pub const ICMPV6: u8 = 58;

/// ECN field: not capable.
pub const NOT_ECT: u8 = 0;
/// ECN field: capable, codepoint 0.
pub const ECT0: u8 = 2;
/// ECN field: congestion experienced.
pub const CE: u8 = 3;

/// What the engine keeps of an IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip {
    /// Source.
    pub src: IpAddr,
    /// Destination.
    pub dst: IpAddr,
    /// Protocol of the payload (behind IPv6 extension headers).
    pub protocol: u8,
    /// ECN field, 0..=3.
    pub ecn: u8,
    /// TTL or hop limit.
    pub ttl: u8,
}

/// Header and payload of an IPv4 packet; padding behind it is cut off.
/// `check` says whether the header checksum must be verified.
#[inline]
pub fn parse_v4(b: &[u8], check: bool) -> Option<(Ip, &[u8])> {
    let h: &[u8; 20] = b.first_chunk()?;
    let header = usize::from(h[0] & 15) * 4;
    let total = usize::from(u16::from_be_bytes([h[2], h[3]]));
    if h[0] >> 4 != 4 || header < 20 || total < header || b.len() < total {
        return None;
    }
    // More fragments, or an offset.
    if u16::from_be_bytes([h[6], h[7]]) & 0x3fff != 0 {
        return None;
    }
    if check && fold(sum(0, &b[..header])) != 0xffff {
        return None;
    }
    let ip = Ip {
        src: IpAddr::V4(Ipv4Addr::new(h[12], h[13], h[14], h[15])),
        dst: IpAddr::V4(Ipv4Addr::new(h[16], h[17], h[18], h[19])),
        protocol: h[9],
        ecn: h[1] & 3,
        ttl: h[8],
    };
    Some((ip, &b[header..total]))
}

/// Header and payload of an IPv6 packet. Hop-by-hop, routing and destination
/// options are skipped.
pub fn parse_v6(b: &[u8]) -> Option<(Ip, &[u8])> {
    if b.len() < 40 || b[0] >> 4 != 6 {
        return None;
    }
    let total = 40 + usize::from(be16(b, 4)?);
    if b.len() < total {
        return None;
    }
    let address = |at: usize| {
        let mut o = [0; 16];
        o.copy_from_slice(&b[at..at + 16]);
        IpAddr::V6(Ipv6Addr::from(o))
    };
    let mut protocol = b[6];
    let mut at = 40;
    // At most eight extension headers: a chain is not followed for ever.
    for _ in 0..8 {
        match protocol {
            0 | 43 | 60 => {
                let ext = b.get(at..total)?;
                protocol = *ext.first()?;
                at += (usize::from(*ext.get(1)?) + 1) * 8;
            }
            44 => return None,
            _ => break,
        }
    }
    if at > total {
        return None;
    }
    let ip = Ip {
        src: address(8),
        dst: address(24),
        protocol,
        ecn: (b[1] >> 4) & 3,
        ttl: b[7],
    };
    Some((ip, &b[at..total]))
}

/// Bytes of the header that [`emit`] writes for this family.
pub const fn header_len(a: &IpAddr) -> usize {
    if a.is_ipv4() { 20 } else { 40 }
}

/// Writes an IP header for `payload` bytes; answers its length. A packet too
/// long for the 16-bit length field gets 0 there (a burst's template).
pub fn emit(ip: &Ip, id: u16, payload: usize, out: &mut [u8]) -> usize {
    match (ip.src, ip.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let total = u16::try_from(20 + payload).unwrap_or(0);
            // 0x4000: don't fragment.
            let mut words = [
                0x4500_0000 | u32::from(ip.ecn) << 16 | u32::from(total),
                u32::from(id) << 16 | 0x4000,
                u32::from(ip.ttl) << 24 | u32::from(ip.protocol) << 16,
                src.to_bits(),
                dst.to_bits(),
            ];
            let sum: u64 = words.iter().map(|w| u64::from(*w)).sum();
            words[2] |= u32::from(!fold(sum));
            for (to, w) in out[..20].as_chunks_mut::<4>().0.iter_mut().zip(words) {
                *to = w.to_be_bytes();
            }
            20
        }
        (src, dst) => {
            let octets = |a: IpAddr| match a {
                IpAddr::V4(a) => a.to_ipv6_mapped().octets(),
                IpAddr::V6(a) => a.octets(),
            };
            out[0] = 0x60;
            out[1] = ip.ecn << 4;
            put16(out, 2, 0);
            put16(out, 4, u16::try_from(payload).unwrap_or(0));
            out[6] = ip.protocol;
            out[7] = ip.ttl;
            out[8..24].copy_from_slice(&octets(src));
            out[24..40].copy_from_slice(&octets(dst));
            40
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_survive() {
        for (src, dst) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
            let ip = Ip {
                src: src.parse().unwrap(),
                dst: dst.parse().unwrap(),
                protocol: TCP,
                ecn: ECT0,
                ttl: 64,
            };
            let mut b = [0u8; 64];
            let n = emit(&ip, 7, 5, &mut b);
            let parsed = if ip.src.is_ipv4() {
                parse_v4(&b, true)
            } else {
                parse_v6(&b)
            };
            let (back, payload) = parsed.unwrap();
            assert_eq!((back, payload.len()), (ip, 5));
            b[n - 1] ^= 1;
            if ip.src.is_ipv4() {
                assert_eq!(parse_v4(&b, true), None, "bad checksum");
            }
        }
    }

    #[test]
    fn fragments_and_short_packets_are_refused() {
        let ip = Ip {
            src: "10.0.0.1".parse().unwrap(),
            dst: "10.0.0.2".parse().unwrap(),
            protocol: TCP,
            ecn: 0,
            ttl: 64,
        };
        let mut b = [0u8; 25];
        emit(&ip, 7, 5, &mut b);
        assert!(parse_v4(&b[..24], true).is_none());
        b[6] = 0x20;
        assert!(parse_v4(&b, false).is_none());
    }
}
