// SPDX-License-Identifier: MIT OR Apache-2.0
//! A NIC in another process, over vfio-user.
//!
//! Register writes are posted (no reply is waited for), as on PCI Express; reads are a
//! round trip. Where the device offers its doorbell pages, they are mapped: a doorbell is
//! then a store, and the clock a load. Interrupts are event descriptors, waited for
//! together with the socket, so that a device that dies ends the wait.

mod connection;
mod pages;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use connection::Connection;
use pages::Pages;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use tracing::debug;
use tsonic_pci::config::{
    CAP_ID_MSIX, CAPABILITY_LIST, CONVENTIONAL_BYTES, MSIX_FLAGS, MSIX_FLAGS_ENABLE,
    MSIX_FLAGS_MASKALL,
};
use tsonic_pci::{BusError, DmaBuffer, DmaPermission, PciFunction, Wake};
use tsonic_regs::registers::{DOORBELL_STRIDE, doorbell, doorbell_offset, global};
use tsonic_types::{Nanos, TickRate, Ticks};
use tsonic_vfio_user::socket::timespec;
use tsonic_vfio_user::{
    DeviceInfo, DmaMap, DmaUnmap, FDS_MAX, IrqAction, IrqData, IrqInfo, RegionAccess, RegionInfo,
    Request, SetIrqs, Version, irq, parse_access_reply, region,
};

/// Bytes of a page; mappings are multiples of it.
const PAGE: u64 = 4_096;
/// Longest sleep before the device's clock is looked at again.
const SLEEP_MAX: Duration = Duration::from_secs(1);
/// Capabilities that configuration space may have.
const CAPABILITIES_MAX: usize = 48;

/// How a device is used.
#[derive(Clone, Copy, Debug)]
pub struct VfioUserConfig {
    /// Longest wait for a reply.
    pub timeout: Duration,
    /// Map the doorbell pages if the device offers them.
    pub map_doorbells: bool,
}

