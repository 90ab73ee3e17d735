// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ethernet II with up to two VLAN tags (IEEE 802.1Q, 802.1ad).

use super::{be16, put16};
use core::fmt;

/// EtherType of IPv4.
pub const IPV4: u16 = 0x0800;
/// EtherType of ARP.
pub const ARP: u16 = 0x0806;
/// EtherType of IPv6.
pub const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;
const VLAN_S: u16 = 0x88a8;

/// An Ethernet address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// ff:ff:ff:ff:ff:ff.
    pub const BROADCAST: Mac = Mac([0xff; 6]);

    /// Whether it is a group address (broadcast included).
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// An Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ethernet {
    /// Destination.
    pub dst: Mac,
    /// Source.
    pub src: Mac,
    /// VLAN id of the outer tag, if there is one.
    pub vlan: Option<u16>,
    /// EtherType behind the tags.
    pub ethertype: u16,
}

impl Ethernet {
    /// Header and payload of a frame.
    #[inline]
    pub fn parse(frame: &[u8]) -> Option<(Ethernet, &[u8])> {
        let (dst, rest) = frame.split_first_chunk()?;
        let (src, rest) = rest.split_first_chunk()?;
        let (ethertype, rest) = rest.split_first_chunk()?;
        let mut vlan = None;
        let mut ethertype = u16::from_be_bytes(*ethertype);
        let mut payload = rest;
        if is_tag(ethertype) {
            (vlan, ethertype, payload) = behind_tags(ethertype, rest)?;
        }
        let header = Ethernet {
            dst: Mac(*dst),
            src: Mac(*src),
            vlan,
            ethertype,
        };
        Some((header, payload))
    }

    /// Bytes of the header: 14, or 18 with a tag.
    pub const fn header_len(&self) -> usize {
        if self.vlan.is_some() { 18 } else { 14 }
    }

    /// Writes the header to the start of `out`; answers its length.
    pub fn emit(&self, out: &mut [u8]) -> usize {
        out[0..6].copy_from_slice(&self.dst.0);
        out[6..12].copy_from_slice(&self.src.0);
        if let Some(id) = self.vlan {
            put16(out, 12, VLAN);
            put16(out, 14, id & 0x0fff);
        }
        put16(out, self.header_len() - 2, self.ethertype);
        self.header_len()
    }
}

const fn is_tag(ethertype: u16) -> bool {
    ethertype == VLAN || ethertype == VLAN_S
}

/// VLAN id, EtherType and payload behind a tag of type `ethertype`, and behind a
/// second one if it follows; `rest` begins with what is in the first.
fn behind_tags(mut ethertype: u16, mut rest: &[u8]) -> Option<(Option<u16>, u16, &[u8])> {
    let mut vlan = None;
    for _ in 0..2 {
        if !is_tag(ethertype) {
            break;
        }
        vlan = vlan.or(Some(be16(rest, 0)? & 0x0fff));
        ethertype = be16(rest, 2)?;
        rest = &rest[4..];
    }
    Some((vlan, ethertype, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_read_and_written() {
        let h = Ethernet {
            dst: Mac([2, 0, 0, 0, 0, 1]),
            src: Mac([2, 0, 0, 0, 0, 2]),
            vlan: Some(100),
            ethertype: IPV4,
        };
        let mut b = [0u8; 20];
        assert_eq!(h.emit(&mut b), 18);
        let (back, rest) = Ethernet::parse(&b).unwrap();
        assert_eq!((back, rest.len()), (h, 2));
        for cut in 0..18 {
            assert_eq!(Ethernet::parse(&b[..cut]), None);
        }
    }

    #[test]
    fn two_tags_are_skipped_and_the_outer_one_counts() {
        let mut b = [0u8; 24];
        for (at, word) in [VLAN_S, 0x2007, VLAN, 0x0064, IPV6].into_iter().enumerate() {
            put16(&mut b, 12 + 2 * at, word);
        }
        let (h, rest) = Ethernet::parse(&b).unwrap();
        assert_eq!((h.vlan, h.ethertype, rest.len()), (Some(7), IPV6, 2));
        for cut in 0..22 {
            assert_eq!(Ethernet::parse(&b[..cut]), None);
        }
        // A third one is nothing that we know.
        put16(&mut b, 20, VLAN);
        assert_eq!(Ethernet::parse(&b).unwrap().0.ethertype, VLAN);
    }
}
