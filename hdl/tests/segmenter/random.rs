// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bursts of every shape.

use super::golden::{Burst, Kind};
use crate::support::{Pcg64Mcg, Rng, RngExt};

pub fn bytes(rng: &mut impl Rng, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    rng.fill_bytes(&mut bytes);
    bytes
}

/// IPv6 extension headers of every kind, as `next` says; `next` of the IPv6
/// header and the headers.
fn extensions(rng: &mut Pcg64Mcg, protocol: u8) -> (u8, Vec<u8>) {
    let mut kinds = Vec::new();
    for kind in [0, 60, 43, 43, 60] {
        if rng.random_bool(0.3) {
            kinds.push(kind);
        }
    }
    kinds.push(protocol);
    let mut out = Vec::new();
    for pair in kinds.windows(2) {
        let units = match pair[0] {
            43 => *[2usize, 2, 4, 6, 3, 0]
                .get(rng.random_range(0..6))
                .unwrap_or(&2),
            _ => rng.random_range(0..3),
        };
        let mut header = bytes(rng, 8 * (units + 1));
        header[0] = pair[1];
        header[1] = units as u8;
        if pair[0] == 43 {
            header[2] = *[0, 2, 4, 4, 3, 253]
                .get(rng.random_range(0..6))
                .unwrap_or(&0);
            header[3] = rng.random_range(0..3);
        }
        if out.len() + header.len() > 120 {
            // Too long for the template: a plain destination option instead.
            header.truncate(8);
            header[1] = 0;
        }
        out.extend(header);
    }
    (kinds[0], out)
}

/// A burst with random lengths, options and rubbish; at most `payload` bytes of
/// payload in segments of at most `mss`.
pub fn burst(rng: &mut Pcg64Mcg, payload: usize, mss: usize) -> Burst {
    let kind = match rng.random_range(0..10) {
        0 => Kind::Raw,
        1 | 2 => Kind::Csum,
        3 => Kind::Uso,
        _ => Kind::Tso,
    };
    let udp = kind == Kind::Uso || (kind == Kind::Csum && rng.random_bool(0.5));
    let ipv6 = rng.random_bool(0.5);
    let l2_len = 14 + 2 * rng.random_range(0..5);
    let mut header = bytes(rng, l2_len);
    let protocol = if udp { 17 } else { 6 };
    if ipv6 {
        let (next, rest) = extensions(rng, protocol);
        let mut fixed = bytes(rng, 40);
        fixed[0] = 0x60 | fixed[0] & 15;
        fixed[6] = next;
        header.extend(fixed);
        header.extend(rest);
    } else {
        let words = rng.random_range(5..=15);
        let mut fixed = bytes(rng, 4 * words);
        fixed[0] = 0x40 | words as u8;
        fixed[9] = protocol;
        header.extend(fixed);
    }
    let l3_len = header.len() - l2_len;
    let l4_len = if udp { 8 } else { 4 * rng.random_range(5..=15) };
    let mut l4 = bytes(rng, l4_len);
    if rng.random_bool(0.2) {
        // Carries everywhere.
        l4.fill(0xff);
        header[l2_len + 4..].fill(0xff);
        header[l2_len + 6] = if ipv6 { protocol } else { 0xff };
    }
    header.extend(l4);
    let (l3_len, l4_len) = if kind == Kind::Raw {
        // Any even split.
        let len = 14 + 2 * rng.random_range(0..=121);
        header = bytes(rng, len);
        let l3 = 2 * rng.random_range(0..=(len - 14) / 2).min(255);
        let l4 = (len - 14 - l3).min(60);
        header.truncate(14 + l3 + l4);
        (l3, l4)
    } else {
        (l3_len, l4_len)
    };
    let l2_len = if kind == Kind::Raw { 14 } else { l2_len };
    let mss = rng.random_range(1..=mss);
    let payload = match kind {
        Kind::Tso | Kind::Uso => rng.random_range(0..=payload),
        _ => rng.random_range(0..=mss),
    };
    let fill = rng.random_range(0..8);
    let payload = match fill {
        0 => vec![0xff; payload],
        1 => vec![0; payload],
        _ => bytes(rng, payload),
    };
    Burst {
        kind,
        ipv6,
        ip_id_fixed: rng.random_bool(0.3),
        cwr_all: rng.random_bool(0.3),
        l2_len,
        l3_len,
        l4_len,
        mss,
        header,
        payload,
        ctx: rng.next_u32() as u8,
    }
}
