// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands: fields behind the header.

use crate::DATA_MAX;
use crate::bytes::{Fields, Put, flag};
use crate::error::WireError;
use crate::header::Command;
use crate::version::Version;

const MAP_READ: u32 = 1;
const MAP_WRITE: u32 = 2;
const UNMAP_BITMAP: u32 = 1;
const UNMAP_ALL: u32 = 2;
const IRQ_DATA_NONE: u32 = 1;
const IRQ_DATA_BOOL: u32 = 1 << 1;
const IRQ_DATA_EVENTFD: u32 = 1 << 2;
const IRQ_DATA: u32 = IRQ_DATA_NONE | IRQ_DATA_BOOL | IRQ_DATA_EVENTFD;
const IRQ_MASK: u32 = 1 << 3;
const IRQ_UNMASK: u32 = 1 << 4;
const IRQ_TRIGGER: u32 = 1 << 5;
const IRQ_ACTION: u32 = IRQ_MASK | IRQ_UNMASK | IRQ_TRIGGER;

/// Bytes of the fixed fields of a command with `argsz`, by command.
const MAP_BYTES: usize = 32;
const UNMAP_BYTES: usize = 24;
const INFO_BYTES: usize = 16;
const REGION_INFO_BYTES: usize = 32;
const IO_FDS_BYTES: usize = 16;
/// Bytes of a SET_IRQS without data.
pub const IRQ_SET_ARGS: usize = 20;
/// Data bytes of one write of a REGION_WRITE_MULTI.
pub const WRITE_MULTI_DATA: usize = 8;
/// Bytes of one such write.
const WRITE_MULTI_BYTES: usize = 16 + WRITE_MULTI_DATA;

/// Memory for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaMap {
    /// The device may read.
    pub read: bool,
    /// The device may write.
    pub write: bool,
    /// Offset in the file that comes with it, if one does.
    pub offset: u64,
    /// I/O virtual address.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Memory that the device loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaUnmap {
    /// All there is.
    pub all: bool,
    /// I/O virtual address.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Which bytes of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionAccess {
    /// Offset in the region.
    pub offset: u64,
    /// Index of the region.
    pub region: u32,
    /// Bytes.
    pub count: u32,
}

/// Which bytes of the client's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaAccess {
    /// I/O virtual address.
    pub address: u64,
    /// Bytes.
    pub count: u64,
}

/// What SET_IRQS does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IrqAction {
    /// Masks.
    Mask,
    /// Unmasks.
    Unmask,
    /// Fires, or sets what is signalled when it fires.
    Trigger,
}

/// What SET_IRQS does it with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IrqData<'a> {
    /// Nothing.
    None,
    /// A byte an interrupt: to do it or not.
    Bool(&'a [u8]),
    /// The descriptors that come with the message; without any: none any more.
    EventFd,
}

/// Sets up interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetIrqs<'a> {
    /// What is done.
    pub action: IrqAction,
    /// With what.
    pub data: IrqData<'a>,
    /// Index of the interrupt.
    pub index: u32,
    /// First vector.
    pub start: u32,
    /// Vectors.
    pub count: u32,
}

