// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames of the engine itself, without a connection: ARP and neighbour
//! discovery, echo replies, resets. A bounded queue; what does not fit is
//! dropped, as the network might have.

use crate::bursts::{BurstTable, InNic, TOKEN_NONE};
use crate::interface::Interface;
use crate::memory::Memory;
use crate::neighbour::Question;
use crate::port::{Burst, BurstKind, CHUNK_MIN, ChunkPool, ChunkRef, HEADER_MAX, TxPort};
use crate::wire::arp::{self, Arp};
use crate::wire::ethernet::{self, Mac};
use crate::wire::icmp::ECHO_HEADER;
use crate::wire::ip::{self, Ip};
use crate::wire::ndp::{self, Ndp};
use crate::wire::tcp::{Flags, Header, Options};
use core::net::IpAddr;
use std::collections::VecDeque;
use tsonic_types::{FlowSlot, QueueId, SeqNum};

const FRAMES_MAX: usize = 256;

#[derive(Clone, Copy, Debug)]
struct Frame {
    header: [u8; HEADER_MAX],
    lens: (u8, u16, u8),
    kind: BurstKind,
    ipv6: bool,
    payload: Option<ChunkRef>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ControlQueue {
    frames: VecDeque<Frame>,
    /// The port had no room: wait for a completion.
    pub blocked: bool,
    pub dropped: u64,
}

impl ControlQueue {
    /// Whether a poll would send something.
    pub fn is_due(&self) -> bool {
        !self.frames.is_empty() && !self.blocked
    }

    fn push(&mut self, frame: Frame) -> bool {
        let room = self.frames.len() < FRAMES_MAX;
        if room {
            self.frames.push_back(frame);
        } else {
            self.dropped += 1;
        }
        room
    }

    /// Asks for, or tells of, an address by ARP.
    pub fn arp(&mut self, interface: &Interface, dst: Mac, packet: &Arp) {
        let mut header = [0; HEADER_MAX];
        let l2 = interface.ethernet(dst, ethernet::ARP).emit(&mut header);
        packet.emit(&mut header[l2..]);
        self.push(Frame {
            header,
            lens: (l2 as u8, arp::LEN as u16, 0),
            kind: BurstKind::Raw,
            ipv6: false,
            payload: None,
        });
    }

    /// The same by neighbour discovery.
    pub fn ndp(&mut self, interface: &Interface, dst_mac: Mac, ends: (IpAddr, IpAddr), m: &Ndp) {
        let (IpAddr::V6(src), IpAddr::V6(dst)) = ends else {
            return;
        };
        let mut header = [0; HEADER_MAX];
        let l2 = interface
            .ethernet(dst_mac, ethernet::IPV6)
            .emit(&mut header);
        let ip = Ip {
            src: ends.0,
            dst: ends.1,
            protocol: ip::ICMPV6,
            ecn: 0,
            ttl: 255,
        };
        let l3 = ip::emit(&ip, 0, ndp::LEN, &mut header[l2..]);
        m.emit(src, dst, interface.mac, &mut header[l2 + l3..]);
        self.push(Frame {
            header,
            lens: (l2 as u8, l3 as u16, ndp::LEN as u8),
            kind: BurstKind::Raw,
            ipv6: true,
            payload: None,
        });
    }

    /// Puts a question of the neighbour cache on the link.
    pub fn ask(&mut self, interface: &Interface, q: &Question) {
        let Some(own) = interface.source_for(q.target) else {
            return;
        };
        match (own, q.target) {
            (IpAddr::V4(own), IpAddr::V4(target)) => {
                let packet = Arp {
                    reply: false,
                    sender: (interface.mac, own),
                    target: (Mac::default(), target),
                };
                self.arp(interface, q.mac.unwrap_or(Mac::BROADCAST), &packet);
            }
            (IpAddr::V6(_), IpAddr::V6(target)) => {
                let group = ndp::solicited_node(target);
                let (dst, mac) = match q.mac {
                    Some(mac) => (target, mac),
                    None => (group, ndp::multicast_mac(group)),
                };
                let m = Ndp {
                    advertisement: false,
                    solicited: false,
                    target,
                    mac: Some(interface.mac),
                };
                self.ndp(interface, mac, (own, IpAddr::V6(dst)), &m);
            }
            _ => {}
        }
    }

