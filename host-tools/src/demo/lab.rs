// SPDX-License-Identifier: MIT OR Apache-2.0
//! The set-up of a demo: sender, NIC, wire, receiver.

use super::DemoError;
use super::args::{DemoArgs, DeviceKind, PeerKind};
use super::process::DeviceProcess;
use crate::device::far_socket;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use tsonic_driver::vfio_user::is_absent;
use tsonic_driver::{VfioUserConfig, VfioUserFunction};
use tsonic_host::{HostError, NicConfig, PoolConfig, Shard};
use tsonic_pci::{BusError, PciFunction};
use tsonic_regs::registers::global;
use tsonic_sim::inproc::InprocFunction;
use tsonic_sim::netns::{TapConfig, TapError};
use tsonic_sim::peer::KernelPeer;
use tsonic_sim::root_complex::RootComplexConfig;
use tsonic_sim::world::World;
use tsonic_tcp::arith::txq::XpsMap;
use tsonic_tcp::wire::ethernet::Mac;
use tsonic_tcp::{Config, Interface};
use tsonic_types::{ByteRate, TenantId};

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

/// The way to a NIC, wherever that is.
pub type Bus = Box<dyn PciFunction + Send>;

/// Who receives.
pub enum Receiver {
    /// A kernel socket.
    Kernel(KernelPeer),
    /// Our engine on the second NIC.
    Engine(Box<Shard<Bus>>),
}

/// Where the NICs are.
pub enum Place {
    /// In this process: the function again, to look at the world.
    Here(InprocFunction),
    /// In a process of this demo.
    Process(DeviceProcess),
    /// In somebody else's.
    Elsewhere,
}

/// Everything of a demo.
pub struct Lab {
    pub sender: Shard<Bus>,
    pub receiver: Receiver,
    pub place: Place,
    pub addresses: Addresses,
    pub peer: PeerKind,
    /// Queue pairs of the sender's NIC.
    pub queues: u16,
}

fn engine_config(args: &DemoArgs, queues: u16, mac: [u8; 6], own: IpAddr, prefix: u8) -> Config {
    let mut interface = Interface::new(Mac(mac), own, prefix);
    interface.mtu = args.mtu;
    let mut config = Config::new(interface);
    config.seed = args.seed;
    config.gso_max = Some(args.gso_max);
    // One core a queue.
    config.xps = Some(XpsMap::Blocks {
        queues,
        cores_per_queue: 1,
    });
    config
}

fn start(args: &DemoArgs, function: Bus, config: Config) -> Result<Shard<Bus>, DemoError> {
    let nic = NicConfig::default();
    let mut shard = Shard::start(function, config, &nic, PoolConfig::default())?;
    shard.nic().set_line_rate(match (args.rate, &args.device) {
        // Flows share a wire: what they wait for each other is no error of the pacer, so
        // only a rate that was asked for is measured against.
        (None, _) => ByteRate(0),
        (Some(_), DeviceKind::At(_)) => ByteRate::UNLIMITED,
        (Some(_), _) => args.link.link_rate,
    });
    if let Some(tunables) = shard.engine().tunables_mut(TenantId(0)) {
        for (name, value) in &args.sysctl {
            tunables.set(name, value)?;
        }
    }
    Ok(shard)
}

/// What a demo runs on, before anything is opened.
struct Set {
    function: Bus,
    other: Option<Bus>,
    kernel: Option<KernelPeer>,
    place: Place,
}

fn connect(path: &Path) -> Result<Bus, DemoError> {
    let function = VfioUserFunction::connect(path, VfioUserConfig::default());
    let function = function.map_err(|source| match source {
        BusError::Busy => DemoError::Busy(path.into()),
        source => DemoError::Connect {
            path: path.into(),
            source,
        },
    })?;
    Ok(Box::new(function))
}

/// The second NIC of the device at a path that is there.
fn connect_far(path: &Path) -> Result<Bus, DemoError> {
    let far = far_socket(path);
    connect(&far).map_err(|error| match error {
        DemoError::Connect { source, .. } if is_absent(&source) => DemoError::NoFar {
            path: path.into(),
            far,
        },
        error => error,
    })
}

