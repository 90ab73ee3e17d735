// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Internet checksum (RFC 1071).

use core::net::IpAddr;

/// Ones'-complement sum of `bytes` as 16-bit big-endian words (an odd last byte
/// is padded with 0), added to `start`; not folded.
pub fn sum(start: u64, bytes: &[u8]) -> u64 {
    let mut acc = start;
    let mut words = bytes.chunks_exact(4);
    for w in &mut words {
        acc += u64::from(u32::from_be_bytes([w[0], w[1], w[2], w[3]]));
    }
    let rest = words.remainder();
    let mut last = [0u8; 4];
    last[..rest.len()].copy_from_slice(rest);
    acc + u64::from(u32::from_be_bytes(last))
}

/// Folds a sum to 16 bits.
pub fn fold(mut acc: u64) -> u16 {
    while acc > 0xffff {
        acc = (acc & 0xffff) + (acc >> 16);
    }
    acc as u16
}

/// Sum of the pseudo header: addresses, protocol and L4 length in bytes.
pub fn pseudo(src: IpAddr, dst: IpAddr, protocol: u8, len: usize) -> u64 {
    let acc = match (src, dst) {
        (IpAddr::V4(s), IpAddr::V4(d)) => sum(sum(0, &s.octets()), &d.octets()),
        (IpAddr::V6(s), IpAddr::V6(d)) => sum(sum(0, &s.octets()), &d.octets()),
        // Never on one packet; a wrong sum only makes a peer drop it.
        _ => 0,
    };
    acc + u64::from(protocol) + len as u64
}

/// Checksum field of an L4 packet whose field holds 0.
pub fn l4(src: IpAddr, dst: IpAddr, protocol: u8, packet: &[u8]) -> u16 {
    !fold(sum(pseudo(src, dst, protocol, packet.len()), packet))
}

/// Whether an L4 packet, its checksum field included, sums to all ones.
pub fn l4_ok(src: IpAddr, dst: IpAddr, protocol: u8, packet: &[u8]) -> bool {
    fold(sum(pseudo(src, dst, protocol, packet.len()), packet)) == 0xffff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc1071_example() {
        let b = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum(0, &b)), 0xddf2);
    }

    #[test]
    fn an_odd_byte_is_the_high_half() {
        assert_eq!(fold(sum(0, &[0xab])), 0xab00);
        assert_eq!(
            fold(sum(0, &[1, 2, 3, 4, 5])),
            fold(0x0102 + 0x0304 + 0x0500)
        );
    }
}
