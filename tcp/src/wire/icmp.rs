// SPDX-License-Identifier: MIT OR Apache-2.0
//! Echo of ICMP (RFC 792) and ICMPv6 (RFC 4443).

use super::checksum;
use super::ip::{ICMP, ICMPV6, Ip};

/// Bytes of an echo header.
pub const ECHO_HEADER: usize = 8;

const ECHO_REQUEST_V4: u8 = 8;
const ECHO_REQUEST_V6: u8 = 128;
const ECHO_REPLY_V6: u8 = 129;

/// The reply's header to an echo request in `packet` (an ICMP packet under
/// `ip`), or `None` if it is no valid echo request. The reply's data is
/// `packet[8..]`.
pub fn echo_reply(ip: &Ip, packet: &[u8]) -> Option<[u8; ECHO_HEADER]> {
    let (request, reply) = match ip.protocol {
        ICMP => (ECHO_REQUEST_V4, 0),
        ICMPV6 => (ECHO_REQUEST_V6, ECHO_REPLY_V6),
        _ => return None,
    };
    let head = packet.get(..ECHO_HEADER)?;
    if head[0] != request || head[1] != 0 {
        return None;
    }
    let ok = if ip.protocol == ICMP {
        checksum::fold(checksum::sum(0, packet)) == 0xffff
    } else {
        checksum::l4_ok(ip.src, ip.dst, ICMPV6, packet)
    };
    if !ok {
        return None;
    }
    let mut out = [0; ECHO_HEADER];
    out[0] = reply;
    out[4..8].copy_from_slice(&head[4..8]);
    let start = if ip.protocol == ICMP {
        0
    } else {
        checksum::pseudo(ip.dst, ip.src, ICMPV6, packet.len())
    };
    let sum = checksum::sum(checksum::sum(start, &out), &packet[ECHO_HEADER..]);
    out[2..4].copy_from_slice(&(!checksum::fold(sum)).to_be_bytes());
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::checksum::{fold, l4, l4_ok, sum};

    #[test]
    fn a_request_gets_a_reply_that_sums_up() {
        let ip4 = Ip {
            src: "10.0.0.1".parse().unwrap(),
            dst: "10.0.0.2".parse().unwrap(),
            protocol: ICMP,
            ecn: 0,
            ttl: 64,
        };
        let mut p = vec![8, 0, 0, 0, 0, 1, 0, 2, 9, 9, 9];
        let c = !fold(sum(0, &p));
        p[2..4].copy_from_slice(&c.to_be_bytes());
        let head = echo_reply(&ip4, &p).unwrap();
        let mut r = p.clone();
        r[..8].copy_from_slice(&head);
        assert_eq!((r[0], fold(sum(0, &r))), (0, 0xffff));
        p[9] ^= 1;
        assert_eq!(echo_reply(&ip4, &p), None);

        let ip6 = Ip {
            src: "fd00::1".parse().unwrap(),
            dst: "fd00::2".parse().unwrap(),
            protocol: ICMPV6,
            ..ip4
        };
        let mut p = vec![128, 0, 0, 0, 0, 1, 0, 2, 9];
        let c = l4(ip6.src, ip6.dst, ICMPV6, &p);
        p[2..4].copy_from_slice(&c.to_be_bytes());
        let head = echo_reply(&ip6, &p).unwrap();
        p[..8].copy_from_slice(&head);
        assert!(p[0] == 129 && l4_ok(ip6.dst, ip6.src, ICMPV6, &p));
    }
}
