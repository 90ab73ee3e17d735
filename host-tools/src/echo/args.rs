// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `tsonic echo` takes.

use crate::control::serve::ServeArgs;
use crate::nics::NicKind;
use crate::units::{self, assignment};
use clap::Args;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;
use tsonic_types::ByteRate;

/// Runs our engine as a host on a TAP interface: TCP echo, files over HTTP, ping.
///
/// The interface must exist; frames of the kernel behind it reach our NIC, and ours reach the
/// kernel. Ends with SIGINT or SIGTERM, or when the interface is deleted.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  ip tuntap add dev tap0 mode tap && ip addr add 10.9.0.2/24 dev tap0 && ip link set tap0 up\n  tsonic echo --tap tap0 --ip 10.9.0.1/24 --ip fd09::1/64 --http public:80 &\n  ping -c 1 10.9.0.1; curl http://10.9.0.1/index.html; tsonic stats"
)]
pub struct EchoArgs {
    /// The TAP interface, by name.
    #[arg(long, value_name = "NAME")]
    pub tap: String,
    /// An address of ours with the length of its network's prefix; may be given several times.
    #[arg(long, value_name = "ADDRESS/BITS", required = true)]
    pub ip: Vec<Address>,
    /// Router for peers in other networks; one for IPv4, one for IPv6.
    #[arg(long, value_name = "ADDRESS")]
    pub gateway: Vec<IpAddr>,
    /// Our Ethernet address; made from the first IP address when absent.
    #[arg(long, value_parser = ethernet)]
    pub mac: Option<[u8; 6]>,
    /// Which NIC.
    #[arg(long, value_enum, default_value = "model")]
    pub nic: NicKind,
    /// Port of the TCP echo.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// Serve the files of a folder over HTTP/1.1, on that port.
    #[arg(long, value_name = "FOLDER:PORT")]
    pub http: Option<Http>,
    /// Queue pairs of the NIC (rtl: 4, 8 or 32).
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub queues: u16,
    /// Speed of the wire to the interface, each way.
    #[arg(long, default_value = "4Gbit", value_parser = units::rate)]
    pub link_rate: ByteRate,
    /// Most bytes of an IP packet.
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u16).range(576..=9000))]
    pub mtu: u16,
    /// A tunable of the engine, `NAME=VALUE`; may be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    pub sysctl: Vec<(String, String)>,
    /// Watching and tuning.
    #[command(flatten)]
    pub serve: ServeArgs,
}

impl EchoArgs {
    /// Our Ethernet address: locally administered, the last four bytes those of the
    /// first IP address, so that two hosts of one network differ.
    pub fn ethernet_address(&self) -> [u8; 6] {
        self.mac.unwrap_or_else(|| {
            let low = match self.ip[0].address {
                IpAddr::V4(a) => a.octets(),
                IpAddr::V6(a) => {
                    let [.., a, b, c, d] = a.octets();
                    [a, b, c, d]
                }
            };
            [0x02, 0x74, low[0], low[1], low[2], low[3]]
        })
    }
}

/// The bits of an address, of how many.
fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(a) => (a.to_bits().into(), 32),
        IpAddr::V6(a) => (a.to_bits(), 128),
    }
}

/// An address with its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    pub address: IpAddr,
    pub prefix: u8,
}

impl Address {
    /// Bits of an address that are the network's.
    fn mask(self) -> u128 {
        let (_, all) = bits(self.address);
        let host = all - u32::from(self.prefix);
        // A shift by all 128 is none.
        let low = u128::MAX.checked_shr(128 - host).unwrap_or(0);
        (u128::MAX >> (128 - all)) & !low
    }

    /// Whether `other` is in its network. A link-local router is a neighbour of any
    /// IPv6 host.
    pub fn holds(self, other: IpAddr) -> bool {
        let (own, all) = bits(self.address);
        let (theirs, size) = bits(other);
        let local = matches!(other, IpAddr::V6(a) if a.is_unicast_link_local());
        all == size && (local || (own ^ theirs) & self.mask() == 0)
    }

