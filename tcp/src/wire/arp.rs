// SPDX-License-Identifier: MIT OR Apache-2.0
//! ARP for IPv4 over Ethernet (RFC 826).

use super::ethernet::Mac;
use super::{be16, put16};
use core::net::Ipv4Addr;

/// Bytes of a packet.
pub const LEN: usize = 28;

/// An ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arp {
    /// Reply, else request.
    pub reply: bool,
    /// Sender's addresses.
    pub sender: (Mac, Ipv4Addr),
    /// Target's addresses.
    pub target: (Mac, Ipv4Addr),
}

impl Arp {
    /// The packet of `b`.
    pub fn parse(b: &[u8]) -> Option<Arp> {
        let b = b.get(..LEN)?;
        let head = [be16(b, 0)?, be16(b, 2)?, be16(b, 4)?];
        if head != [1, 0x0800, 0x0604] {
            return None;
        }
        let reply = match be16(b, 6)? {
            1 => false,
            2 => true,
            _ => return None,
        };
        let pair = |at: usize| {
            let mut mac = [0; 6];
            mac.copy_from_slice(&b[at..at + 6]);
            let ip = Ipv4Addr::new(b[at + 6], b[at + 7], b[at + 8], b[at + 9]);
            (Mac(mac), ip)
        };
        Some(Arp {
            reply,
            sender: pair(8),
            target: pair(18),
        })
    }

    /// Writes the packet to the start of `out`.
    pub fn emit(&self, out: &mut [u8]) {
        put16(out, 0, 1);
        put16(out, 2, 0x0800);
        put16(out, 4, 0x0604);
        put16(out, 6, if self.reply { 2 } else { 1 });
        for (at, (mac, ip)) in [(8, self.sender), (18, self.target)] {
            out[at..at + 6].copy_from_slice(&mac.0);
            out[at + 6..at + 10].copy_from_slice(&ip.octets());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_survives() {
        let p = Arp {
            reply: true,
            sender: (Mac([2, 0, 0, 0, 0, 1]), Ipv4Addr::new(10, 0, 0, 1)),
            target: (Mac([2, 0, 0, 0, 0, 2]), Ipv4Addr::new(10, 0, 0, 2)),
        };
        let mut b = [0u8; 46];
        p.emit(&mut b);
        assert_eq!(Arp::parse(&b), Some(p));
        b[7] = 3;
        assert_eq!(Arp::parse(&b), None);
        assert_eq!(Arp::parse(&b[..27]), None);
    }
}