impl Default for VfioUserConfig {
    fn default() -> VfioUserConfig {
        VfioUserConfig {
            timeout: Duration::from_secs(10),
            map_doorbells: true,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct VfioUserFunction {
    connection: Connection,
    /// Descriptors that the device takes in a message.
    fds_max: usize,
    vectors: u16,
    /// Of the vectors that are enabled.
    events: Vec<OwnedFd>,
    /// Vectors that fired and were not taken, each once.
    fired: Vec<u16>,
    /// MSIX_FLAGS in configuration space.
    msix_flags: Option<u16>,
    mappings: BTreeMap<u64, usize>,
    pages: Option<Pages>,
    rate: Option<TickRate>,
    last: Ticks,
    /// The clock in the pages may have stood still for long.
    stale: bool,
}

impl VfioUserFunction {
    /// Connects to the device that listens at `path`.
    ///
    /// # Errors
    /// [`BusError::Os`] when nobody does; [`BusError::Busy`] when it has another client;
    /// [`BusError::Refused`], [`BusError::TimedOut`], [`BusError::Gone`] when it does not
    /// behave.
    pub fn connect(path: &Path, config: VfioUserConfig) -> Result<VfioUserFunction, BusError> {
        let stream = UnixStream::connect(path).map_err(|source| BusError::Os {
            what: "connect to the device's socket",
            source,
        })?;
        let mut connection = Connection::new(stream, config.timeout);
        let version = {
            let request = Request::Version(Version::ours());
            let asked = connection.request("the protocol's version", &request, &[]);
            let (body, _) = asked.map_err(|e| match e {
                BusError::Refused { source, .. }
                    if source.kind() == io::ErrorKind::ResourceBusy =>
                {
                    BusError::Busy
                }
                e => e,
            })?;
            Version::parse(body)
        };
        let version = version
            .and_then(|v| v.answer().map(|_| v))
            .map_err(|e| connection.nonsense(&e))?;
        let info = {
            let request = Request::DeviceGetInfo;
            let (body, _) = connection.request("what it is", &request, &[])?;
            DeviceInfo::parse(body)
        };
        let info = info.map_err(|e| connection.nonsense(&e))?;
        if !info.pci || info.regions <= region::CONFIG || info.irqs <= irq::MSIX {
            return Err(connection.bury("it is no PCI function"));
        }
        let request = Request::DeviceGetIrqInfo { index: irq::MSIX };
        let irqs = {
            let (body, _) = connection.request("its interrupts", &request, &[])?;
            IrqInfo::parse(body)
        };
        let irqs = irqs.map_err(|e| connection.nonsense(&e))?;
        let pages = match config.map_doorbells {
            true => map_pages(&mut connection)?,
            false => None,
        };
        debug!(mapped = pages.is_some(), ?version, "connected");
        let mut function = VfioUserFunction {
            connection,
            fds_max: version.capabilities.max_msg_fds.clamp(1, FDS_MAX),
            vectors: u16::try_from(irqs.count).unwrap_or(u16::MAX),
            events: Vec::new(),
            fired: Vec::new(),
            msix_flags: None,
            mappings: BTreeMap::new(),
            pages,
            rate: None,
            last: Ticks::ZERO,
            stale: true,
        };
        function.msix_flags = function
            .find_capability(CAP_ID_MSIX)?
            .map(|at| at + MSIX_FLAGS);
        let hz = function.read32(0, global::TICK_HZ.offset as u64)?;
        function.rate = TickRate::new(hz);
        Ok(function)
    }

    /// Messages sent to the device so far.
    pub const fn messages(&self) -> u64 {
        self.connection.messages()
    }

    /// Whether doorbells are stores.
    pub const fn maps_doorbells(&self) -> bool {
        self.pages.is_some()
    }

    /// Has the device fire a vector, as a test of the way there.
    ///
    /// # Errors
    /// [`BusError::Refused`] when there is none of that number; [`BusError::Gone`].
    pub fn trigger(&mut self, vector: u16) -> Result<(), BusError> {
        let set = SetIrqs {
            action: IrqAction::Trigger,
            data: IrqData::None,
            index: irq::MSIX,
            start: vector.into(),
            count: 1,
        };
        self.irqs(set, &[])
    }

    fn find_capability(&mut self, id: u8) -> Result<Option<u16>, BusError> {
        let mut byte = [0; 2];
        self.config_read(CAPABILITY_LIST, &mut byte)?;
        let mut at = u16::from(byte[0] & !3);
        for _ in 0..CAPABILITIES_MAX {
            if at == 0 || usize::from(at) + 2 > CONVENTIONAL_BYTES {
                return Ok(None);
            }
            self.config_read(at, &mut byte)?;
            if byte[0] == id {
                return Ok(Some(at));
            }
            at = u16::from(byte[1] & !3);
        }
        Ok(None)
    }

    fn read(
        &mut self,
        what: &'static str,
        region: u32,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), BusError> {
        let access = RegionAccess {
            offset,
            region,
            count: out.len() as u32,
        };
        let request = Request::RegionRead(access);
        let (body, _) = self.connection.request(what, &request, &[])?;
        match parse_access_reply(&access, out.len(), body) {
            Ok(data) => {
                out.copy_from_slice(data);
                Ok(())
            }
            Err(e) => Err(self.connection.nonsense(&e)),
        }
    }

    fn irqs(&mut self, set: SetIrqs<'_>, fds: &[BorrowedFd<'_>]) -> Result<(), BusError> {
        let request = Request::DeviceSetIrqs(set);
        self.connection
            .request("a change of its interrupts", &request, fds)
            .map(drop)
    }

    /// Posts a write of a register.
    fn post(&mut self, region: u32, offset: u64, value: u32) -> Result<(), BusError> {
        let access = RegionAccess {
            offset,
            region,
            count: 4,
        };
        let data = value.to_le_bytes();
        let request = Request::RegionWrite(access, &data);
        self.connection.post("a register write", &request)
    }

    /// Posts a write of a register that is read only, in the doorbell page of `offset`.
    #[cold]
    fn wake(&mut self, offset: u64) -> Result<(), BusError> {
        let page = offset - offset % DOORBELL_STRIDE as u64;
        self.post(region::BAR0, page + doorbell::CLOCK_LO.offset as u64, 0)
    }

    /// The clock, asked for by a message.
    fn ask_clock(&mut self) -> Result<Ticks, BusError> {
        let mut clock = [0; 8];
        let at = doorbell_offset(0, doorbell::CLOCK_LO) as u64;
        self.read("the clock", region::BAR0, at, &mut clock)?;
        Ok(Ticks(u64::from_le_bytes(clock)))
    }

    fn clock(&mut self) -> Result<Ticks, BusError> {
        let told = self.pages.as_ref().map(Pages::clock);
        // A clock that stands still belongs to a device that sleeps.
        let now = match told.filter(|t| *t > self.last && !self.stale) {
            Some(now) => now,
            None => self.ask_clock()?,
        };
        self.stale = false;
        self.last = self.last.max(now);
        Ok(self.last)
    }

    /// Sleeps until a vector fires, the device says something, or `span` is over
    /// (`None`: never). Says whether a vector fired.
    fn sleep(&mut self, span: Option<Duration>) -> Result<bool, BusError> {
        let mut fds = Vec::with_capacity(1 + self.events.len());
        let socket = self.connection.descriptor();
        fds.push(PollFd::new(&socket, PollFlags::IN));
        fds.extend(self.events.iter().map(|e| PollFd::new(e, PollFlags::IN)));
        let limit = span.map(timespec);
        let ready = match poll(&mut fds, limit.as_ref()) {
            Ok(n) => n,
            Err(rustix::io::Errno::INTR) => 0,
            Err(e) => {
                return Err(BusError::Os {
                    what: "wait for the device",
                    source: e.into(),
                });
            }
        };
        if ready == 0 {
            return Ok(false);
        }
        let said = fds[0].revents();
        let mut any = false;
        for (v, fd) in fds[1..].iter().enumerate() {
            if !fd.revents().is_empty() {
                // Whatever its count: it fired.
                any |= rustix::io::read(&self.events[v], &mut [0u8; 8]).is_ok();
                let v = v as u16;
                if !self.fired.contains(&v) {
                    self.fired.push(v);
                }
            }
        }
        if said.contains(PollFlags::IN) {
            self.connection.unasked()?;
        } else if !said.is_empty() {
            return Err(self.connection.bury("its process has ended"));
        }
        Ok(any)
    }
}

/// Asks for BAR 0 with its areas, and maps the doorbell pages if they are among them.
fn map_pages(connection: &mut Connection) -> Result<Option<Pages>, BusError> {
    let mut argsz = 32;
    // Once to learn how long the answer is, once for the answer.
    for _ in 0..2 {
        let request = Request::DeviceGetRegionInfo {
            argsz,
            index: region::BAR0,
        };
        let (body, fds) = connection.request("its registers", &request, &[])?;
        let (info, needs) = match RegionInfo::parse(body) {
            Ok(both) => both,
            Err(e) => return Err(connection.nonsense(&e)),
        };
        if !info.flags.mmap {
            return Ok(None);
        }
        if needs > argsz {
            argsz = needs;
            continue;
        }
        let Some(file) = fds.first() else {
            return Ok(None);
        };
        return Pages::map(&info, file).map_err(|source| BusError::Os {
            what: "map the device's doorbell pages",
            source,
        });
    }
    Ok(None)
}

const fn config_access(offset: u16, bytes: usize) -> RegionAccess {
    RegionAccess {
        offset: offset as u64,
        region: region::CONFIG,
        count: bytes as u32,
    }
}

impl PciFunction for VfioUserFunction {
    fn config_read(&mut self, offset: u16, out: &mut [u8]) -> Result<(), BusError> {
        let what = "a read of configuration space";
        self.read(what, region::CONFIG, offset.into(), out)
    }

    fn config_write(&mut self, offset: u16, data: &[u8]) -> Result<(), BusError> {
        let request = Request::RegionWrite(config_access(offset, data.len()), data);
        let what = "a write of configuration space";
        self.connection.request(what, &request, &[]).map(drop)
    }

    fn read32(&mut self, bar: u8, offset: u64) -> Result<u32, BusError> {
        let mut word = [0; 4];
        self.read(
            "a register",
            region::BAR0 + u32::from(bar),
            offset,
            &mut word,
        )?;
        Ok(u32::from_le_bytes(word))
    }

    fn write32(&mut self, bar: u8, offset: u64, value: u32) -> Result<(), BusError> {
        if bar == 0
            && let Some(pages) = &self.pages
            && pages.is_tail(offset)
        {
            if self.connection.has_posted() {
                // A store would overtake the messages before it.
                self.config_read(0, &mut [0; 4])?;
            }
            let asleep = self.pages.as_ref().is_some_and(|p| p.ring(offset, value));
            // Any message wakes it; one with the tail could arrive after a later store.
            return if asleep { self.wake(offset) } else { Ok(()) };
        }
        self.post(region::BAR0 + u32::from(bar), offset, value)?;
        self.connection.posted();
        Ok(())
    }

    unsafe fn dma_map(
        &mut self,
        buffer: DmaBuffer<'_>,
        iova: u64,
        permission: DmaPermission,
    ) -> Result<(), BusError> {
        let bytes = buffer.bytes as u64;
        if bytes == 0 || !bytes.is_multiple_of(PAGE) || !iova.is_multiple_of(PAGE) {
            return Err(BusError::BadMapping {
                iova,
                bytes: buffer.bytes,
            });
        }
        let (file, offset) = buffer.file.ok_or(BusError::PrivateMemory { iova })?;
        let request = Request::DmaMap(DmaMap {
            read: true,
            write: permission.writes(),
            offset,
            address: iova,
            bytes,
        });
        self.connection
            .request("a DMA mapping", &request, &[file])?;
        self.mappings.insert(iova, buffer.bytes);
        Ok(())
    }

    fn dma_unmap(&mut self, iova: u64, bytes: usize) -> Result<(), BusError> {
        if self.mappings.get(&iova) != Some(&bytes) {
            return Err(BusError::NotMapped { iova });
        }
        if self.connection.is_dead() {
            // It had the file, not our mapping of it: what it still writes goes nowhere.
            self.mappings.remove(&iova);
            return Ok(());
        }
        let request = Request::DmaUnmap(DmaUnmap {
            all: false,
            address: iova,
            bytes: bytes as u64,
        });
        self.connection
            .request("the end of a DMA mapping", &request, &[])?;
        self.mappings.remove(&iova);
        Ok(())
    }

    fn reset(&mut self) -> Result<(), BusError> {
        self.connection
            .request("a reset", &Request::DeviceReset, &[])?;
        // What fired before is of no interest any more.
        while self.sleep(Some(Duration::ZERO))? {}
        self.fired.clear();
        self.stale = true;
        Ok(())
    }

    fn vectors(&self) -> u16 {
        self.vectors
    }

    fn enable_vectors(&mut self, vectors: u16) -> Result<(), BusError> {
        if vectors > self.vectors {
            return Err(BusError::TooFewVectors {
                wanted: vectors,
                has: self.vectors,
            });
        }
        while self.events.len() < usize::from(vectors) {
            let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
            let event = eventfd(0, flags).map_err(|e| BusError::Os {
                what: "make an event descriptor",
                source: e.into(),
            })?;
            self.events.push(event);
        }
        let events = std::mem::take(&mut self.events);
        let fds: Vec<BorrowedFd<'_>> = events.iter().map(|e| e.as_fd()).collect();
        let mut start = 0;
        let mut done = Ok(());
        for part in fds.chunks(self.fds_max) {
            let set = SetIrqs {
                action: IrqAction::Trigger,
                data: IrqData::EventFd,
                index: irq::MSIX,
                start,
                count: part.len() as u32,
            };
            done = done.and_then(|()| self.irqs(set, part));
            start += part.len() as u32;
        }
        drop(fds);
        self.events = events;
        done?;
        self.mask_all(false)
    }

    fn disable_vectors(&mut self) -> Result<(), BusError> {
        self.events.clear();
        self.fired.clear();
        let set = SetIrqs {
            action: IrqAction::Trigger,
            data: IrqData::None,
            index: irq::MSIX,
            start: 0,
            count: 0,
        };
        self.irqs(set, &[])
    }

    fn mask_vector(&mut self, vector: u16, masked: bool) -> Result<(), BusError> {
        if usize::from(vector) >= self.events.len() {
            return Err(BusError::TooFewVectors {
                wanted: vector.saturating_add(1),
                has: self.events.len() as u16,
            });
        }
        let set = SetIrqs {
            action: if masked {
                IrqAction::Mask
            } else {
                IrqAction::Unmask
            },
            data: IrqData::None,
            index: irq::MSIX,
            start: vector.into(),
            count: 1,
        };
        self.irqs(set, &[])
    }

    fn mask_all(&mut self, masked: bool) -> Result<(), BusError> {
        let Some(at) = self.msix_flags else {
            return Ok(());
        };
        let on = if self.events.is_empty() {
            0
        } else {
            MSIX_FLAGS_ENABLE
        };
        let flags = on | if masked { MSIX_FLAGS_MASKALL } else { 0 };
        let data = flags.to_le_bytes();
        // Posted: whatever is said later finds it done.
        let request = Request::RegionWrite(config_access(at, data.len()), &data);
        self.connection.post("the function mask", &request)
    }

    fn take_fired(&mut self, out: &mut Vec<u16>) -> bool {
        if let Err(e) = self.sleep(Some(Duration::ZERO)) {
            // Whoever waits or asks next hears of it.
            debug!("{e}");
        }
        let any = !self.fired.is_empty();
        out.append(&mut self.fired);
        any
    }

    fn now(&mut self) -> Ticks {
        // The clock of a device that is gone stands still; the next access says so.
        self.clock().unwrap_or(self.last)
    }

    fn runs_by_itself(&self) -> bool {
        true
    }

    fn wait(&mut self, deadline: Option<Ticks>) -> Result<Wake, BusError> {
        if self.sleep(Some(Duration::ZERO))? {
            return Ok(Wake::Completion);
        }
        loop {
            let span = match deadline {
                None => None,
                Some(at) => {
                    let now = self.clock()?;
                    if now >= at {
                        return Ok(Wake::Deadline);
                    }
                    let nanos = self.rate.map_or(Nanos::from_millis(1), |r| {
                        // At least a step, or a span below a nanosecond would be spun.
                        r.to_nanos(at.since(now)).max(Nanos(1))
                    });
                    Some(Duration::from_nanos(nanos.0).min(SLEEP_MAX))
                }
            };
            let slept = Instant::now();
            if self.sleep(span)? {
                return Ok(Wake::Completion);
            }
            // A device that slept as long has not told its clock.
            self.stale = slept.elapsed() > Duration::ZERO;
        }
    }
}

/// The error of a connection to a device that is not there yet, or not any more.
pub fn is_absent(error: &BusError) -> bool {
    let kinds = [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused];
    matches!(error, BusError::Os { source, .. } if kinds.contains(&source.kind()))
}