    /// Whether the host's bits are all 0 (the network itself, or IPv6's subnet-router
    /// anycast) or, in IPv4, all 1 (broadcast). Networks of one or two addresses have
    /// neither (RFC 3021, RFC 6164).
    fn is_no_host(self) -> bool {
        let (own, all) = bits(self.address);
        let host = own & !self.mask();
        let ones = (u128::MAX >> (128 - all)) & !self.mask();
        ones > 1 && (host == 0 || (all == 32 && host == ones))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        let wrong = || {
            format!(
                "'{text}' is no address of a host: write ADDRESS/BITS (10.9.0.1/24, fd09::1/64)"
            )
        };
        let (address, bits) = text.split_once('/').ok_or_else(wrong)?;
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let prefix: u8 = bits.parse().map_err(|_| wrong())?;
        let (most, broadcast) = match address {
            IpAddr::V4(a) => (32, a.is_broadcast()),
            IpAddr::V6(_) => (128, false),
        };
        let host = !(address.is_unspecified() || address.is_multicast() || broadcast);
        // An address of IPv4 within IPv6 never stands on a wire.
        let mapped = matches!(address, IpAddr::V6(a) if Ipv6Addr::to_ipv4_mapped(&a).is_some());
        if prefix > most || !host || mapped || address.is_loopback() {
            return Err(wrong());
        }
        let parsed = Address { address, prefix };
        if parsed.is_no_host() {
            return Err(format!(
                "'{text}' is the network or its broadcast address, and no host's: choose another in it"
            ));
        }
        Ok(parsed)
    }
}

/// A folder and the port that it is served on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http {
    pub folder: PathBuf,
    pub port: u16,
}

impl FromStr for Http {
    type Err = String;

    fn from_str(text: &str) -> Result<Http, String> {
        let wrong = || format!("'{text}' is no folder with a port: write FOLDER:PORT (public:80)");
        let (folder, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        match port.parse() {
            Ok(port) if port != 0 && !folder.is_empty() => Ok(Http {
                folder: folder.into(),
                port,
            }),
            _ => Err(wrong()),
        }
    }
}

fn ethernet(text: &str) -> Result<[u8; 6], String> {
    let wrong = || format!("'{text}' is no Ethernet address of one host: write 02:00:00:00:00:01");
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        let part = parts.next().filter(|p| p.len() == 2).ok_or_else(wrong)?;
        *byte = u8::from_str_radix(part, 16).map_err(|_| wrong())?;
    }
    if parts.next().is_some() || mac[0] & 1 == 1 || mac == [0; 6] {
        return Err(wrong());
    }
    Ok(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_hosts() {
        for good in [
            "10.9.0.1/24",
            "fd09::1/64",
            "192.0.2.7/32",
            "192.0.2.6/31",
            "10.9.1.0/16",
            "fe80::1/10",
            "fd09::/127",
            "fd09::ffff:ffff:ffff:ffff/64",
        ] {
            assert_eq!(good.parse::<Address>().unwrap().to_string(), good);
        }
        for bad in [
            "10.9.0.1",
            "10.9.0.1/33",
            "fd09::1/129",
            "0.0.0.0/0",
            "224.0.0.1/4",
            "x/24",
            "255.255.255.255/32",
            "127.0.0.1/8",
            "::1/128",
            "::ffff:10.0.0.1/96",
            "10.9.0.1/-1",
            "10.9.0.0/24",
            "10.9.0.255/24",
            "10.9.0.128/25",
            "fd09::/64",
        ] {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_router_is_in_the_network() {
        let holds = |a: &str, g: &str| a.parse::<Address>().unwrap().holds(g.parse().unwrap());
        assert!(holds("10.9.0.1/24", "10.9.0.254") && !holds("10.9.0.1/24", "10.8.0.1"));
        assert!(!holds("10.9.0.1/24", "fd09::1") && holds("10.9.0.1/0", "1.2.3.4"));
        assert!(holds("fd09::1/64", "fd09::2") && holds("fd09::1/64", "fe80::1"));
        assert!(!holds("fd09::1/64", "fd0a::2") && !holds("192.0.2.7/32", "192.0.2.8"));
    }

    #[test]
    fn folders_may_hold_colons() {
        let h: Http = "a:b:80".parse().unwrap();
        assert_eq!((h.folder.to_str(), h.port), (Some("a:b"), 80));
        assert!(":80".parse::<Http>().is_err() && "dir".parse::<Http>().is_err());
        assert!("dir:0".parse::<Http>().is_err() && "dir:99999".parse::<Http>().is_err());
    }

    #[test]
    fn ethernet_addresses_are_unicast() {
        assert_eq!(ethernet("02:00:00:00:00:0a"), Ok([2, 0, 0, 0, 0, 10]));
        for bad in [
            "01:00:00:00:00:00",
            "00:00:00:00:00:00",
            "2:0:0:0:0:a",
            "02:00:00:00:00",
            "02:00:00:00:00:00:00",
            "gg:00:00:00:00:00",
        ] {
            assert!(ethernet(bad).is_err(), "{bad}");
        }
    }
}
