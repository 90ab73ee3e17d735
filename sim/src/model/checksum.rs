// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Internet checksum (RFC 1071): the ones' complement sum of big-endian
//! 16-bit words, and where the pseudo-header takes its addresses from.

/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;
/// IPv6 next header: routing (RFC 8200, 4.4).
pub const ROUTING: u8 = 43;
/// Bytes of an IPv6 header.
pub const IPV6_HEADER: usize = 40;

/// The sum of `bytes` folded to 16 bits; an odd last byte counts as the high byte
/// of a word. `bytes` starts at an even place of what is summed.
pub fn sum(bytes: &[u8]) -> u32 {
    // RFC 1071, 2(B): the sum may be made in the host's byte order and swapped
    // once. Eight lanes of 32-bit words in 64-bit sums cannot overflow.
    let mut lanes = [0u64; 8];
    let mut blocks = bytes.chunks_exact(32);
    for block in &mut blocks {
        for (lane, word) in lanes.iter_mut().zip(block.chunks_exact(4)) {
            *lane += u64::from(u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
        }
    }
    let mut total: u64 = lanes.iter().map(|l| (l & 0xffff_ffff) + (l >> 32)).sum();
    let mut pairs = blocks.remainder().chunks_exact(2);
    for p in &mut pairs {
        total += u64::from(u16::from_ne_bytes([p[0], p[1]]));
    }
    if let [last] = pairs.remainder() {
        total += u64::from(u16::from_ne_bytes([*last, 0]));
    }
    u32::from(u16::from_be(fold64(total)))
}

fn fold64(mut total: u64) -> u16 {
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

/// Folds a sum of folded sums to 16 bits.
pub fn fold(total: u32) -> u16 {
    fold64(u64::from(total))
}

/// Sum of the pseudo-header of an L4 segment of `l4_len` bytes behind the L3
/// header `l3` (RFC 9293, 3.1; RFC 8200, 8.1: the *final* destination when
/// a routing header is present).
pub fn pseudo_sum(l3: &[u8], ipv6: bool, protocol: u8, l4_len: usize) -> u32 {
    let len = l4_len as u32;
    let addresses = if ipv6 {
        let mut source_and_destination = [0u8; 32];
        copy_up_to(&mut source_and_destination[..16], l3, 8);
        match final_destination(l3) {
            Some(d) => source_and_destination[16..].copy_from_slice(&d),
            None => copy_up_to(&mut source_and_destination[16..], l3, 24),
        }
        sum(&source_and_destination)
    } else {
        sum(l3.get(12..20).unwrap_or_default())
    };
    addresses + u32::from(protocol) + (len >> 16) + (len & 0xffff)
}

fn copy_up_to(to: &mut [u8], from: &[u8], at: usize) {
    if let Some(bytes) = from.get(at..at + to.len()) {
        to.copy_from_slice(bytes);
    }
}

/// The last address of a routing header that is not used up yet: types 0
/// (RFC 2460), 2 (RFC 6275) and 4 (RFC 8754, whose list is reversed).
fn final_destination(l3: &[u8]) -> Option<[u8; 16]> {
    let mut next = *l3.get(6)?;
    let mut at = IPV6_HEADER;
    while at + 8 <= l3.len() {
        let bytes = (usize::from(l3[at + 1]) + 1) * 8;
        let header = l3.get(at..at + bytes)?;
        if next == ROUTING {
            if header[3] == 0 || bytes < 24 {
                return None;
            }
            let address = match header[2] {
                0 | 2 => &header[bytes - 16..],
                4 => &header[8..24],
                _ => return None,
            };
            return address.try_into().ok();
        }
        next = header[0];
        at += bytes;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naive(bytes: &[u8]) -> u16 {
        let mut s = 0u32;
        for c in bytes.chunks(2) {
            s += u32::from(c[0]) << 8 | u32::from(*c.get(1).unwrap_or(&0));
            s = (s & 0xffff) + (s >> 16);
        }
        s as u16
    }

    #[test]
    fn the_fast_sum_is_the_sum() {
        let bytes: Vec<u8> = (0..4000u32).map(|i| ((i * 7919) >> 3) as u8).collect();
        for n in 0..200 {
            assert_eq!(sum(&bytes[..n]) as u16, naive(&bytes[..n]), "{n} bytes");
            assert_eq!(sum(&bytes[n..]) as u16, naive(&bytes[n..]));
        }
        assert_eq!(sum(&[0xff; 9001]) as u16, naive(&[0xff; 9001]));
        // RFC 1071, 3: the example.
        assert_eq!(sum(&[0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
    }

    #[test]
    fn a_routing_header_moves_the_destination() {
        let mut l3 = vec![0u8; 40 + 24];
        l3[6] = ROUTING;
        l3[24] = 0xaa;
        l3[40] = TCP;
        l3[41] = 2;
        l3[42] = 4;
        l3[48] = 0xbb;
        let direct = pseudo_sum(&l3, true, TCP, 20);
        l3[43] = 1;
        let via = pseudo_sum(&l3, true, TCP, 20);
        assert_eq!(direct + 0x1100, via);
    }
}
