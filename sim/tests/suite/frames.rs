// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames for tests, built by hand.

use tsonic_regs::descriptor::Kind;
use tsonic_sim::model::Layout;
use tsonic_sim::model::checksum::{TCP, UDP};

/// The payload generator of the golden vectors.
pub fn payload(seed: u32, len: usize) -> Vec<u8> {
    let mut x = seed;
    (0..len)
        .map(|_| {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (x >> 24) as u8
        })
        .collect()
}

/// A TCP/IPv4 template of 54 bytes.
pub fn tcp4_header(flow: u16) -> Vec<u8> {
    let mut h = vec![0u8; 54];
    h[0] = 2;
    h[6] = 2;
    h[12] = 8;
    h[14] = 0x45;
    h[18..20].copy_from_slice(&0x1000u16.to_be_bytes());
    h[20] = 0x40;
    h[22] = 64;
    h[23] = TCP;
    h[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    h[34..36].copy_from_slice(&(40_000 + flow).to_be_bytes());
    h[36..38].copy_from_slice(&5001u16.to_be_bytes());
    h[46] = 0x50;
    h[47] = 0x18;
    h
}

/// The layout of [`tcp4_header`].
pub fn tcp4_layout(kind: Kind, mss: usize) -> Layout {
    Layout {
        kind,
        ipv6: false,
        ip_id_fixed: false,
        cwr_all: false,
        l2_len: 14,
        l3_len: 20,
        l4_len: 20,
        mss,
    }
}

/// Source port of a TCP/IPv4 frame without options.
pub fn source_port(frame: &[u8]) -> u16 {
    u16::from_be_bytes([frame[34], frame[35]])
}

/// An IP frame around `l4`.
pub fn ip_frame(src: std::net::IpAddr, dst: std::net::IpAddr, protocol: u8, l4: &[u8]) -> Vec<u8> {
    use std::net::IpAddr::{V4, V6};
    let mut f = vec![2u8; 12];
    match (src, dst) {
        (V4(s), V4(d)) => {
            f.extend([8, 0, 0x45, 0]);
            f.extend((20 + l4.len() as u16).to_be_bytes());
            f.extend([0, 0, 0, 0, 64, protocol, 0, 0]);
            f.extend(s.octets());
            f.extend(d.octets());
        }
        (V6(s), V6(d)) => {
            f.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            f.extend((l4.len() as u16).to_be_bytes());
            f.extend([protocol, 64]);
            f.extend(s.octets());
            f.extend(d.octets());
        }
        _ => panic!("addresses of two families"),
    }
    f.extend_from_slice(l4);
    f
}

/// Protocol of a layout.
pub fn protocol(layout: &Layout) -> u8 {
    if layout.l4_len == 8 { UDP } else { TCP }
}
