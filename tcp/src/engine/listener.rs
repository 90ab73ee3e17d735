// SPDX-License-Identifier: MIT OR Apache-2.0
//! Listeners: addresses that take connections, and those that wait for accept.

use super::ConnId;
use core::net::{IpAddr, SocketAddr};
use std::collections::VecDeque;
use tsonic_types::TenantId;

#[derive(Debug)]
pub(super) struct Listener {
    pub address: SocketAddr,
    pub tenant: TenantId,
    /// Most connections in `queue`.
    backlog: usize,
    /// Most half-open ones.
    half_open_max: usize,
    half_open: usize,
    queue: VecDeque<ConnId>,
    /// An event is due.
    told: bool,
}

/// All listeners of an engine.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    list: Vec<Option<Listener>>,
    events: VecDeque<u32>,
}

impl Listeners {
    /// Adds a listener; `None` if the address is taken.
    pub fn add(
        &mut self,
        address: SocketAddr,
        tenant: TenantId,
        backlog: usize,
        half_open_max: usize,
    ) -> Option<u32> {
        let taken = self.list.iter().flatten().any(|l| {
            l.address.port() == address.port()
                && (l.address.ip() == address.ip()
                    || l.address.ip().is_unspecified()
                    || address.ip().is_unspecified())
        });
        if taken {
            return None;
        }
        self.list.push(Some(Listener {
            address,
            tenant,
            backlog: backlog.max(1),
            half_open_max,
            half_open: 0,
            queue: VecDeque::new(),
            told: false,
        }));
        Some((self.list.len() - 1) as u32)
    }

    /// Removes a listener; answers the connections that waited.
    pub fn remove(&mut self, id: u32) -> VecDeque<ConnId> {
        self.list
            .get_mut(id as usize)
            .and_then(Option::take)
            .map(|l| l.queue)
            .unwrap_or_default()
    }

    /// The listener for a SYN to `ip`:`port`.
    pub fn find(&self, ip: IpAddr, port: u16) -> Option<u32> {
        self.list
            .iter()
            .position(|l| {
                l.as_ref().is_some_and(|l| {
                    l.address.port() == port
                        && (l.address.ip() == ip || l.address.ip().is_unspecified())
                })
            })
            .map(|i| i as u32)
    }

    pub fn get(&self, id: u32) -> Option<&Listener> {
        self.list.get(id as usize)?.as_ref()
    }

    /// Room for one more half-open connection, which is then counted.
    pub fn admit(&mut self, id: u32) -> bool {
        match self.list.get_mut(id as usize).and_then(Option::as_mut) {
            Some(l) if l.half_open < l.half_open_max && l.queue.len() < l.backlog => {
                l.half_open += 1;
                true
            }
            _ => false,
        }
    }

    pub fn half_open_gone(&mut self, id: u32) {
        if let Some(l) = self.list.get_mut(id as usize).and_then(Option::as_mut) {
            l.half_open = l.half_open.saturating_sub(1);
        }
    }

    /// A connection waits to be accepted; `false` if the listener is gone.
    pub fn established(&mut self, id: u32, conn: ConnId) -> bool {
        let Some(l) = self.list.get_mut(id as usize).and_then(Option::as_mut) else {
            return false;
        };
        l.half_open = l.half_open.saturating_sub(1);
        l.queue.push_back(conn);
        if !l.told {
            l.told = true;
            self.events.push_back(id);
        }
        true
    }

    pub fn accept(&mut self, id: u32) -> Option<ConnId> {
        let l = self.list.get_mut(id as usize)?.as_mut()?;
        l.queue.pop_front()
    }

    pub fn next_event(&mut self) -> Option<u32> {
        while let Some(id) = self.events.pop_front() {
            if let Some(l) = self.list.get_mut(id as usize).and_then(Option::as_mut) {
                l.told = false;
                if !l.queue.is_empty() {
                    return Some(id);
                }
            }
        }
        None
    }
}
