// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames and completions come in.

use super::{Ends, Engine, attend, conn_at};
use crate::bursts::TOKEN_NONE;
use crate::conn::{Conn, Incoming, Reply};
use crate::port::{Checksum, ChunkPool, RxMeta, TxCompletion};
use crate::wire::arp::Arp;
use crate::wire::checksum;
use crate::wire::ethernet::{self, Ethernet, Mac};
use crate::wire::icmp;
use crate::wire::ip::{self, Ip};
use crate::wire::ndp::Ndp;
use crate::wire::tcp::{Flags, Header};
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use tsonic_types::Nanos;

impl<P: ChunkPool> Engine<P> {
    /// A frame was received (Ethernet, without FCS; padding may be there).
    pub fn on_frame(&mut self, now: Nanos, frame: &[u8], meta: &RxMeta) {
        self.core.counters.frames_in += 1;
        let taken = self.take_frame(now, frame, meta);
        if !taken {
            self.core.counters.frames_ignored += 1;
        }
    }

    fn take_frame(&mut self, now: Nanos, frame: &[u8], meta: &RxMeta) -> bool {
        let Some((eth, rest)) = Ethernet::parse(frame) else {
            return false;
        };
        let own = &self.core.config.interface;
        if (eth.dst != own.mac && !eth.dst.is_group()) || eth.vlan != own.vlan {
            return false;
        }
        let bad = meta.ip_checksum == Checksum::Bad || meta.l4_checksum == Checksum::Bad;
        if bad {
            self.core.counters.bad_checksums += 1;
            return false;
        }
        let parsed = match eth.ethertype {
            ethernet::ARP => return self.take_arp(now, rest),
            ethernet::IPV4 => ip::parse_v4(rest, meta.ip_checksum == Checksum::None),
            ethernet::IPV6 => ip::parse_v6(rest),
            _ => None,
        };
        // Stays where it was read: a move would copy it.
        let Some((ip, packet)) = &parsed else {
            return false;
        };
        match ip.protocol {
            ip::TCP => self.take_tcp(now, eth.src, ip, packet, meta),
            ip::ICMPV6 if self.take_ndp(now, eth.src, ip, packet) => true,
            ip::ICMP | ip::ICMPV6 if self.core.config.interface.owns(ip.dst) => {
                self.take_echo(eth.src, ip, packet)
            }
            _ => false,
        }
    }

    fn take_arp(&mut self, now: Nanos, packet: &[u8]) -> bool {
        let Some(a) = Arp::parse(packet) else {
            return false;
        };
        let (mac, ip) = a.sender;
        let for_us = self.core.config.interface.owns(IpAddr::V4(a.target.1));
        self.core
            .neighbours
            .learn(IpAddr::V4(ip), mac, now, for_us && !a.reply);
        if for_us && !a.reply {
            let interface = &self.core.config.interface;
            let reply = Arp {
                reply: true,
                sender: (interface.mac, a.target.1),
                target: a.sender,
            };
            self.control.arp(interface, mac, &reply);
        }
        true
    }

    fn take_ndp(&mut self, now: Nanos, src: Mac, ip: &Ip, packet: &[u8]) -> bool {
        let Some(m) = Ndp::parse(ip, packet) else {
            return false;
        };
        if m.advertisement {
            if let Some(mac) = m.mac.or(m.solicited.then_some(src)) {
                let target = IpAddr::V6(m.target);
                self.core.neighbours.learn(target, mac, now, false);
            }
            return true;
        }
        let interface = &self.core.config.interface;
        if !interface.owns(IpAddr::V6(m.target)) {
            return true;
        }
        // A probe for a duplicate address has no source to answer to.
        let duplicate_probe = ip.src.is_unspecified();
        let mac = m.mac.unwrap_or(src);
        let (dst, dst_mac) = if duplicate_probe {
            let all = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
            (IpAddr::V6(all), crate::wire::ndp::multicast_mac(all))
        } else {
            self.core.neighbours.learn(ip.src, mac, now, true);
            (ip.src, mac)
        };
        let interface = &self.core.config.interface;
        let reply = Ndp {
            advertisement: true,
            solicited: !duplicate_probe,
            target: m.target,
            mac: Some(interface.mac),
        };
        self.control
            .ndp(interface, dst_mac, (IpAddr::V6(m.target), dst), &reply);
        true
    }

    fn take_echo(&mut self, src: Mac, ip: &Ip, packet: &[u8]) -> bool {
        let Some(head) = icmp::echo_reply(ip, packet) else {
            return false;
        };
        let data = &packet[icmp::ECHO_HEADER..];
        let core = &mut self.core;
        let interface = &core.config.interface;
        if self
            .control
            .echo(interface, &mut core.memory, src, ip, &head, data)
        {
            core.counters.echoes += 1;
        }
        true
    }