    /// Answers an echo request that came under `ip` from `src`.
    pub fn echo<P: ChunkPool>(
        &mut self,
        interface: &Interface,
        memory: &mut Memory<P>,
        src: Mac,
        ip: &Ip,
        head: &[u8; ECHO_HEADER],
        data: &[u8],
    ) -> bool {
        if self.frames.len() >= FRAMES_MAX || data.len() > CHUNK_MIN {
            self.dropped += 1;
            return false;
        }
        let mut payload = None;
        if !data.is_empty() {
            let Some(chunk) = memory.take_own() else {
                self.dropped += 1;
                return false;
            };
            memory.pool.write(chunk, 0, data);
            payload = Some(ChunkRef {
                chunk,
                offset: 0,
                len: data.len() as u32,
            });
        }
        let mut header = [0; HEADER_MAX];
        let ipv6 = ip.src.is_ipv6();
        let ethertype = if ipv6 { ethernet::IPV6 } else { ethernet::IPV4 };
        let l2 = interface.ethernet(src, ethertype).emit(&mut header);
        let reply = Ip {
            src: ip.dst,
            dst: ip.src,
            ttl: 64,
            ..*ip
        };
        let l3 = ip::emit(&reply, 0, ECHO_HEADER + data.len(), &mut header[l2..]);
        header[l2 + l3..][..ECHO_HEADER].copy_from_slice(head);
        self.push(Frame {
            header,
            lens: (l2 as u8, l3 as u16, ECHO_HEADER as u8),
            kind: BurstKind::Raw,
            ipv6,
            payload,
        })
    }

    /// Answers a segment that belongs to no connection with a reset (RFC 9293,
    /// 3.10.7.1).
    pub fn reset(&mut self, interface: &Interface, src: Mac, ip: &Ip, h: &Header, payload: usize) {
        let mut header = [0; HEADER_MAX];
        let ipv6 = ip.src.is_ipv6();
        let ethertype = if ipv6 { ethernet::IPV6 } else { ethernet::IPV4 };
        let l2 = interface.ethernet(src, ethertype).emit(&mut header);
        let (seq, ack, flags) = if h.flags.has(Flags::ACK) {
            (h.ack, SeqNum(0), Flags::RST)
        } else {
            let len = payload as u32
                + u32::from(h.flags.has(Flags::SYN))
                + u32::from(h.flags.has(Flags::FIN));
            (SeqNum(0), h.seq + len, Flags::RST.with(Flags::ACK))
        };
        let tcp = Header {
            src_port: h.dst_port,
            dst_port: h.src_port,
            seq,
            ack,
            flags,
            window: 0,
            options: Options::default(),
        };
        let reply = Ip {
            src: ip.dst,
            dst: ip.src,
            ecn: 0,
            ttl: 64,
            protocol: ip::TCP,
        };
        let l3 = ip::emit(&reply, 0, tcp.emitted_len(), &mut header[l2..]);
        let l4 = tcp.emit(&mut header[l2 + l3..]);
        self.push(Frame {
            header,
            lens: (l2 as u8, l3 as u16, l4 as u8),
            kind: BurstKind::Csum,
            ipv6,
            payload: None,
        });
    }

    /// Posts what the port takes.
    pub fn send<P: ChunkPool, T: TxPort>(
        &mut self,
        pool: &mut P,
        bursts: &mut BurstTable,
        port: &mut T,
    ) {
        self.blocked = false;
        while let Some(f) = self.frames.front() {
            let len = usize::from(f.lens.0) + usize::from(f.lens.1) + usize::from(f.lens.2);
            let fragments = f.payload.as_slice();
            let payload_len = f.payload.map_or(0, |p| p.len);
            let token = if fragments.is_empty() {
                TOKEN_NONE
            } else {
                let burst = InNic {
                    owner: None,
                    start: 0,
                    end: 1,
                    mss: 1,
                    segments: 1,
                    truesize: 0,
                };
                bursts.insert(pool, burst, fragments).0
            };
            let burst = Burst {
                queue: QueueId(0),
                flow: FlowSlot::UNPACED,
                kind: f.kind,
                header: &f.header[..len],
                l2_len: f.lens.0,
                l3_len: f.lens.1,
                l4_len: f.lens.2,
                ipv6: f.ipv6,
                ip_id_fixed: false,
                cwr_all: false,
                mss: 0,
                payload_len,
                fragments,
                rate: None,
                launch: None,
                complete_now: false,
                token,
            };
            match port.post(&burst) {
                Ok(()) => {}
                Err(crate::port::PostError::Refused(_)) => {
                    bursts.remove(pool, token);
                    self.dropped += 1;
                }
                Err(_) => {
                    bursts.remove(pool, token);
                    self.blocked = true;
                    return;
                }
            }
            if let Some(p) = f.payload {
                // The burst holds its own reference.
                pool.release(p.chunk);
            }
            self.frames.pop_front();
        }
    }
}
