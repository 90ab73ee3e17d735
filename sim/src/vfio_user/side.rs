// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the NIC's thread owns: the world, and for each of its NICs what the client has
//! set up: event descriptors, mappings, doorbell pages.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use tsonic_pci::config::{COMMAND, CONFIG_BYTES};
use tsonic_pci::{BusError, PciDevice};
use tsonic_regs::pci::{MSIX_BAR, MSIX_BAR_BYTES, REGISTER_BAR};
use tsonic_regs::registers::BAR0_BYTES;
use tsonic_vfio_user::{DmaMap, DmaUnmap, Errno, region};

use super::doorbells::Doorbells;
use super::files::{FileMap, Files};
use super::signals::Signals;
use crate::root_complex::{Access, FarMemory};
use crate::world::World;

/// DMA mappings of a client at once; the protocol's own default.
const MAPS_MAX: usize = 65_535;

/// What a NIC's client has set up.
struct End {
    /// Of each vector.
    events: Vec<Option<OwnedFd>>,
    files: Files,
    /// Keeps alive what mappings point to, by their address.
    kept: BTreeMap<u64, (u64, Option<Arc<FileMap>>)>,
    doorbells: Option<Arc<Doorbells>>,
}

/// See the module.
pub struct Side {
    world: World,
    ends: Vec<End>,
    fired: Vec<u16>,
    /// Made when the first event descriptor comes, if not before.
    signals: Option<Signals>,
    /// Vectors that were signalled to a client.
    signalled: u64,
}

/// What an access goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    /// A BAR.
    Bar(u8),
    /// Configuration space.
    Config,
}

impl Region {
    /// The region of an index, if it has any bytes.
    pub const fn of(index: u32) -> Option<Region> {
        const REGISTERS: u32 = region::BAR0 + REGISTER_BAR as u32;
        const MSIX: u32 = region::BAR0 + MSIX_BAR as u32;
        match index {
            REGISTERS => Some(Region::Bar(REGISTER_BAR)),
            MSIX => Some(Region::Bar(MSIX_BAR)),
            region::CONFIG => Some(Region::Config),
            _ => None,
        }
    }

    /// Bytes.
    pub const fn bytes(self) -> u64 {
        match self {
            Region::Bar(REGISTER_BAR) => BAR0_BYTES as u64,
            Region::Bar(_) => MSIX_BAR_BYTES as u64,
            Region::Config => CONFIG_BYTES as u64,
        }
    }
}

impl Side {
    pub fn new(world: World, doorbells: Vec<Option<Arc<Doorbells>>>) -> Side {
        let ends = doorbells
            .into_iter()
            .enumerate()
            .map(|(node, doorbells)| {
                let vectors = world.function(node).map_or(0, |f| f.vectors());
                End {
                    events: (0..vectors).map(|_| None).collect(),
                    files: Files::default(),
                    kept: BTreeMap::new(),
                    doorbells,
                }
            })
            .collect();
        Side {
            world,
            ends,
            fired: Vec::new(),
            signals: None,
            signalled: 0,
        }
    }

    /// Makes what event descriptors are signalled with, unless it is there.
    pub fn prepare_signals(&mut self) -> io::Result<()> {
        if self.signals.is_none() {
            self.signals = Some(Signals::new()?);
        }
        Ok(())
    }

    pub fn world(&mut self) -> &mut World {
        &mut self.world
    }

    pub fn into_world(self) -> World {
        self.world
    }

    pub const fn signalled(&self) -> u64 {
        self.signalled
    }

    pub fn vectors(&self, node: usize) -> u32 {
        let n = self.ends.get(node).map_or(0, |e| e.events.len());
        // At most 257.
        n as u32
    }

    /// Takes the doorbells that clients stored, and tells the clock.
    pub fn exchange(&mut self) {
        let now = self.world.now();
        for (node, end) in self.ends.iter().enumerate() {
            let Some(doorbells) = &end.doorbells else {
                continue;
            };
            doorbells.publish(now);
            let world = &mut self.world;
            doorbells.take(|offset, tail| {
                if let Some(mut slot) = world.slot(node) {
                    slot.bar_write(REGISTER_BAR, offset, &tail.to_le_bytes());
                }
            });
        }
    }

