// SPDX-License-Identifier: MIT OR Apache-2.0
//! One client's conversation: a command in, a reply out. No socket and no thread here,
//! so that anything can be said to it.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use tsonic_vfio_user::{
    Capabilities, DATA_MAX, DeviceInfo, DmaMap, Errno, HEADER_BYTES, Header, IrqAction, IrqData,
    IrqInfo, Kind, RegionAccess, RegionFlags, RegionInfo, Request, SetIrqs, Version,
    encode_access_reply, irq, region,
};

use super::doorbells::Doorbells;
use super::side::{Region, Side};
use crate::root_complex::FarMemory;

/// Work for whoever owns the NIC.
pub type Job = Box<dyn FnOnce(&mut Side) + Send>;

/// The owner of the NIC is gone, or the client is: the conversation is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Over;

/// The way to the NIC's owner.
pub trait Owner {
    /// Has a job done, and returns when it is.
    fn call(&mut self, job: Job) -> Result<(), Over>;
    /// Has a job done before any later one.
    fn post(&mut self, job: Job) -> Result<(), Over>;
    /// The client's memory, for what comes without a file.
    fn far(&self) -> Arc<dyn FarMemory>;
}

/// A reply to send; empty: none.
#[derive(Default)]
pub struct Reply {
    /// Header and all.
    pub bytes: Vec<u8>,
    /// The file of the doorbell pages goes with it.
    pub doorbells: Option<Arc<Doorbells>>,
}

/// See the module.
pub struct Session {
    node: usize,
    vectors: u32,
    doorbells: Option<Arc<Doorbells>>,
    version: Option<Version>,
    body: Vec<u8>,
}

/// What became of a command.
type Done = Result<Result<(), Errno>, Over>;

/// Has `f` done, and returns its result.
fn ask<O: Owner + ?Sized, R: Send + 'static>(
    owner: &mut O,
    f: impl FnOnce(&mut Side) -> R + Send + 'static,
) -> Result<R, Over> {
    let place = Arc::new(Mutex::new(None));
    let result = Arc::clone(&place);
    owner.call(Box::new(move |side| {
        let value = f(side);
        *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
    }))?;
    let mut value = place.lock().unwrap_or_else(PoisonError::into_inner);
    value.take().ok_or(Over)
}

impl Session {
    /// With the client of NIC `node`, which has so many vectors; `doorbells` are offered
    /// to be mapped.
    pub fn new(node: usize, vectors: u32, doorbells: Option<Arc<Doorbells>>) -> Session {
        Session {
            node,
            vectors,
            doorbells,
            version: None,
            body: Vec::new(),
        }
    }

    /// What the client can take.
    pub fn capabilities(&self) -> Capabilities {
        let version = self.version.as_ref();
        version.map_or_else(Capabilities::default, |v| v.capabilities.clone())
    }

    /// Carries out one message.
    pub fn message<O: Owner + ?Sized>(
        &mut self,
        header: &Header,
        body: &[u8],
        fds: Vec<OwnedFd>,
        owner: &mut O,
        reply: &mut Reply,
    ) -> Result<(), Over> {
        reply.bytes.clear();
        reply.doorbells = None;
        if let Kind::Reply(_) = header.kind {
            // To nothing that was asked, or too late.
            tracing::debug!(id = header.id, "a reply that nobody waits for");
            return Ok(());
        }
        self.body.clear();
        let result = match Request::parse(header.command, body, fds.len()) {
            Ok(request) => self.request(request, fds, header.wants_reply(), owner, reply)?,
            Err(error) => {
                tracing::debug!(%error, "refused");
                Err(error.errno())
            }
        };
        if !header.wants_reply() {
            if let Err(errno) = result {
                tracing::debug!(errno = errno.0, command = header.command, "failed unheard");
            }
            reply.doorbells = None;
            return Ok(());
        }
        if result.is_err() {
            self.body.clear();
            reply.doorbells = None;
        }
        reply.bytes.reserve(HEADER_BYTES + self.body.len());
        header
            .reply(result, self.body.len())
            .encode(&mut reply.bytes);
        reply.bytes.extend_from_slice(&self.body);
        Ok(())
    }

