// SPDX-License-Identifier: MIT OR Apache-2.0
//! Neighbour solicitation and advertisement of IPv6 (RFC 4861, 4.3 and 4.4).

use super::checksum;
use super::ethernet::Mac;
use super::ip::{ICMPV6, Ip};
use core::net::{IpAddr, Ipv6Addr};

/// Bytes of a message with its one link-layer address option.
pub const LEN: usize = 32;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const SOURCE_OPTION: u8 = 1;
const TARGET_OPTION: u8 = 2;

/// A neighbour discovery message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ndp {
    /// Advertisement, else solicitation.
    pub advertisement: bool,
    /// Advertisement: it answers a solicitation.
    pub solicited: bool,
    /// Address asked for, or advertised.
    pub target: Ipv6Addr,
    /// Link-layer address of the option: source of a solicitation, target of an
    /// advertisement.
    pub mac: Option<Mac>,
}

impl Ndp {
    /// The message of an ICMPv6 packet under `ip`. Hop limit (255) and checksum
    /// are checked.
    pub fn parse(ip: &Ip, b: &[u8]) -> Option<Ndp> {
        if ip.protocol != ICMPV6
            || ip.ttl != 255
            || b.len() < 24
            || b[1] != 0
            || !checksum::l4_ok(ip.src, ip.dst, ICMPV6, b)
        {
            return None;
        }
        let advertisement = match b[0] {
            SOLICITATION => false,
            ADVERTISEMENT => true,
            _ => return None,
        };
        let mut target = [0; 16];
        target.copy_from_slice(&b[8..24]);
        let wanted = if advertisement {
            TARGET_OPTION
        } else {
            SOURCE_OPTION
        };
        let mut mac = None;
        let mut options = &b[24..];
        while let [kind, units, ..] = *options {
            let len = usize::from(units) * 8;
            if len == 0 || options.len() < len {
                return None;
            }
            if kind == wanted && len == 8 {
                let mut m = [0; 6];
                m.copy_from_slice(&options[2..8]);
                mac = Some(Mac(m));
            }
            options = &options[len..];
        }
        Some(Ndp {
            advertisement,
            solicited: advertisement && b[4] & 0x40 != 0,
            target: Ipv6Addr::from(target),
            mac,
        })
    }

    /// Writes the message, sent from `src` to `dst`, with its checksum.
    pub fn emit(&self, src: Ipv6Addr, dst: Ipv6Addr, mac: Mac, out: &mut [u8]) {
        let out = &mut out[..LEN];
        out.fill(0);
        out[0] = if self.advertisement {
            ADVERTISEMENT
        } else {
            SOLICITATION
        };
        if self.advertisement {
            // Override, and solicited.
            out[4] = 0x20 | if self.solicited { 0x40 } else { 0 };
        }
        out[8..24].copy_from_slice(&self.target.octets());
        out[24] = if self.advertisement {
            TARGET_OPTION
        } else {
            SOURCE_OPTION
        };
        out[25] = 1;
        out[26..32].copy_from_slice(&mac.0);
        let c = checksum::l4(IpAddr::V6(src), IpAddr::V6(dst), ICMPV6, out);
        out[2..4].copy_from_slice(&c.to_be_bytes());
    }
}

/// Solicited-node multicast address of `a` (RFC 4291, 2.7.1).
pub fn solicited_node(a: Ipv6Addr) -> Ipv6Addr {
    let o = a.octets();
    Ipv6Addr::new(
        0xff02,
        0,
        0,
        0,
        0,
        1,
        0xff00 | u16::from(o[13]),
        u16::from_be_bytes([o[14], o[15]]),
    )
}

/// Ethernet address of an IPv6 multicast address (RFC 2464, 7).
pub fn multicast_mac(a: Ipv6Addr) -> Mac {
    let o = a.octets();
    Mac([0x33, 0x33, o[12], o[13], o[14], o[15]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_solicitation_survives() {
        let (src, t): (Ipv6Addr, Ipv6Addr) =
            ("fd00::1".parse().unwrap(), "fd00::12:3456".parse().unwrap());
        let dst = solicited_node(t);
        assert_eq!(dst, "ff02::1:ff12:3456".parse::<Ipv6Addr>().unwrap());
        assert_eq!(
            multicast_mac(dst),
            Mac([0x33, 0x33, 0xff, 0x12, 0x34, 0x56])
        );
        let m = Ndp {
            advertisement: false,
            solicited: false,
            target: t,
            mac: Some(Mac([2, 0, 0, 0, 0, 1])),
        };
        let mut b = [0u8; LEN];
        m.emit(src, dst, Mac([2, 0, 0, 0, 0, 1]), &mut b);
        let mut ip = Ip {
            src: src.into(),
            dst: dst.into(),
            protocol: ICMPV6,
            ecn: 0,
            ttl: 255,
        };
        assert_eq!(Ndp::parse(&ip, &b), Some(m));
        ip.ttl = 64;
        assert_eq!(Ndp::parse(&ip, &b), None, "not from this link");
    }
}
