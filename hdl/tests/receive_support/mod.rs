// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tests of the receive path share: a parser to compare with, written
//! for clarity from the RFCs, and frames, right and wrong.

#![allow(dead_code)] // Every test file takes what it needs.

pub mod bench;

use rand::{Rng, RngExt};
use tsonic_regs::completion::{ChecksumVerdict, HashKind};

pub use tsonic_regs::limits::{RSS_KEY, RSS_KEY_DEFAULT, RSS_TABLE};

/// What the receive path says about a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub ip_csum: ChecksumVerdict,
    pub l4_csum: ChecksumVerdict,
    pub hash_kind: HashKind,
    pub hash: u32,
    pub queue: u8,
}

fn be16(bytes: &[u8], at: usize) -> usize {
    usize::from(bytes[at]) << 8 | usize::from(bytes[at + 1])
}

/// Sum of big-endian halfwords, folded; an odd byte is the high half.
pub fn ones_sum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u64;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Bit by bit, as Microsoft describes it.
pub fn toeplitz(key: &[u8; RSS_KEY], input: &[u8]) -> u32 {
    let key_bit = |n: usize| u32::from(key[n / 8] >> (7 - n % 8) & 1);
    let mut hash = 0;
    for n in 0..8 * input.len() {
        if input[n / 8] >> (7 - n % 8) & 1 == 1 {
            for bit in 0..32 {
                hash ^= key_bit(n + bit) << (31 - bit);
            }
        }
    }
    hash
}

/// An IP packet in a frame: where its L4 header would be.
struct Packet<'a> {
    ip: &'a [u8],
    v6: bool,
    header: usize,
    /// Bytes behind the headers by the length field.
    rest: isize,
    protocol: u8,
    complete: bool,
    fragment: bool,
}

fn packet(frame: &[u8]) -> Option<Packet<'_>> {
    let mut at = 12;
    let mut tags = 0;
    let ethertype = loop {
        if frame.len() < at + 2 {
            return None;
        }
        match be16(frame, at) {
            0x8100 | 0x88a8 if tags < 2 => tags += 1,
            other => break other,
        }
        at += 4;
    };
    let ip = &frame[at + 2..];
    match ethertype {
        0x0800 if ip.len() >= 20 && ip[0] >> 4 == 4 => {
            let header = usize::from(ip[0] & 15) * 4;
            (header >= 20 && header <= ip.len()).then(|| Packet {
                ip,
                v6: false,
                header,
                rest: be16(ip, 2) as isize - header as isize,
                protocol: ip[9],
                complete: true,
                fragment: be16(ip, 6) & 0x3fff != 0,
            })
        }
        0x86dd if ip.len() >= 40 && ip[0] >> 4 == 6 => {
            let mut header = 40;
            let mut protocol = ip[6];
            let mut complete = true;
            let mut fragment = false;
            while matches!(protocol, 0 | 43 | 44 | 60) && !fragment {
                if ip.len() < header + 8 {
                    complete = false;
                    break;
                }
                let next = ip[header];
                if protocol == 44 {
                    fragment = be16(ip, header + 2) & 0xfff9 != 0;
                    header += 8;
                } else {
                    header += 8 + 8 * usize::from(ip[header + 1]);
                }
                protocol = next;
            }
            Some(Packet {
                ip,
                v6: true,
                header,
                rest: be16(ip, 4) as isize + 40 - header as isize,
                protocol,
                complete: complete && header <= ip.len(),
                fragment,
            })
        }
        _ => None,
    }
}

fn l4_verdict(p: &Packet) -> ChecksumVerdict {
    use ChecksumVerdict::{Bad, None, Ok};
    let l4 = &p.ip[p.header..];
    let rest = p.rest as usize;
    let mut length = rest;
    if p.protocol == 17 {
        if rest < 8 || l4.len() < 8 {
            return Bad;
        }
        let zero = be16(l4, 6) == 0;
        if zero {
            return if p.v6 { Bad } else { None };
        }
        length = be16(l4, 4);
        if length == 0 && p.v6 {
            length = rest;
        }
        if length < 8 || length > rest {
            return Bad;
        }
    } else if rest < 20 {
        return Bad;
    }
    if rest > l4.len() {
        return Bad;
    }
    let addresses = if p.v6 { &p.ip[8..40] } else { &p.ip[12..20] };
    let pseudo = [0, p.protocol, (length >> 8) as u8, length as u8];
    if ones_sum(&[addresses, &pseudo, &l4[..length]]) == 0xffff {
        Ok
    } else {
        Bad
    }
}