    fn request<O: Owner + ?Sized>(
        &mut self,
        request: Request<'_>,
        fds: Vec<OwnedFd>,
        wants_reply: bool,
        owner: &mut O,
        reply: &mut Reply,
    ) -> Done {
        let node = self.node;
        if self.version.is_none() != matches!(request, Request::Version(_)) {
            // Nothing before the version, and that only once.
            return Ok(Err(Errno::EPROTO));
        }
        match request {
            Request::Version(theirs) => Ok(self.negotiate(theirs)),
            Request::DeviceGetInfo => {
                DeviceInfo {
                    pci: true,
                    resets: true,
                    regions: region::COUNT,
                    irqs: irq::COUNT,
                }
                .encode(&mut self.body);
                Ok(Ok(()))
            }
            Request::DeviceGetRegionInfo { argsz, index } => {
                Ok(self.region_info(argsz, index, reply))
            }
            Request::DeviceGetRegionIoFds { index } => {
                if index >= region::COUNT {
                    return Ok(Err(Errno::EINVAL));
                }
                // None: doorbells are mapped or written.
                Request::DeviceGetRegionIoFds { index }.encode(&mut self.body);
                Ok(Ok(()))
            }
            Request::DeviceGetIrqInfo { index } => {
                if index >= irq::COUNT {
                    return Ok(Err(Errno::EINVAL));
                }
                let msix = index == irq::MSIX;
                IrqInfo {
                    index,
                    count: if msix { self.vectors } else { 0 },
                    maskable: msix,
                    no_resize: false,
                }
                .encode(&mut self.body);
                Ok(Ok(()))
            }
            Request::DeviceSetIrqs(set) => self.set_irqs(&set, fds, owner),
            Request::DmaMap(map) => self.map(map, fds, owner),
            Request::DmaUnmap(unmap) => {
                let done = ask(owner, move |side| side.unmap(node, &unmap))?;
                if done.is_ok() {
                    Request::DmaUnmap(unmap).encode(&mut self.body);
                }
                Ok(done)
            }
            Request::RegionRead(access) => self.read(access, owner),
            Request::RegionWrite(access, data) => {
                let done = self.write(&access, data, wants_reply, owner)?;
                if done.is_ok() {
                    encode_access_reply(&access, &[], &mut self.body);
                }
                Ok(done)
            }
            Request::RegionWriteMulti(writes) => {
                let count = writes.len() as u64;
                for (access, data) in &writes {
                    if let Err(errno) = self.write(access, data, false, owner)? {
                        return Ok(Err(errno));
                    }
                }
                if wants_reply {
                    owner.call(Box::new(|_| {}))?;
                }
                self.body.extend_from_slice(&count.to_ne_bytes());
                Ok(Ok(()))
            }
            Request::DeviceReset => {
                ask(owner, move |side| side.reset(node))?;
                Ok(Ok(()))
            }
            // They go the other way.
            Request::DmaRead(_) | Request::DmaWrite(..) => Ok(Err(Errno::EOPNOTSUPP)),
        }
    }

    fn negotiate(&mut self, theirs: Version) -> Result<(), Errno> {
        let ours = theirs.answer().map_err(|e| e.errno())?;
        ours.encode(&mut self.body);
        self.version = Some(theirs);
        Ok(())
    }

    fn region_info(&mut self, argsz: u32, index: u32, reply: &mut Reply) -> Result<(), Errno> {
        if index >= region::COUNT {
            return Err(Errno::EINVAL);
        }
        let mut info = RegionInfo {
            index,
            ..RegionInfo::default()
        };
        if let Some(region) = Region::of(index) {
            info.bytes = region.bytes();
            info.flags = RegionFlags {
                read: true,
                write: true,
                mmap: false,
            };
        }
        if let Some(doorbells) = &self.doorbells
            && index == region::BAR0
        {
            info.flags.mmap = true;
            info.areas = vec![doorbells.area()];
            reply.doorbells = Some(Arc::clone(doorbells));
        }
        info.encode(argsz, &mut self.body);
        Ok(())
    }

