// SPDX-License-Identifier: MIT OR Apache-2.0
//! The set-up of a demo: sender, NIC, wire, receiver.

use super::DemoError;
use super::args::{DemoArgs, PeerKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tsonic_driver::{RxConfig, TxConfig};
use tsonic_host::{NicConfig, PoolConfig, Shard};
use tsonic_sim::inproc::InprocFunction;
use tsonic_sim::netns::TapConfig;
use tsonic_sim::peer::KernelPeer;
use tsonic_sim::root_complex::RootComplexConfig;
use tsonic_sim::wire::PathConfig;
use tsonic_sim::world::{LinkConfig, World};
use tsonic_tcp::arith::txq::XpsMap;
use tsonic_tcp::wire::ethernet::Mac;
use tsonic_tcp::{Config, Interface};
use tsonic_types::{ByteRate, Nanos, TenantId};

/// Port that the receiver listens on.
pub const PORT: u16 = 5001;
const SENDER_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 0x01];
const RECEIVER_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 0x02];

/// Both ends' addresses.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    pub sender: IpAddr,
    pub receiver: IpAddr,
    pub prefix: u8,
}

impl Addresses {
    pub fn new(ipv6: bool) -> Addresses {
        if ipv6 {
            let host = |n| IpAddr::V6(Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, n));
            Addresses {
                sender: host(1),
                receiver: host(2),
                prefix: 64,
            }
        } else {
            let host = |n| IpAddr::V4(Ipv4Addr::new(10, 9, 0, n));
            Addresses {
                sender: host(1),
                receiver: host(2),
                prefix: 24,
            }
        }
    }

    pub fn target(&self) -> SocketAddr {
        SocketAddr::new(self.receiver, PORT)
    }
}

/// Who receives.
pub enum Receiver {
    /// A kernel socket.
    Kernel(KernelPeer),
    /// Our engine on the second NIC of the world.
    Engine(Box<Shard<InprocFunction>>),
}

/// Everything of a demo.
pub struct Lab {
    pub sender: Shard<InprocFunction>,
    pub receiver: Receiver,
    /// The function again, to look at the world.
    pub world: InprocFunction,
    pub addresses: Addresses,
    pub peer: PeerKind,
}

const fn nanos(d: Duration) -> Nanos {
    Nanos(d.as_nanos() as u64)
}

fn link(args: &DemoArgs) -> LinkConfig {
    let path = |salt: u64| PathConfig {
        delay: nanos(args.delay),
        loss: args.loss,
        duplicate: args.dup,
        reorder: args.reorder,
        reorder_extra: nanos(args.reorder_delay),
        seed: args.seed.wrapping_mul(2).wrapping_add(salt),
        ..PathConfig::default()
    };
    LinkConfig {
        line_rate: args.link_rate.0.saturating_mul(8),
        out: path(0),
        back: path(1),
    }
}

fn engine_config(args: &DemoArgs, mac: [u8; 6], own: IpAddr, prefix: u8) -> Config {
    let mut interface = Interface::new(Mac(mac), own, prefix);
    interface.mtu = args.mtu;
    let mut config = Config::new(interface);
    config.seed = args.seed;
    config.gso_max = Some(args.gso_max);
    // One core a queue.
    config.xps = Some(XpsMap::Blocks {
        queues: args.queues,
        cores_per_queue: 1,
    });
    config
}

fn start(
    args: &DemoArgs,
    function: InprocFunction,
    config: Config,
) -> Result<Shard<InprocFunction>, DemoError> {
    let nic = NicConfig {
        queues: None,
        tx: TxConfig::default(),
        rx: RxConfig::default(),
    };
    let mut shard = Shard::start(function, config, &nic, PoolConfig::default())?;
    shard.nic().set_line_rate(args.link_rate);
    if let Some(tunables) = shard.engine().tunables_mut(TenantId(0)) {
        for (name, value) in &args.sysctl {
            tunables.set(name, value)?;
        }
    }
    Ok(shard)
}

impl Lab {
    /// Sets everything up. Without a wish for a peer it takes a kernel where that is
    /// permitted, else our own engine, and says so.
    pub fn new(args: &DemoArgs) -> Result<Lab, DemoError> {
        let addresses = Addresses::new(args.ipv6);
        let mut world = None;
        if args.peer != Some(PeerKind::Sim) {
            let tap = TapConfig {
                addresses: vec![(addresses.receiver, addresses.prefix)],
                mac: RECEIVER_MAC,
                mtu: args.mtu,
                ..TapConfig::default()
            };
            match KernelPeer::start(&tap) {
                Ok((kernel, port)) => {
                    let nic = args.nic.build(args.queues)?;
                    let w = World::new(
                        nic,
                        RootComplexConfig::default(),
                        link(args),
                        Some(Box::new(port)),
                    );
                    world = Some((w, Some(kernel)));
                }
                Err(error) if args.peer.is_none() => {
                    crate::say(format_args!(
                        "tsonic: no kernel peer ({error}); the receiver is our own engine"
                    ));
                }
                Err(error) => return Err(error.into()),
            }
        }
        let (mut world, kernel) = match world {
            Some(made) => made,
            None => {
                let nics = [args.nic.build(args.queues)?, args.nic.build(args.queues)?];
                let pair = World::pair(nics, RootComplexConfig::default(), link(args));
                (pair.ok_or(DemoError::Clocks)?, None)
            }
        };
        if let Some(path) = &args.pcap {
            world.capture(path)?;
        }
        let function = InprocFunction::new(world);
        let world = function.clone();
        let other = function.other();
        let config = engine_config(args, SENDER_MAC, addresses.sender, addresses.prefix);
        let sender = start(args, function, config)?;
        let (receiver, peer) = match (kernel, other) {
            (Some(kernel), _) => (Receiver::Kernel(kernel), PeerKind::Linux),
            (None, Some(other)) => {
                let mut config =
                    engine_config(args, RECEIVER_MAC, addresses.receiver, addresses.prefix);
                config.seed = args.seed.wrapping_add(0x5eed);
                let shard = start(args, other, config)?;
                (Receiver::Engine(Box::new(shard)), PeerKind::Sim)
            }
            (None, None) => return Err(DemoError::Clocks),
        };
        Ok(Lab {
            sender,
            receiver,
            world,
            addresses,
            peer,
        })
    }

    /// The rate that a connection is held to.
    pub fn rate(args: &DemoArgs) -> ByteRate {
        args.rate.unwrap_or(ByteRate::UNLIMITED)
    }
}
