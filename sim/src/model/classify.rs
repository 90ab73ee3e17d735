// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the NIC says of a received frame: checksum verdicts and the RSS hash.
//!
//! Ethernet, up to two VLAN tags, IPv4 or IPv6 with extension headers, TCP or
//! UDP. A verdict is reported, never acted upon. Bytes behind the IP packet
//! (padding) are not looked at. A frame whose IP header is cut short is not IP;
//! one whose L4 segment is cut short has a bad L4 checksum.

use tsonic_regs::completion::{ChecksumVerdict, HashKind};
use tsonic_regs::limits::RSS_KEY;

use super::checksum::{IPV6_HEADER, ROUTING, TCP, UDP, fold, pseudo_sum, sum};

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const VLAN_TAGS_MAX: usize = 2;
/// IPv6 next headers that have the common extension format (RFC 8200, 4; RFC 7045).
const EXTENSIONS: [u8; 6] = [0, ROUTING, 60, 135, 139, 140];
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
/// Longest input of the hash: two IPv6 addresses and two ports.
const HASH_INPUT_MAX: usize = 36;

/// The Toeplitz hash of one key, as a table per input byte.
pub struct Toeplitz {
    table: Box<[[u32; 256]; HASH_INPUT_MAX]>,
}

impl Toeplitz {
    /// The hash of a key.
    pub fn new(key: &[u8; RSS_KEY]) -> Toeplitz {
        let mut table = Box::new([[0u32; 256]; HASH_INPUT_MAX]);
        let window = |bit: usize| {
            (0..32).fold(0u32, |w, i| {
                let at = bit + i;
                w << 1 | u32::from(key[at / 8] >> (7 - at % 8) & 1)
            })
        };
        for (i, row) in table.iter_mut().enumerate() {
            let windows: [u32; 8] = std::array::from_fn(|b| window(i * 8 + b));
            for (value, hash) in row.iter_mut().enumerate() {
                *hash = (0..8)
                    .filter(|b| value >> (7 - b) & 1 == 1)
                    .fold(0, |h, b| h ^ windows[b]);
            }
        }
        Toeplitz { table }
    }

    /// Hash of up to 36 bytes that stand one after the other in `parts`.
    pub fn hash(&self, parts: &[&[u8]]) -> u32 {
        parts
            .iter()
            .flat_map(|p| p.iter())
            .zip(self.table.iter())
            .fold(0, |h, (byte, row)| h ^ row[usize::from(*byte)])
    }
}

/// The NIC's words on a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classified {
    /// IPv4 header checksum.
    pub ip_csum: ChecksumVerdict,
    /// L4 checksum.
    pub l4_csum: ChecksumVerdict,
    /// RSS hash; 0 with [`HashKind::None`].
    pub hash: u32,
    /// What the hash covers.
    pub hash_kind: HashKind,
}

const NOT_IP: Classified = Classified {
    ip_csum: ChecksumVerdict::None,
    l4_csum: ChecksumVerdict::None,
    hash: 0,
    hash_kind: HashKind::None,
};

/// Where the layers of a frame lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layers {
    /// Offset of the IP header.
    pub l3: usize,
    /// Offset of what follows the IP header and its extension headers.
    pub l4: usize,
    /// Offset of the IP packet's end, as its length field has it; may lie beyond
    /// the frame.
    pub end: usize,
    /// IPv6, not IPv4.
    pub ipv6: bool,
    /// Protocol at `l4`.
    pub protocol: u8,
    /// A fragment: no L4 header, or not all of the L4 segment.
    pub fragment: bool,
}

impl Layers {
    /// Parses a frame; `None` when it is not IP.
    pub fn parse(frame: &[u8]) -> Option<Layers> {
        let mut at = 12;
        let mut ethertype = be16(frame, at)?;
        for _ in 0..VLAN_TAGS_MAX {
            if ETHERTYPE_VLAN.contains(&ethertype) {
                at += 4;
                ethertype = be16(frame, at)?;
            }
        }
        let l3 = at + 2;
        match ethertype {
            ETHERTYPE_IPV4 => Layers::ipv4(frame, l3),
            ETHERTYPE_IPV6 => Layers::ipv6(frame, l3),
            _ => None,
        }
    }

    fn ipv4(frame: &[u8], l3: usize) -> Option<Layers> {
        let first = *frame.get(l3)?;
        let header = usize::from(first & 0xf) * 4;
        if first >> 4 != 4 || header < 20 || frame.len() < l3 + header {
            return None;
        }
        Some(Layers {
            l3,
            l4: l3 + header,
            end: l3 + usize::from(be16(frame, l3 + 2)?),
            ipv6: false,
            protocol: frame[l3 + 9],
            // More fragments, or an offset.
            fragment: be16(frame, l3 + 6)? & 0x3fff != 0,
        })
    }

