// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine's network interface: addresses, link, and the next hop to a peer.

use crate::arith::txq::XpsMap;
use crate::wire::ethernet::{Ethernet, Mac};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses and link of an engine.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Ethernet address.
    pub mac: Mac,
    /// Most bytes of an IP packet.
    pub mtu: u16,
    /// VLAN that all frames carry.
    pub vlan: Option<u16>,
    /// Own addresses, each with the length of its network prefix in bits.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Router for IPv4 peers elsewhere.
    pub gateway_v4: Option<Ipv4Addr>,
    /// Router for IPv6 peers elsewhere.
    pub gateway_v6: Option<Ipv6Addr>,
}

impl Interface {
    /// An interface with one address.
    pub fn new(mac: Mac, address: IpAddr, prefix: u8) -> Interface {
        Interface {
            mac,
            mtu: 1500,
            vlan: None,
            addresses: vec![(address, prefix)],
            gateway_v4: None,
            gateway_v6: None,
        }
    }

    /// Whether `a` is one of our addresses.
    pub fn owns(&self, a: IpAddr) -> bool {
        self.addresses.iter().any(|(own, _)| *own == a)
    }

    /// Our address to speak to `peer` from.
    pub fn source_for(&self, peer: IpAddr) -> Option<IpAddr> {
        let same_family = |a: &&(IpAddr, u8)| a.0.is_ipv4() == peer.is_ipv4();
        self.addresses
            .iter()
            .find(|(own, prefix)| same_network(*own, peer, *prefix))
            .or_else(|| self.addresses.iter().find(same_family))
            .map(|(own, _)| *own)
    }

    /// The neighbour that a packet to `peer` goes to.
    pub fn next_hop(&self, peer: IpAddr) -> Option<IpAddr> {
        let link_local = matches!(peer, IpAddr::V6(a) if a.segments()[0] & 0xffc0 == 0xfe80);
        if link_local
            || self
                .addresses
                .iter()
                .any(|(own, prefix)| same_network(*own, peer, *prefix))
        {
            return Some(peer);
        }
        match peer {
            IpAddr::V4(_) => self.gateway_v4.map(IpAddr::V4),
            IpAddr::V6(_) => self.gateway_v6.map(IpAddr::V6),
        }
    }

    /// Most payload bytes of a TCP segment without options.
    pub fn mss(&self, peer: IpAddr) -> u16 {
        let header = if peer.is_ipv4() { 40 } else { 60 };
        self.mtu.saturating_sub(header).max(88)
    }

    /// An Ethernet header to `dst`.
    pub(crate) fn ethernet(&self, dst: Mac, ethertype: u16) -> Ethernet {
        Ethernet {
            dst,
            src: self.mac,
            vlan: self.vlan,
            ethertype,
        }
    }
}

fn same_network(a: IpAddr, b: IpAddr, prefix: u8) -> bool {
    let common = match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        _ => return false,
    };
    common >= u32::from(prefix)
}

/// What an engine is made with.
#[derive(Clone, Debug)]
pub struct Config {
    /// Addresses and link.
    pub interface: Interface,
    /// Which queues a core sends from; `None`: by the flow's hash.
    pub xps: Option<XpsMap>,
    /// Seed of initial sequence numbers, ports and hash tables. Secret where
    /// peers are not trusted.
    pub seed: u64,
    /// Most connections, closing ones included.
    pub connections_max: u32,
    /// Whether the NIC's segmentation may be used; without it every burst is one
    /// segment.
    pub tso: bool,
    /// Cap on a burst's payload bytes, below the port's own.
    pub gso_max: Option<u32>,
}

impl Config {
    /// A configuration with all defaults.
    pub fn new(interface: Interface) -> Config {
        Config {
            interface,
            xps: None,
            seed: 0x7450_6e1c,
            connections_max: 65_536,
            tso: true,
            gso_max: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_hops_and_sources() {
        let mut i = Interface::new(Mac::default(), "10.1.2.3".parse().unwrap(), 24);
        i.addresses.push(("fd00::3".parse().unwrap(), 64));
        i.gateway_v4 = Some("10.1.2.1".parse().unwrap());
        let ip = |s: &str| -> IpAddr { s.parse().unwrap() };
        assert_eq!(i.next_hop(ip("10.1.2.9")), Some(ip("10.1.2.9")));
        assert_eq!(i.next_hop(ip("10.1.3.9")), Some(ip("10.1.2.1")));
        assert_eq!(i.next_hop(ip("fd00::9")), Some(ip("fd00::9")));
        assert_eq!(i.next_hop(ip("fe80::9")), Some(ip("fe80::9")));
        assert_eq!(i.next_hop(ip("fd01::9")), None);
        assert_eq!(i.source_for(ip("192.0.2.1")), Some(ip("10.1.2.3")));
        assert_eq!(i.source_for(ip("fd00::9")), Some(ip("fd00::3")));
    }
}
