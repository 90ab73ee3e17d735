// SPDX-License-Identifier: MIT OR Apache-2.0
//! smoltcp on a link in memory: a ring of buffers in which it writes frames where they
//! stay, and one in which it finds those that have arrived.

use super::far::{FAR, Far, FarConfig, MSS, NEAR, PERIOD, ports};
use super::{Load, Plan, Sender, TURN_NS, ThroughputError, WIRE_BITS};
use crate::meter::{Meter, Spent};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{
    ChecksumCapabilities, Device, DeviceCapabilities, Medium, PacketMeta, RxToken, TxToken,
};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr};
use std::num::NonZeroUsize;
use tsonic_regs::limits::WIRE_OVERHEAD;
use tsonic_sim::world::Peer;
use tsonic_types::{TickRate, Ticks};

/// Connections that are opened in a turn.
const OPENED: usize = 128;
/// Bytes that a connection can receive.
pub(super) const RECEIVE_BUFFER: usize = 1_024;
/// Bytes of a buffer without and with segmentation in the device.
const FRAME: usize = 1_514;
const SUPER: usize = 65_536;
/// Bytes that the wire carries in a turn.
const TURN_BYTES: usize = (WIRE_BITS / 8 * TURN_NS / 1_000_000_000) as usize;

/// The link. Time spent here is the stack's; there is nearly none.
struct Link {
    bursts: bool,
    /// Buffers of the transmit ring, and the bytes of each that is filled.
    ring: Vec<Box<[u8]>>,
    filled: Vec<usize>,
    /// Bytes on the wire that are filled in this turn.
    bytes: usize,
    arrived: Vec<Vec<u8>>,
    taken: usize,
    spare: Vec<Vec<u8>>,
}

struct Receive<'a>(&'a [u8]);
struct Transmit<'a> {
    slot: &'a mut [u8],
    filled: &'a mut Vec<usize>,
    bytes: &'a mut usize,
}

impl RxToken for Receive<'_> {
    #[inline]
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

/// Bytes on the wire of a frame, or of the frames that it is cut into.
#[inline]
fn on_wire(frame: usize) -> usize {
    let frames = frame.saturating_sub(54).div_ceil(MSS).max(1);
    frame + (frames - 1) * 54 + frames * WIRE_OVERHEAD
}

impl TxToken for Transmit<'_> {
    #[inline]
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        self.filled.push(len);
        *self.bytes += on_wire(len);
        // It asks for no more than the device's capabilities allow.
        let end = len.min(self.slot.len());
        f(self.slot.get_mut(..end).unwrap_or_default())
    }

    fn set_meta(&mut self, _: PacketMeta) {}
}

impl Link {
    #[inline]
    fn slot(&mut self) -> Option<Transmit<'_>> {
        if self.bytes >= TURN_BYTES {
            return None;
        }
        Some(Transmit {
            slot: self.ring.get_mut(self.filled.len())?,
            filled: &mut self.filled,
            bytes: &mut self.bytes,
        })
    }
}

impl Device for Link {
    type RxToken<'a> = Receive<'a>;
    type TxToken<'a> = Transmit<'a>;

    #[inline]
    fn receive(&mut self, _: Instant) -> Option<(Receive<'_>, Transmit<'_>)> {
        let frame = self.arrived.get(self.taken)?;
        let slot = self.ring.get_mut(self.filled.len())?;
        self.taken += 1;
        let transmit = Transmit {
            slot,
            filled: &mut self.filled,
            bytes: &mut self.bytes,
        };
        Some((Receive(frame), transmit))
    }

    #[inline]
    fn transmit(&mut self, _: Instant) -> Option<Transmit<'_>> {
        self.slot()
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut c = DeviceCapabilities::default();
        c.medium = Medium::Ethernet;
        c.max_transmission_unit = FRAME;
        c.checksum = ChecksumCapabilities::ignored();
        c.segmentation.tcpv4 = match self.bursts {
            true => NonZeroUsize::new(SUPER - 2),
            false => None,
        };
        c
    }
}

/// smoltcp and the application.
pub(super) struct Smol {
    plan: Plan,
    interface: Interface,
    sockets: SocketSet<'static>,
    handles: Vec<SocketHandle>,
    link: Link,
    meter: Meter,
    far: Far,
    clock: TickRate,
    now: u64,
    written: Vec<u64>,
    data: Vec<u8>,
    /// Sockets to write to in this turn.
    writes: Vec<usize>,
    opened: usize,
    connected: usize,
    next: usize,
    frames: u64,
}

/// [`Smol::host`] under the name that a profiler is told to count.
// SAFETY: no other symbol of the program has this name.
#[unsafe(no_mangle)]
#[inline(never)]
fn tsonic_bench_smoltcp(smol: &mut Smol) {
    smol.host();
}