    /// Signals the vectors that fired.
    pub fn signal(&mut self) {
        for (node, end) in self.ends.iter().enumerate() {
            self.fired.clear();
            if !self.world.take_fired(node, &mut self.fired) {
                continue;
            }
            // The clock that goes with what the vectors announce.
            if let Some(doorbells) = &end.doorbells {
                doorbells.publish(self.world.now());
            }
            for v in &self.fired {
                if let Some(Some(event)) = end.events.get(usize::from(*v))
                    && let Some(signals) = &mut self.signals
                {
                    match signals.signal(event.as_fd()) {
                        Ok(()) => self.signalled += 1,
                        Err(error) => tracing::debug!(%error, vector = v, "no signal"),
                    }
                }
            }
        }
    }

    /// A client comes: the function is as an operating system hands it over.
    pub fn join(&mut self, node: usize) {
        self.leave(node);
        self.world.with_function(node, |f| f.assign());
    }

    /// A client goes: nothing of it is left.
    pub fn leave(&mut self, node: usize) {
        self.world.reset(node);
        if let Some(memory) = self.world.memory_mut(node) {
            memory.unmap_inside(0, u64::MAX);
        }
        if let Some(end) = self.ends.get_mut(node) {
            end.events.iter_mut().for_each(|e| *e = None);
            end.kept.clear();
            end.files = Files::default();
            if let Some(d) = &end.doorbells {
                d.renew();
            }
        }
    }

    /// A reset that the client asks for: as when a kernel resets a function for its
    /// driver, command register and vectors stay.
    pub fn reset(&mut self, node: usize) {
        let command = self.world.function(node).map(|f| f.config16(COMMAND));
        self.world.reset(node);
        let Some(end) = self.ends.get(node) else {
            return;
        };
        if let Some(d) = &end.doorbells {
            d.clear();
        }
        self.world.with_function(node, |f| {
            f.assign();
            // No bit of the command register asks for anything.
            let _ = f.config_write(COMMAND, &command.unwrap_or(0).to_le_bytes());
            for (v, event) in end.events.iter().enumerate() {
                let _ = f.mask_vector(v as u16, event.is_none());
            }
            f.enable_msix(end.events.iter().any(Option::is_some));
        });
    }

    pub fn read(&mut self, node: usize, region: Region, offset: u64, out: &mut [u8]) {
        match (self.world.slot(node), region) {
            (Some(mut s), Region::Bar(bar)) => s.bar_read(bar, offset, out),
            (Some(mut s), Region::Config) => s.config_read(offset as u16, out),
            (None, _) => out.fill(0xff),
        }
    }

    pub fn write(&mut self, node: usize, region: Region, offset: u64, data: &[u8]) {
        match (self.world.slot(node), region) {
            (Some(mut s), Region::Bar(bar)) => s.bar_write(bar, offset, data),
            (Some(mut s), Region::Config) => s.config_write(offset as u16, data),
            (None, _) => {}
        }
    }

    /// Maps a part of a file, or, without one, memory that has to be asked for.
    pub fn map(
        &mut self,
        node: usize,
        map: &DmaMap,
        file: Option<&OwnedFd>,
        far: &Arc<dyn FarMemory>,
    ) -> Result<(), Errno> {
        let (Some(end), Some(memory)) = (self.ends.get_mut(node), self.world.memory_mut(node))
        else {
            return Err(Errno::ENOENT);
        };
        if memory.memory().len() >= MAPS_MAX {
            return Err(Errno::ENOMEM);
        }
        let access = Access {
            read: map.read,
            write: map.write,
        };
        let kept = match file {
            Some(file) => {
                let kept = end.files.map(file)?;
                if map.write && !kept.is_writable() {
                    return Err(Errno::EACCES);
                }
                let part = kept.part(map.offset, map.bytes).ok_or(Errno::EINVAL)?;
                // SAFETY: the file cannot shrink, and its mapping is kept until this
                // one is removed; only raw pointers of ours lead there.
                let mapped = unsafe { memory.map(part, map.bytes, map.address, access) };
                mapped.map_err(|e| errno(&e))?;
                Some(kept)
            }
            None => {
                let far = Arc::clone(far);
                let mapped = memory.map_far(far, map.bytes, map.address, access);
                mapped.map_err(|e| errno(&e))?;
                None
            }
        };
        end.kept.insert(map.address, (map.bytes, kept));
        Ok(())
    }