    // One caller, and the way of every acknowledgement.
    #[inline(always)]
    fn take_tcp(&mut self, now: Nanos, src: Mac, ip: &Ip, packet: &[u8], meta: &RxMeta) -> bool {
        if meta.l4_checksum == Checksum::None && !checksum::l4_ok(ip.src, ip.dst, ip::TCP, packet) {
            self.core.counters.bad_checksums += 1;
            return false;
        }
        let mut header = Header::default();
        let Some(payload) = header.read(packet) else {
            return false;
        };
        let ends = Ends::new((ip.dst, header.dst_port), (ip.src, header.src_port));
        let arrival = if meta.arrival == Nanos::ZERO || meta.arrival > now {
            now
        } else {
            meta.arrival
        };
        let segment = Incoming {
            header: &header,
            payload,
            ecn: ip.ecn,
            arrival,
        };
        if let Some(index) = self.demux.get(&ends).copied()
            && let Some(c) = conn_at(&mut self.slots, index)
        {
            let reply = c.on_segment(&mut self.core, now, &segment);
            if reply == Reply::Reopen {
                c.finish(crate::conn::CloseReason::Normal);
            }
            if attend(c, &mut self.ready, &mut self.events) {
                self.settle(index);
            }
            if reply == Reply::Nothing {
                return true;
            }
        }
        self.take_unconnected(now, src, ip, &header, payload.len())
    }

    /// A segment that no connection takes.
    #[inline(never)]
    fn take_unconnected(
        &mut self,
        now: Nanos,
        src: Mac,
        ip: &Ip,
        header: &Header,
        payload: usize,
    ) -> bool {
        // A connection's own end is ours.
        if !self.core.config.interface.owns(ip.dst) {
            return false;
        }
        let ends = Ends::new((ip.dst, header.dst_port), (ip.src, header.src_port));
        let flags = header.flags;
        let opens = flags.has(Flags::SYN) && !flags.has(Flags::ACK) && !flags.has(Flags::RST);
        if opens
            && !self.demux.contains_key(&ends)
            && let Some(l) = self.listeners.find(ip.dst, header.dst_port)
        {
            let local = SocketAddr::new(ip.dst, header.dst_port);
            let remote = SocketAddr::new(ip.src, header.src_port);
            let refused = !self.open_passive(now, l, (local, remote), header);
            if refused {
                self.refuse(src, ip, header, payload);
            }
            return true;
        }
        if !flags.has(Flags::RST) {
            self.refuse(src, ip, header, payload);
        }
        true
    }

    fn refuse(&mut self, src: Mac, ip: &Ip, header: &Header, payload: usize) {
        let interface = &self.core.config.interface;
        self.control.reset(interface, src, ip, header, payload);
        self.core.counters.resets_out += 1;
    }

    /// Answers a SYN; false when it is to be refused.
    fn open_passive(
        &mut self,
        now: Nanos,
        listener: u32,
        ends: (SocketAddr, SocketAddr),
        header: &Header,
    ) -> bool {
        let Some(tenant) = self.listeners.get(listener).map(|l| l.tenant) else {
            return true;
        };
        if !self.listeners.admit(listener) {
            self.core.counters.syn_drops += 1;
            return true;
        }
        if !self.core.memory.admit() {
            // Memory is held for long: who is told at once need not try again and again.
            self.listeners.half_open_gone(listener);
            self.core.counters.refused += 1;
            return false;
        }
        let id = self.insert(|core, index, generation| {
            let mut c = Conn::new(core, index, generation, tenant, ends, now);
            c.answer(core, now, header);
            c.listener = Some(listener);
            c
        });
        match id {
            Some(id) => {
                self.enqueue(id.index);
                self.settle(id.index);
            }
            None => {
                self.core.memory.leave();
                self.listeners.half_open_gone(listener);
                self.core.counters.syn_drops += 1;
            }
        }
        true
    }

    /// The NIC completed a burst.
    pub fn on_tx_completion(&mut self, now: Nanos, c: &TxCompletion) {
        self.control.blocked = false;
        self.completed = true;
        if c.token == TOKEN_NONE {
            return;
        }
        let Some((index, burst)) = self.core.bursts.remove(&mut self.core.memory.pool, c.token)
        else {
            self.core.counters.stale_completions += 1;
            return;
        };
        let Some((owner, generation)) = burst.owner else {
            return;
        };
        let Some(conn) = conn_at(&mut self.slots, owner).filter(|c| c.generation == generation)
        else {
            return;
        };
        conn.on_completion(&mut self.core, now, index, &burst, c);
        if attend(conn, &mut self.ready, &mut self.events) {
            self.settle(owner);
        }
    }
}