/// A command.
#[derive(Clone, Debug, PartialEq)]
pub enum Request<'a> {
    /// [`Command::Version`].
    Version(Version),
    /// [`Command::DmaMap`].
    DmaMap(DmaMap),
    /// [`Command::DmaUnmap`].
    DmaUnmap(DmaUnmap),
    /// [`Command::DeviceGetInfo`].
    DeviceGetInfo,
    /// [`Command::DeviceGetRegionInfo`].
    DeviceGetRegionInfo {
        /// Bytes that the sender has room for.
        argsz: u32,
        /// Index of the region.
        index: u32,
    },
    /// [`Command::DeviceGetRegionIoFds`].
    DeviceGetRegionIoFds {
        /// Index of the region.
        index: u32,
    },
    /// [`Command::DeviceGetIrqInfo`].
    DeviceGetIrqInfo {
        /// Index of the interrupt.
        index: u32,
    },
    /// [`Command::DeviceSetIrqs`].
    DeviceSetIrqs(SetIrqs<'a>),
    /// [`Command::RegionRead`].
    RegionRead(RegionAccess),
    /// [`Command::RegionWrite`], with as many bytes as it says.
    RegionWrite(RegionAccess, &'a [u8]),
    /// [`Command::DmaRead`].
    DmaRead(DmaAccess),
    /// [`Command::DmaWrite`], with as many bytes as it says.
    DmaWrite(DmaAccess, &'a [u8]),
    /// [`Command::DeviceReset`].
    DeviceReset,
    /// [`Command::RegionWriteMulti`]: writes of at most [`WRITE_MULTI_DATA`] bytes each.
    RegionWriteMulti(Vec<(RegionAccess, &'a [u8])>),
}

/// Flags outside of `known` are an error.
const fn only(what: &'static str, flags: u32, known: u32) -> Result<u32, WireError> {
    if flags & !known == 0 {
        Ok(flags)
    } else {
        Err(WireError::Flags { what, flags })
    }
}

const fn room(what: &'static str, argsz: u32, needs: usize) -> Result<u32, WireError> {
    if argsz as usize >= needs {
        Ok(argsz)
    } else {
        Err(WireError::Argsz { what, argsz })
    }
}

const fn range(address: u64, bytes: u64) -> Result<(), WireError> {
    // The last byte must have an address.
    match address.checked_add(bytes.saturating_sub(1)) {
        Some(_) => Ok(()),
        None => Err(WireError::Range { address, bytes }),
    }
}

impl<'a> Request<'a> {
    /// Its command.
    pub const fn command(&self) -> Command {
        match self {
            Request::Version(_) => Command::Version,
            Request::DmaMap(_) => Command::DmaMap,
            Request::DmaUnmap(_) => Command::DmaUnmap,
            Request::DeviceGetInfo => Command::DeviceGetInfo,
            Request::DeviceGetRegionInfo { .. } => Command::DeviceGetRegionInfo,
            Request::DeviceGetRegionIoFds { .. } => Command::DeviceGetRegionIoFds,
            Request::DeviceGetIrqInfo { .. } => Command::DeviceGetIrqInfo,
            Request::DeviceSetIrqs(_) => Command::DeviceSetIrqs,
            Request::RegionRead(_) => Command::RegionRead,
            Request::RegionWrite(..) => Command::RegionWrite,
            Request::DmaRead(_) => Command::DmaRead,
            Request::DmaWrite(..) => Command::DmaWrite,
            Request::DeviceReset => Command::DeviceReset,
            Request::RegionWriteMulti(_) => Command::RegionWriteMulti,
        }
    }

    /// The command of that number with those bytes behind its header and so many
    /// descriptors beside it.
    ///
    /// # Errors
    /// [`WireError`]; the stream can be followed further.
    pub fn parse(number: u16, body: &'a [u8], fds: usize) -> Result<Request<'a>, WireError> {
        let command = Command::from_number(number).ok_or(WireError::UnknownCommand(number))?;
        let (what, most) = match command {
            Command::Version => ("VERSION", 0),
            Command::DmaMap => ("DMA_MAP", 1),
            Command::DmaUnmap => ("DMA_UNMAP", 0),
            Command::DeviceGetInfo => ("DEVICE_GET_INFO", 0),
            Command::DeviceGetRegionInfo => ("DEVICE_GET_REGION_INFO", 0),
            Command::DeviceGetRegionIoFds => ("DEVICE_GET_REGION_IO_FDS", 0),
            Command::DeviceGetIrqInfo => ("DEVICE_GET_IRQ_INFO", 0),
            Command::DeviceSetIrqs => ("DEVICE_SET_IRQS", crate::FDS_MAX),
            Command::RegionRead => ("REGION_READ", 0),
            Command::RegionWrite => ("REGION_WRITE", 0),
            Command::DmaRead => ("DMA_READ", 0),
            Command::DmaWrite => ("DMA_WRITE", 0),
            Command::DeviceReset => ("DEVICE_RESET", 0),
            Command::RegionWriteMulti => ("REGION_WRITE_MULTI", 0),
        };
        if fds > most {
            return Err(WireError::Descriptors { what, fds });
        }
        let mut f = Fields::new(what, body);
        let request = match command {
            Command::Version => Request::Version(Version::parse(f.rest())?),
            Command::DmaMap => {
                room(what, f.u32()?, MAP_BYTES)?;
                let flags = only(what, f.u32()?, MAP_READ | MAP_WRITE)?;
                let map = DmaMap {
                    read: flags & MAP_READ != 0,
                    write: flags & MAP_WRITE != 0,
                    offset: f.u64()?,
                    address: f.u64()?,
                    bytes: f.u64()?,
                };
                range(map.address, map.bytes)?;
                range(map.offset, map.bytes)?;
                Request::DmaMap(map)
            }
            Command::DmaUnmap => {
                room(what, f.u32()?, UNMAP_BYTES)?;
                let flags = only(what, f.u32()?, UNMAP_BITMAP | UNMAP_ALL)?;
                // Dirty pages are not tracked.
                only(what, flags, UNMAP_ALL)?;
                let unmap = DmaUnmap {
                    all: flags & UNMAP_ALL != 0,
                    address: f.u64()?,
                    bytes: f.u64()?,
                };
                range(unmap.address, unmap.bytes)?;
                Request::DmaUnmap(unmap)
            }
            Command::DeviceGetInfo => {
                room(what, f.u32()?, INFO_BYTES)?;
                // Flags and counts are the reply's; a sender may have left them out.
                f.rest();
                Request::DeviceGetInfo
            }
            Command::DeviceGetRegionInfo => {
                let argsz = room(what, f.u32()?, REGION_INFO_BYTES)?;
                f.u32()?;
                let index = f.u32()?;
                f.rest();
                Request::DeviceGetRegionInfo { argsz, index }
            }
            Command::DeviceGetRegionIoFds => {
                room(what, f.u32()?, IO_FDS_BYTES)?;
                f.u32()?;
                let index = f.u32()?;
                f.rest();
                Request::DeviceGetRegionIoFds { index }
            }
            Command::DeviceGetIrqInfo => {
                room(what, f.u32()?, INFO_BYTES)?;
                f.u32()?;
                let index = f.u32()?;
                f.rest();
                Request::DeviceGetIrqInfo { index }
            }
            Command::DeviceSetIrqs => Request::DeviceSetIrqs(set_irqs(what, &mut f, fds)?),
            Command::RegionRead => Request::RegionRead(region_access(&mut f)?),
            Command::RegionWrite => {
                let access = region_access(&mut f)?;
                Request::RegionWrite(access, f.bytes(access.count as usize)?)
            }
            Command::DmaRead => Request::DmaRead(dma_access(&mut f)?),
            Command::DmaWrite => {
                let access = dma_access(&mut f)?;
                Request::DmaWrite(access, f.bytes(access.count as usize)?)
            }
            Command::DeviceReset => Request::DeviceReset,
            Command::RegionWriteMulti => {
                let count = f.u64()?;
                let fits = count.saturating_mul(WRITE_MULTI_BYTES as u64);
                if fits > DATA_MAX as u64 {
                    return Err(WireError::DataSize(fits));
                }
                let mut writes = Vec::with_capacity(count as usize);
                for _ in 0..count {
                    let access = region_access(&mut f)?;
                    let data = f.bytes(WRITE_MULTI_DATA)?;
                    let data = data
                        .get(..access.count as usize)
                        .ok_or(WireError::DataSize(access.count.into()))?;
                    writes.push((access, data));
                }
                Request::RegionWriteMulti(writes)
            }
        };
        f.end()?;
        Ok(request)
    }

    /// Appends the bytes behind the header.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Request::Version(v) => v.encode(out),
            Request::DmaMap(m) => {
                out.u32(MAP_BYTES as u32);
                out.u32(flag(m.read, MAP_READ) | flag(m.write, MAP_WRITE));
                out.u64(m.offset);
                out.u64(m.address);
                out.u64(m.bytes);
            }
            Request::DmaUnmap(u) => {
                out.u32(UNMAP_BYTES as u32);
                out.u32(flag(u.all, UNMAP_ALL));
                out.u64(u.address);
                out.u64(u.bytes);
            }
            Request::DeviceGetInfo => {
                out.u32(INFO_BYTES as u32);
                out.extend_from_slice(&[0; INFO_BYTES - 4]);
            }
            Request::DeviceGetRegionInfo { argsz, index } => {
                out.u32(*argsz);
                out.u32(0);
                out.u32(*index);
                out.extend_from_slice(&[0; REGION_INFO_BYTES - 12]);
            }
            Request::DeviceGetRegionIoFds { index } => {
                out.u32(IO_FDS_BYTES as u32);
                out.u32(0);
                out.u32(*index);
                out.u32(0);
            }
            Request::DeviceGetIrqInfo { index } => {
                out.u32(INFO_BYTES as u32);
                out.u32(0);
                out.u32(*index);
                out.u32(0);
            }
            Request::DeviceSetIrqs(s) => {
                let (flag, data) = match s.data {
                    IrqData::None => (IRQ_DATA_NONE, &[][..]),
                    IrqData::Bool(b) => (IRQ_DATA_BOOL, b),
                    IrqData::EventFd => (IRQ_DATA_EVENTFD, &[][..]),
                };
                let action = match s.action {
                    IrqAction::Mask => IRQ_MASK,
                    IrqAction::Unmask => IRQ_UNMASK,
                    IrqAction::Trigger => IRQ_TRIGGER,
                };
                out.u32((IRQ_SET_ARGS + data.len()) as u32);
                out.u32(flag | action);
                out.u32(s.index);
                out.u32(s.start);
                out.u32(s.count);
                out.extend_from_slice(data);
            }
            Request::RegionRead(a) => put_region(out, a),
            Request::RegionWrite(a, data) => {
                put_region(out, a);
                out.extend_from_slice(data);
            }
            Request::DmaRead(a) => put_dma(out, a),
            Request::DmaWrite(a, data) => {
                put_dma(out, a);
                out.extend_from_slice(data);
            }
            Request::DeviceReset => {}
            Request::RegionWriteMulti(writes) => {
                out.u64(writes.len() as u64);
                for (a, data) in writes {
                    put_region(out, a);
                    let mut padded = [0; WRITE_MULTI_DATA];
                    let n = data.len().min(WRITE_MULTI_DATA);
                    padded[..n].copy_from_slice(&data[..n]);
                    out.extend_from_slice(&padded);
                }
            }
        }
    }
}

fn set_irqs<'a>(
    what: &'static str,
    f: &mut Fields<'a>,
    fds: usize,
) -> Result<SetIrqs<'a>, WireError> {
    room(what, f.u32()?, IRQ_SET_ARGS)?;
    let flags = only(what, f.u32()?, IRQ_DATA | IRQ_ACTION)?;
    let contradicts = WireError::Flags { what, flags };
    let (index, start, count) = (f.u32()?, f.u32()?, f.u32()?);
    let action = match flags & IRQ_ACTION {
        IRQ_MASK => IrqAction::Mask,
        IRQ_UNMASK => IrqAction::Unmask,
        IRQ_TRIGGER => IrqAction::Trigger,
        _ => return Err(contradicts),
    };
    let data = match flags & IRQ_DATA {
        IRQ_DATA_NONE => IrqData::None,
        IRQ_DATA_BOOL => IrqData::Bool(f.bytes(count as usize)?),
        IRQ_DATA_EVENTFD => IrqData::EventFd,
        _ => return Err(contradicts),
    };
    // Either a descriptor a vector, or none at all.
    let wrong = match data {
        IrqData::EventFd => fds != 0 && fds as u64 != u64::from(count),
        _ => fds != 0,
    };
    if wrong {
        return Err(WireError::Descriptors { what, fds });
    }
    if start.checked_add(count).is_none() {
        return Err(WireError::Range {
            address: start.into(),
            bytes: count.into(),
        });
    }
    Ok(SetIrqs {
        action,
        data,
        index,
        start,
        count,
    })
}

pub(crate) fn region_access(f: &mut Fields<'_>) -> Result<RegionAccess, WireError> {
    let access = RegionAccess {
        offset: f.u64()?,
        region: f.u32()?,
        count: f.u32()?,
    };
    if access.count as usize > DATA_MAX {
        return Err(WireError::DataSize(access.count.into()));
    }
    range(access.offset, access.count.into())?;
    Ok(access)
}

pub(crate) fn dma_access(f: &mut Fields<'_>) -> Result<DmaAccess, WireError> {
    let access = DmaAccess {
        address: f.u64()?,
        count: f.u64()?,
    };
    if access.count > DATA_MAX as u64 {
        return Err(WireError::DataSize(access.count));
    }
    range(access.address, access.count)?;
    Ok(access)
}

pub(crate) fn put_region(out: &mut Vec<u8>, a: &RegionAccess) {
    out.u64(a.offset);
    out.u32(a.region);
    out.u32(a.count);
}

pub(crate) fn put_dma(out: &mut Vec<u8>, a: &DmaAccess) {
    out.u64(a.address);
    out.u64(a.count);
}