    fn set_irqs<O: Owner + ?Sized>(
        &mut self,
        set: &SetIrqs<'_>,
        fds: Vec<OwnedFd>,
        owner: &mut O,
    ) -> Done {
        let (node, start, count) = (self.node, set.start, set.count);
        if set.index != irq::MSIX {
            // There are no others; turning off what is not there is done.
            let off = set.count == 0 && set.action == IrqAction::Trigger;
            let known = set.index < irq::COUNT;
            return Ok(if known && off {
                Ok(())
            } else {
                Err(Errno::EINVAL)
            });
        }
        if u64::from(start) + u64::from(count) > u64::from(self.vectors) {
            return Ok(Err(Errno::EINVAL));
        }
        // Which of the vectors are meant.
        let meant: Vec<u32> = match set.data {
            IrqData::None | IrqData::EventFd => (start..start + count).collect(),
            IrqData::Bool(bools) => {
                let chosen = (start..).zip(bools).filter(|(_, b)| **b != 0);
                chosen.map(|(v, _)| v).collect()
            }
        };
        match (set.action, set.data) {
            (IrqAction::Trigger, IrqData::EventFd) if !fds.is_empty() => {
                ask(owner, move |side| side.set_events(node, start, fds))
            }
            (IrqAction::Trigger, IrqData::EventFd) => {
                ask(owner, move |side| side.clear_events(node, start, count))
            }
            (IrqAction::Trigger, IrqData::None) if count == 0 => {
                ask(owner, move |side| side.disable_events(node)).map(Ok)
            }
            (IrqAction::Trigger, _) => ask(owner, move |side| {
                meant.iter().try_for_each(|v| side.fire(node, *v))
            }),
            (_, IrqData::EventFd) => Ok(Err(Errno::EINVAL)),
            (action, _) => ask(owner, move |side| {
                let masked = action == IrqAction::Mask;
                meant.iter().try_for_each(|v| side.mask(node, *v, masked))
            }),
        }
    }

    fn map<O: Owner + ?Sized>(
        &mut self,
        map: DmaMap,
        mut fds: Vec<OwnedFd>,
        owner: &mut O,
    ) -> Done {
        let (node, far) = (self.node, owner.far());
        let file = fds.pop();
        ask(owner, move |side| side.map(node, &map, file.as_ref(), &far))
    }

    /// The region of an access, if all of it is inside.
    fn region(access: &RegionAccess) -> Result<Region, Errno> {
        let region = Region::of(access.region).ok_or(Errno::EINVAL)?;
        match access.offset.checked_add(access.count.into()) {
            Some(end) if end <= region.bytes() && access.count > 0 => Ok(region),
            _ => Err(Errno::EINVAL),
        }
    }

    fn read<O: Owner + ?Sized>(&mut self, access: RegionAccess, owner: &mut O) -> Done {
        let region = match Session::region(&access) {
            Ok(region) => region,
            Err(errno) => return Ok(Err(errno)),
        };
        let most = self.capabilities().max_data_xfer_size.min(DATA_MAX as u64);
        if u64::from(access.count) > most {
            return Ok(Err(Errno::E2BIG));
        }
        let node = self.node;
        let data = ask(owner, move |side| {
            let mut data = vec![0; access.count as usize];
            side.read(node, region, access.offset, &mut data);
            data
        })?;
        encode_access_reply(&access, &data, &mut self.body);
        Ok(Ok(()))
    }

    fn write<O: Owner + ?Sized>(
        &mut self,
        access: &RegionAccess,
        data: &[u8],
        wait: bool,
        owner: &mut O,
    ) -> Done {
        let region = match Session::region(access) {
            Ok(region) => region,
            Err(errno) => return Ok(Err(errno)),
        };
        let (node, offset) = (self.node, access.offset);
        // Most writes are of a register.
        let job: Job = match <[u8; 4]>::try_from(data) {
            Ok(word) => Box::new(move |side| side.write(node, region, offset, &word)),
            Err(_) => {
                let data = data.to_vec();
                Box::new(move |side| side.write(node, region, offset, &data))
            }
        };
        if wait {
            owner.call(job)?;
        } else {
            owner.post(job)?;
        }
        Ok(Ok(()))
    }
}