impl Smol {
    /// Nothing is connected yet. `bursts`: the device cuts what is larger than a segment.
    pub fn new(plan: Plan, bursts: bool) -> Smol {
        let clock = crate::rig::fast_model().tick_rate;
        let far = Far::new(FarConfig {
            connections: plan.connections,
            per_ack: plan.per_ack,
            check: plan.check,
            clock,
        });
        let slot = if bursts { SUPER } else { FRAME };
        let mut link = Link {
            bursts,
            ring: (0..512).map(|_| vec![0; slot].into_boxed_slice()).collect(),
            filled: Vec::with_capacity(512),
            bytes: 0,
            arrived: Vec::new(),
            taken: 0,
            spare: Vec::new(),
        };
        let mac = HardwareAddress::Ethernet(EthernetAddress(NEAR.0));
        let mut interface = Interface::new(Config::new(mac), &mut link, Instant::ZERO);
        let address = IpCidr::new(IpAddress::Ipv4(NEAR.1.into()), 24);
        interface.update_ip_addrs(|a| {
            // The list holds two, and has none.
            let _ = a.push(address);
        });
        let mut sockets = SocketSet::new(Vec::with_capacity(plan.connections));
        let handles = (0..plan.connections)
            .map(|_| {
                let receive = SocketBuffer::new(vec![0; RECEIVE_BUFFER]);
                let send = SocketBuffer::new(vec![0; plan.buffer as usize]);
                sockets.add(Socket::new(receive, send))
            })
            .collect();
        Smol {
            interface,
            sockets,
            handles,
            link,
            meter: Meter::default(),
            far,
            clock,
            now: 0,
            written: vec![0; plan.connections],
            data: super::pattern(plan.buffer as usize),
            writes: Vec::new(),
            opened: 0,
            connected: 0,
            next: 0,
            frames: 0,
            plan,
        }
    }

    /// A turn of the host: the application's writes, and all of the stack's work.
    fn host(&mut self) {
        let bytes = match self.plan.load {
            Load::Backlog => self.plan.buffer as usize,
            Load::Messages { bytes, .. } => bytes,
        };
        for &i in &self.writes {
            let (Some(handle), Some(written)) = (self.handles.get(i), self.written.get_mut(i))
            else {
                continue;
            };
            let from = (*written % PERIOD as u64) as usize;
            let data = self.data.get(from..from + bytes).unwrap_or_default();
            // Only sockets that take bytes are listed.
            let n = self.sockets.get_mut::<Socket<'_>>(*handle).send_slice(data);
            *written += n.unwrap_or(0) as u64;
        }
        let now = Instant::from_micros((self.now / 1_000) as i64);
        self.interface.poll(now, &mut self.link, &mut self.sockets);
    }

    fn open(&mut self) -> Result<(), ThroughputError> {
        let until = (self.opened + OPENED).min(self.plan.connections);
        for i in self.opened..until {
            let (near, far) = ports(i);
            let remote = (IpAddress::Ipv4(FAR.1.into()), far);
            if let Some(handle) = self.handles.get(i) {
                let socket = self.sockets.get_mut::<Socket<'_>>(*handle);
                let made = socket.connect(self.interface.context(), remote, near);
                made.map_err(|e| ThroughputError::Smoltcp(e.to_string()))?;
            }
        }
        self.opened = until;
        Ok(())
    }

    /// Chooses what the application writes to. Not counted: one who is told which sockets
    /// have room need not look.
    fn choose(&mut self) {
        self.writes.clear();
        let sockets = &self.sockets;
        let takes = |h: &SocketHandle, bytes: usize| {
            let socket = sockets.get::<Socket<'_>>(*h);
            socket.may_send() && socket.send_capacity() - socket.send_queue() >= bytes
        };
        match self.plan.load {
            Load::Backlog => {
                // As much as makes the write worth it.
                let least = self.plan.buffer as usize / 4;
                let all = self.handles.iter().enumerate();
                self.writes
                    .extend(all.filter(|(_, h)| takes(h, least)).map(|(i, _)| i));
            }
            Load::Messages { bytes, per_turn } => {
                for _ in 0..per_turn {
                    let i = self.next;
                    self.next = (i + 1) % self.plan.connections;
                    if self.handles.get(i).is_some_and(|h| takes(h, bytes)) {
                        self.writes.push(i);
                    }
                }
            }
        }
    }

    fn count_connected(&mut self) {
        let established =
            |h: &&SocketHandle| self.sockets.get::<Socket<'_>>(**h).state() == State::Established;
        self.connected = self.handles.iter().filter(established).count();
    }

    fn ticks(&self) -> Ticks {
        Ticks(self.now * u64::from(self.clock.hz()) / 1_000_000_000)
    }
}

impl Sender for Smol {
    fn turn(&mut self) -> Result<(), ThroughputError> {
        if self.connected < self.plan.connections {
            if self.opened < self.plan.connections {
                self.open()?;
            }
            self.count_connected();
            self.writes.clear();
        } else {
            self.choose();
        }
        self.meter.switch(true);
        match self.meter.is_counted() {
            false => self.host(),
            true => tsonic_bench_smoltcp(self),
        }
        self.meter.switch(false);
        let link = &mut self.link;
        link.spare.append(&mut link.arrived);
        link.taken = 0;
        // Frames leave one after the other from the beginning of the turn on.
        let mut departed = 0;
        for (slot, &bytes) in link.ring.iter().zip(&link.filled) {
            departed += on_wire(bytes) as u64;
            let at = self.now + departed * 8_000_000_000 / WIRE_BITS;
            let at = Ticks(at * u64::from(self.clock.hz()) / 1_000_000_000);
            self.far.receive(at, slot.get(..bytes).unwrap_or_default());
        }
        self.frames += link.filled.len() as u64;
        link.filled.clear();
        link.bytes = 0;
        self.now += TURN_NS;
        let now = self.ticks();
        let Link { arrived, spare, .. } = &mut self.link;
        self.far.poll(now, &mut |frame| {
            let mut buffer = spare.pop().unwrap_or_default();
            buffer.clear();
            buffer.extend_from_slice(frame);
            arrived.push(buffer);
        });
        self.meter.switch(false);
        Ok(())
    }

    fn connected(&self) -> usize {
        self.connected
    }

    fn far(&self) -> &Far {
        &self.far
    }

    fn spent(&self) -> Spent {
        self.meter.spent()
    }

    fn bursts(&mut self) -> u64 {
        self.frames
    }

    fn resume(&mut self) {
        self.meter.resume();
    }

    fn count(&mut self) {
        self.meter.count();
    }
}