    /// Removes every mapping in the range; there may be none. Writes under way have
    /// landed when this returns.
    pub fn unmap(&mut self, node: usize, unmap: &DmaUnmap) -> Result<(), Errno> {
        let (Some(end), Some(memory)) = (self.ends.get_mut(node), self.world.memory_mut(node))
        else {
            return Err(Errno::ENOENT);
        };
        let (address, bytes) = match unmap.all {
            true => (0, u64::MAX),
            false => (unmap.address, unmap.bytes),
        };
        if memory.memory().cuts(address, bytes) {
            return Err(Errno::EINVAL);
        }
        memory.unmap_inside(address, bytes);
        let last = address.saturating_add(bytes);
        let gone = |at: u64, n: u64| at >= address && at.saturating_add(n) <= last;
        end.kept.retain(|at, (n, _)| !gone(*at, *n));
        Ok(())
    }

    /// Sets what is signalled for the vectors from `first` on.
    pub fn set_events(
        &mut self,
        node: usize,
        first: u32,
        events: Vec<OwnedFd>,
    ) -> Result<(), Errno> {
        for event in &events {
            check_event(event)?;
        }
        self.prepare_signals().map_err(|e| Errno::of(&e))?;
        let end = self.ends.get_mut(node).ok_or(Errno::ENOENT)?;
        let places = end.events.get_mut(first as usize..).unwrap_or_default();
        if places.len() < events.len() {
            return Err(Errno::EINVAL);
        }
        let n = events.len();
        for (place, event) in places.iter_mut().zip(events) {
            *place = Some(event);
        }
        self.world.with_function(node, |f| {
            for v in (first as usize)..(first as usize + n) {
                let _ = f.mask_vector(v as u16, false);
            }
            f.enable_msix(true);
        });
        Ok(())
    }

    /// Nothing is signalled for those vectors any more; they are masked.
    pub fn clear_events(&mut self, node: usize, first: u32, count: u32) -> Result<(), Errno> {
        let range = self.range(node, first, count)?;
        if let Some(end) = self.ends.get_mut(node) {
            for v in range.clone() {
                end.events[v] = None;
            }
        }
        self.world.with_function(node, |f| {
            for v in range {
                let _ = f.mask_vector(v as u16, true);
            }
        });
        Ok(())
    }

    /// MSI-X off.
    pub fn disable_events(&mut self, node: usize) {
        if let Some(end) = self.ends.get_mut(node) {
            end.events.iter_mut().for_each(|e| *e = None);
        }
        self.world.with_function(node, |f| f.enable_msix(false));
    }

    /// Masks or unmasks one vector.
    pub fn mask(&mut self, node: usize, vector: u32, masked: bool) -> Result<(), Errno> {
        self.range(node, vector, 1)?;
        self.world
            .with_function(node, |f| f.mask_vector(vector as u16, masked));
        Ok(())
    }

    /// Signals one vector, as a test of the way there.
    pub fn fire(&mut self, node: usize, vector: u32) -> Result<(), Errno> {
        self.range(node, vector, 1)?;
        self.world
            .with_function(node, |f| f.interrupt(vector as u16));
        Ok(())
    }

    fn range(&self, node: usize, first: u32, count: u32) -> Result<std::ops::Range<usize>, Errno> {
        let end = u64::from(first) + u64::from(count);
        if end > u64::from(self.vectors(node)) {
            return Err(Errno::EINVAL);
        }
        Ok(first as usize..end as usize)
    }
}

fn errno(e: &BusError) -> Errno {
    match e {
        BusError::BadMapping { .. } => Errno::EINVAL,
        _ => Errno::EIO,
    }
}

/// An event descriptor must be one: nothing else can be signalled.
fn check_event(event: &OwnedFd) -> Result<(), Errno> {
    use std::os::fd::AsRawFd;
    let link = format!("/proc/self/fd/{}", event.as_raw_fd());
    let name = std::fs::read_link(link).map_err(|e: io::Error| Errno::of(&e))?;
    if name.as_os_str() != "anon_inode:[eventfd]" {
        return Err(Errno::EINVAL);
    }
    Ok(())
}