/// A kernel peer, if one is wanted and may be had: what `made` makes of its TAP.
fn kernel<T>(
    args: &DemoArgs,
    addresses: &Addresses,
    start: impl FnOnce(&TapConfig) -> Result<(KernelPeer, T), TapError>,
) -> Result<Option<(KernelPeer, T)>, DemoError> {
    if args.peer == Some(PeerKind::Sim) {
        return Ok(None);
    }
    let tap = TapConfig {
        addresses: vec![(addresses.receiver, addresses.prefix)],
        mac: RECEIVER_MAC,
        mtu: args.mtu,
        ..TapConfig::default()
    };
    match start(&tap) {
        Ok(both) => Ok(Some(both)),
        Err(error) if args.peer.is_none() => {
            crate::say(format_args!(
                "tsonic: no kernel peer ({error}); the receiver is our own engine"
            ));
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Everything in this process, on one clock.
fn here(args: &DemoArgs, addresses: &Addresses) -> Result<Set, DemoError> {
    let (memory, link) = (RootComplexConfig::default(), args.link.config(args.seed));
    let nic = || args.nic.build(args.queues);
    let (mut world, kernel) = match kernel(args, addresses, KernelPeer::start)? {
        Some((kernel, port)) => {
            let world = World::new(nic()?, memory, link, Some(Box::new(port)));
            (world, Some(kernel))
        }
        None => {
            let pair = World::pair([nic()?, nic()?], memory, link);
            (pair.ok_or(DemoError::Clocks)?, None)
        }
    };
    if let Some(path) = &args.pcap {
        world.capture(path)?;
    }
    let function = InprocFunction::new(world);
    Ok(Set {
        other: function.other().map(|f| Box::new(f) as Bus),
        kernel,
        place: Place::Here(function.clone()),
        function: Box::new(function),
    })
}

/// The NICs in a process of their own.
fn process(args: &DemoArgs, addresses: &Addresses) -> Result<Set, DemoError> {
    let (kernel, tap) = match kernel(args, addresses, KernelPeer::behind_tap)? {
        Some((kernel, tap)) => (Some(kernel), Some(tap)),
        None => (None, None),
    };
    let process = DeviceProcess::start(args, args.nic, tap)?;
    let other = match &kernel {
        Some(_) => None,
        None => Some(connect(&process.far())?),
    };
    Ok(Set {
        function: connect(&process.socket)?,
        other,
        kernel,
        place: Place::Process(process),
    })
}

impl Lab {
    /// Sets everything up. Without a wish for a peer it takes a kernel where that is
    /// permitted, else our own engine, and says so.
    pub fn new(args: &DemoArgs) -> Result<Lab, DemoError> {
        let addresses = Addresses::new(args.ipv6);
        let mut set = match &args.device {
            DeviceKind::Inproc => here(args, &addresses)?,
            DeviceKind::Process => process(args, &addresses)?,
            DeviceKind::At(path) => Set {
                function: connect(path)?,
                other: Some(connect_far(path)?),
                kernel: None,
                place: Place::Elsewhere,
            },
        };
        let queues = set.function.read32(0, global::QUEUES.offset as u64);
        let queues = queues.map_err(|e| HostError::Driver(e.into()))?;
        // The driver refuses a device with more than there can be.
        let queues = u16::try_from(queues).unwrap_or(u16::MAX);
        let (own, prefix) = (addresses.sender, addresses.prefix);
        let config = engine_config(args, queues, SENDER_MAC, own, prefix);
        let sender = start(args, set.function, config)?;
        let (receiver, peer) = match (set.kernel, set.other) {
            (Some(kernel), _) => (Receiver::Kernel(kernel), PeerKind::Linux),
            (None, Some(other)) => {
                let own = addresses.receiver;
                let mut config = engine_config(args, queues, RECEIVER_MAC, own, prefix);
                config.seed = args.seed.wrapping_add(0x5eed);
                let shard = start(args, other, config)?;
                (Receiver::Engine(Box::new(shard)), PeerKind::Sim)
            }
            (None, None) => return Err(DemoError::Clocks),
        };
        Ok(Lab {
            sender,
            receiver,
            place: set.place,
            addresses,
            peer,
            queues,
        })
    }

    /// The rate that a connection is held to.
    pub fn rate(args: &DemoArgs) -> ByteRate {
        args.rate.unwrap_or(ByteRate::UNLIMITED)
    }
}