/// The verdict on a frame.
pub fn classify(frame: &[u8], key: &[u8; RSS_KEY], table: &[u8; RSS_TABLE]) -> Verdict {
    let mut verdict = Verdict {
        ip_csum: ChecksumVerdict::None,
        l4_csum: ChecksumVerdict::None,
        hash_kind: HashKind::None,
        hash: 0,
        queue: table[0],
    };
    let Some(p) = packet(frame) else {
        return verdict;
    };
    if !p.v6 {
        verdict.ip_csum = if ones_sum(&[&p.ip[..p.header]]) == 0xffff {
            ChecksumVerdict::Ok
        } else {
            ChecksumVerdict::Bad
        };
    }
    let mut input = if p.v6 {
        p.ip[8..40].to_vec()
    } else {
        p.ip[12..20].to_vec()
    };
    verdict.hash_kind = HashKind::L3;
    if matches!(p.protocol, 6 | 17) && p.complete && !p.fragment && p.rest >= 0 {
        verdict.l4_csum = l4_verdict(&p);
        if p.rest >= 4 && p.ip.len() >= p.header + 4 {
            verdict.hash_kind = HashKind::L4;
            input.extend_from_slice(&p.ip[p.header..p.header + 4]);
        }
    }
    verdict.hash = toeplitz(key, &input);
    verdict.queue = table[(verdict.hash & 0x7f) as usize];
    verdict
}

/// Random bytes.
pub fn bytes(rng: &mut impl Rng, count: usize) -> Vec<u8> {
    (0..count).map(|_| rng.random::<u8>()).collect()
}

fn chance(rng: &mut impl Rng, one_in: u32) -> bool {
    rng.random_range(0..one_in) == 0
}