    fn ipv6(frame: &[u8], l3: usize) -> Option<Layers> {
        if frame.len() < l3 + IPV6_HEADER || frame[l3] >> 4 != 6 {
            return None;
        }
        let mut layers = Layers {
            l3,
            l4: l3 + IPV6_HEADER,
            end: l3 + IPV6_HEADER + usize::from(be16(frame, l3 + 4)?),
            ipv6: true,
            protocol: frame[l3 + 6],
            fragment: false,
        };
        // Each header is at least 8 bytes, so the frame's length bounds the walk.
        while let Some(header) = frame.get(layers.l4..layers.l4 + 8) {
            let bytes = match layers.protocol {
                p if EXTENSIONS.contains(&p) => (usize::from(header[1]) + 1) * 8,
                AUTHENTICATION => (usize::from(header[1]) + 2) * 4,
                FRAGMENT => {
                    // Offset or M flag; neither is an atomic fragment (RFC 6946).
                    layers.fragment |= u16::from_be_bytes([header[2], header[3]]) & 0xfff9 != 0;
                    8
                }
                _ => break,
            };
            layers.protocol = header[0];
            layers.l4 += bytes;
            if layers.fragment {
                break;
            }
        }
        Some(layers)
    }

    /// The L4 segment; `None` when the frame ends before it does.
    pub fn segment<'a>(&self, frame: &'a [u8]) -> Option<&'a [u8]> {
        frame.get(self.l4..self.end)
    }

    /// Payload bytes of TCP, or 0.
    pub fn tcp_payload(&self, frame: &[u8]) -> usize {
        if self.protocol != TCP || self.fragment {
            return 0;
        }
        self.segment(frame).map_or(0, |s| match s.get(12) {
            Some(offset) => s.len().saturating_sub(usize::from(offset >> 4) * 4),
            None => 0,
        })
    }
}

/// Checks and hashes a frame.
pub fn classify(frame: &[u8], toeplitz: &Toeplitz) -> Classified {
    let Some(layers) = Layers::parse(frame) else {
        return NOT_IP;
    };
    let ip_csum = if layers.ipv6 {
        ChecksumVerdict::None
    } else {
        verdict(fold(sum(&frame[layers.l3..layers.l4])) == 0xffff)
    };
    let addresses = if layers.ipv6 {
        &frame[layers.l3 + 8..layers.l3 + 40]
    } else {
        &frame[layers.l3 + 12..layers.l3 + 20]
    };
    let has_ports = matches!(layers.protocol, TCP | UDP) && !layers.fragment;
    let ports = frame
        .get(layers.l4..layers.l4 + 4)
        .filter(|_| has_ports && layers.l4 + 4 <= layers.end);
    let (hash, hash_kind) = match ports {
        Some(ports) => (toeplitz.hash(&[addresses, ports]), HashKind::L4),
        None => (toeplitz.hash(&[addresses]), HashKind::L3),
    };
    let l4_csum = if has_ports {
        l4_verdict(frame, &layers)
    } else {
        ChecksumVerdict::None
    };
    Classified {
        ip_csum,
        l4_csum,
        hash,
        hash_kind,
    }
}

fn verdict(ok: bool) -> ChecksumVerdict {
    if ok {
        ChecksumVerdict::Ok
    } else {
        ChecksumVerdict::Bad
    }
}

fn l4_verdict(frame: &[u8], layers: &Layers) -> ChecksumVerdict {
    let Some(mut segment) = layers.segment(frame) else {
        return ChecksumVerdict::Bad;
    };
    if layers.protocol == UDP {
        let (Some(length), Some(checksum)) = (be16(segment, 4), be16(segment, 6)) else {
            return ChecksumVerdict::Bad;
        };
        if checksum == 0 {
            // RFC 768: none was made. RFC 8200, 8.1: IPv6 does not allow that.
            return if layers.ipv6 {
                ChecksumVerdict::Bad
            } else {
                ChecksumVerdict::None
            };
        }
        match segment.get(..usize::from(length)) {
            Some(datagram) if length >= 8 => segment = datagram,
            _ => return ChecksumVerdict::Bad,
        }
    } else if segment.len() < 20 {
        return ChecksumVerdict::Bad;
    }
    let l3 = &frame[layers.l3..layers.l4];
    let pseudo = pseudo_sum(l3, layers.ipv6, layers.protocol, segment.len());
    verdict(fold(pseudo + sum(segment)) == 0xffff)
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    let b = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes([b[0], b[1]]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tsonic_regs::limits::RSS_KEY_DEFAULT;

    #[test]
    fn any_bytes_are_classified() {
        // No panic on rubbish: every prefix of frames with each byte bent.
        let t = Toeplitz::new(&RSS_KEY_DEFAULT);
        let mut frame = [0u8; 120];
        for ethertype in [[0x08, 0x00], [0x86, 0xdd], [0x81, 0x00]] {
            frame[12..14].copy_from_slice(&ethertype);
            for protocol in [0, 6, 17, 43, 44, 51, 60] {
                for first in [0x45, 0x4f, 0x60, 0x00] {
                    frame[14] = first;
                    frame[20] = protocol;
                    frame[23] = protocol;
                    for n in 0..frame.len() {
                        classify(&frame[..n], &t);
                    }
                }
            }
        }
    }

    #[test]
    fn a_fragment_has_no_ports() {
        let t = Toeplitz::new(&RSS_KEY_DEFAULT);
        let mut frame = vec![0u8; 60];
        frame[12] = 8;
        frame[14] = 0x45;
        frame[17] = 40;
        frame[23] = 6;
        assert_eq!(classify(&frame, &t).hash_kind, HashKind::L4);
        frame[20] = 0x20;
        let c = classify(&frame, &t);
        assert_eq!(c.hash_kind, HashKind::L3);
        assert_eq!(c.l4_csum, ChecksumVerdict::None);
    }
}