/// An L4 header with `payload` bytes behind it, its checksum right for `pseudo`.
fn l4(rng: &mut impl Rng, protocol: u8, addresses: &[u8], payload: usize) -> Vec<u8> {
    let header = match protocol {
        6 => 20 + 4 * rng.random_range(0..11usize),
        17 => 8,
        _ => 0,
    };
    let mut l4 = bytes(rng, header + payload);
    let field = match protocol {
        6 => {
            l4[12] = (header as u8 / 4) << 4;
            16
        }
        17 => {
            let length = l4.len() as u16;
            l4[4..6].copy_from_slice(&length.to_be_bytes());
            6
        }
        _ => return l4,
    };
    l4[field..field + 2].fill(0);
    let length = l4.len() as u16;
    let pseudo = [0, protocol, (length >> 8) as u8, length as u8];
    let mut sum = !ones_sum(&[addresses, &pseudo, &l4]);
    if protocol == 17 {
        if chance(rng, 12) {
            sum = 0; // none
        } else if sum == 0 {
            sum = 0xffff;
        }
    }
    l4[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    l4
}

/// A frame as a network might carry it: mostly right, at times damaged, cut,
/// or lying about a length.
pub fn random_frame(rng: &mut impl Rng, longest: usize) -> Vec<u8> {
    if chance(rng, 30) {
        let count = rng.random_range(1..=longest.min(200));
        return bytes(rng, count);
    }
    let mut frame = bytes(rng, 12);
    for _ in 0..[0, 0, 0, 1, 1, 2, 3][rng.random_range(0..7usize)] {
        frame.extend(if chance(rng, 2) {
            [0x81, 0x00]
        } else {
            [0x88, 0xa8]
        });
        frame.extend(bytes(rng, 2));
    }
    let protocol = match rng.random_range(0..8) {
        0..4 => 6,
        4..7 => 17,
        _ => rng.random::<u8>(),
    };
    let payload = match rng.random_range(0..4) {
        0 => rng.random_range(0..20),
        1 => rng.random_range(0..200),
        _ => rng.random_range(0..longest.max(300) - 250),
    };
    let ip_start;
    if chance(rng, 2) {
        frame.extend([0x08, 0x00]);
        ip_start = frame.len();
        let words = if chance(rng, 3) {
            rng.random_range(5..16)
        } else {
            5
        };
        let mut header = bytes(rng, 4 * words);
        header[0] = 0x40 | words as u8;
        header[6..8].copy_from_slice(if chance(rng, 2) { &[0x40, 0] } else { &[0, 0] });
        if chance(rng, 12) {
            header[6] = rng.random::<u8>() & 0x3f;
        }
        if chance(rng, 24) {
            header[7] = rng.random();
        }
        header[9] = protocol;
        let l4 = l4(rng, protocol, &header[12..20], payload);
        let length = (header.len() + l4.len()) as u16;
        header[2..4].copy_from_slice(&length.to_be_bytes());
        header[10..12].fill(0);
        let sum = !ones_sum(&[&header]);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        frame.extend(header);
        frame.extend(l4);
    } else {
        frame.extend([0x86, 0xdd]);
        ip_start = frame.len();
        let mut header = bytes(rng, 40);
        header[0] = 0x60 | header[0] & 15;
        let mut extensions = Vec::new();
        let mut chain = Vec::new();
        if chance(rng, 2) {
            for _ in 0..rng.random_range(1..5) {
                chain.push([0u8, 43, 60, 44][rng.random_range(0..4usize)]);
            }
        }
        header[6] = chain.first().copied().unwrap_or(protocol);
        for (n, kind) in chain.iter().enumerate() {
            let units = if *kind == 44 {
                0
            } else {
                rng.random_range(0..4usize)
            };
            let mut extension = bytes(rng, 8 + 8 * units);
            extension[0] = chain.get(n + 1).copied().unwrap_or(protocol);
            extension[1] = units as u8;
            if *kind == 44 && !chance(rng, 3) {
                extension[2] = 0;
                extension[3] &= 0x06; // reserved bits decide nothing
            }
            extensions.extend(extension);
        }
        let l4 = l4(rng, protocol, &header[8..40], payload);
        let length = (extensions.len() + l4.len()) as u16;
        header[4..6].copy_from_slice(&length.to_be_bytes());
        frame.extend(header);
        frame.extend(extensions);
        frame.extend(l4);
    }
    match rng.random_range(0..12) {
        0 => {
            // A bit flips behind the addresses.
            let bit = rng.random_range(0..8 * (frame.len() - 12));
            frame[12 + bit / 8] ^= 1 << (bit % 8);
        }
        1 => {
            let length = rng.random_range(1..=frame.len());
            frame.truncate(length);
        }
        2 if frame.len() > ip_start + 8 => {
            // A length field lies.
            let at = ip_start + if frame[ip_start] >> 4 == 4 { 2 } else { 4 };
            let length = match rng.random_range(0..3) {
                0 => rng.random::<u16>() & 0x3f,
                1 => be16(&frame, at) as u16 ^ 1 << rng.random_range(0..5),
                _ => rng.random(),
            };
            frame[at..at + 2].copy_from_slice(&length.to_be_bytes());
        }
        3 if frame.len() > ip_start + 46 => {
            let at = ip_start + rng.random_range(20..46);
            frame[at] = rng.random(); // options, extension headers, ports, UDP length
        }
        _ => {}
    }
    if chance(rng, 4) || frame.len() < 60 && !chance(rng, 8) {
        let count = 60usize.saturating_sub(frame.len()) + rng.random_range(0..12);
        let zero = chance(rng, 2);
        frame.extend(
            bytes(rng, count)
                .into_iter()
                .map(|b| if zero { 0 } else { b }),
        );
    }
    frame
}

/// A table that deals rows to `queues` queues in turn.
pub fn round_robin(queues: usize) -> [u8; RSS_TABLE] {
    std::array::from_fn(|row| (row % queues) as u8)
}
