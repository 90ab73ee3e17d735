// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replies: fields behind the header. The reply to a command that is not here has the
//! command's own fields.

use crate::DATA_MAX;
use crate::bytes::{Fields, Put, flag};
use crate::error::WireError;
use crate::message::{DmaAccess, RegionAccess, dma_access, put_dma, put_region, region_access};

const DEVICE_RESET: u32 = 1;
const DEVICE_PCI: u32 = 1 << 1;
const REGION_READ: u32 = 1;
const REGION_WRITE: u32 = 1 << 1;
const REGION_MMAP: u32 = 1 << 2;
const REGION_CAPS: u32 = 1 << 3;
const IRQ_EVENTFD: u32 = 1;
const IRQ_MASKABLE: u32 = 1 << 1;
const IRQ_NORESIZE: u32 = 1 << 3;
const CAP_SPARSE_MMAP: u16 = 1;
const CAP_VERSION: u16 = 1;
const INFO_BYTES: usize = 16;
const REGION_BYTES: usize = 32;
const CAP_BYTES: usize = 16;
const AREA_BYTES: usize = 16;
/// Areas that a region's description may have.
const AREAS_MAX: u32 = 1024;

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// It is a PCI function.
    pub pci: bool,
    /// It takes DEVICE_RESET.
    pub resets: bool,
    /// Regions.
    pub regions: u32,
    /// Kinds of interrupts.
    pub irqs: u32,
}

impl DeviceInfo {
    /// Appends the reply.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.u32(INFO_BYTES as u32);
        out.u32(flag(self.resets, DEVICE_RESET) | flag(self.pci, DEVICE_PCI));
        out.u32(self.regions);
        out.u32(self.irqs);
    }

    /// Reads the reply.
    ///
    /// # Errors
    /// [`WireError`].
    pub fn parse(body: &[u8]) -> Result<DeviceInfo, WireError> {
        let mut f = Fields::new("the device's description", body);
        f.u32()?;
        let flags = f.u32()?;
        Ok(DeviceInfo {
            pci: flags & DEVICE_PCI != 0,
            resets: flags & DEVICE_RESET != 0,
            regions: f.u32()?,
            irqs: f.u32()?,
        })
    }
}

/// How a region can be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionFlags {
    /// It can be read.
    pub read: bool,
    /// It can be written.
    pub write: bool,
    /// It, or its areas, can be mapped.
    pub mmap: bool,
}

/// A part of a region that can be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SparseArea {
    /// Offset in the region.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What a region is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionInfo {
    /// Its index.
    pub index: u32,
    /// How it can be used.
    pub flags: RegionFlags,
    /// Bytes.
    pub bytes: u64,
    /// Offset of the region in the file that comes with the reply.
    pub offset: u64,
    /// Parts that can be mapped; empty: all of it, if `mmap`.
    pub areas: Vec<SparseArea>,
}

impl RegionInfo {
    /// Bytes of the whole reply.
    pub fn argsz(&self) -> usize {
        match self.areas.len() {
            0 => REGION_BYTES,
            n => REGION_BYTES + CAP_BYTES + n * AREA_BYTES,
        }
    }

    /// Appends the reply, without the areas if the asker has no room for them; `argsz`
    /// in it says how much room they need.
    pub fn encode(&self, room: u32, out: &mut Vec<u8>) {
        let f = self.flags;
        let areas = !self.areas.is_empty();
        let whole = areas && room as usize >= self.argsz();
        out.u32(self.argsz() as u32);
        out.u32(
            flag(f.read, REGION_READ)
                | flag(f.write, REGION_WRITE)
                | flag(f.mmap, REGION_MMAP)
                | flag(areas, REGION_CAPS),
        );
        out.u32(self.index);
        out.u32(if whole { REGION_BYTES as u32 } else { 0 });
        out.u64(self.bytes);
        out.u64(self.offset);
        if whole {
            out.u16(CAP_SPARSE_MMAP);
            out.u16(CAP_VERSION);
            // No capability follows.
            out.u32(0);
            out.u32(self.areas.len() as u32);
            out.u32(0);
            for a in &self.areas {
                out.u64(a.offset);
                out.u64(a.bytes);
            }
        }
    }

    /// Reads the reply, and says how much room the whole of it needs.
    ///
    /// # Errors
    /// [`WireError`].
    pub fn parse(body: &[u8]) -> Result<(RegionInfo, u32), WireError> {
        let mut f = Fields::new("a region's description", body);
        let argsz = f.u32()?;
        let flags = f.u32()?;
        let index = f.u32()?;
        let mut next = f.u32()? as usize;
        let mut info = RegionInfo {
            index,
            flags: RegionFlags {
                read: flags & REGION_READ != 0,
                write: flags & REGION_WRITE != 0,
                mmap: flags & REGION_MMAP != 0,
            },
            bytes: f.u64()?,
            offset: f.u64()?,
            areas: Vec::new(),
        };
        // Capabilities stand in ascending order, or they could go round in circles.
        let mut at = 0;
        while flags & REGION_CAPS != 0 && next > at {
            at = next;
            let rest = body.get(at..).unwrap_or_default();
            let mut f = Fields::new("a region's capability", rest);
            let (id, _version) = (f.u16()?, f.u16()?);
            next = f.u32()? as usize;
            if id != CAP_SPARSE_MMAP {
                continue;
            }
            let count = f.u32()?;
            f.u32()?;
            if count > AREAS_MAX {
                return Err(WireError::DataSize(count.into()));
            }
            for _ in 0..count {
                let area = SparseArea {
                    offset: f.u64()?,
                    bytes: f.u64()?,
                };
                if area
                    .offset
                    .checked_add(area.bytes)
                    .is_none_or(|e| e > info.bytes)
                {
                    return Err(WireError::Range {
                        address: area.offset,
                        bytes: area.bytes,
                    });
                }
                info.areas.push(area);
            }
        }
        Ok((info, argsz))
    }
}

/// What an interrupt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IrqInfo {
    /// Its index.
    pub index: u32,
    /// Vectors; 0: it does not exist.
    pub count: u32,
    /// It can be masked.
    pub maskable: bool,
    /// Vectors cannot be added one by one.
    pub no_resize: bool,
}

impl IrqInfo {
    /// Appends the reply.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let eventfd = flag(self.count > 0, IRQ_EVENTFD);
        out.u32(INFO_BYTES as u32);
        out.u32(eventfd | flag(self.maskable, IRQ_MASKABLE) | flag(self.no_resize, IRQ_NORESIZE));
        out.u32(self.index);
        out.u32(self.count);
    }

    /// Reads the reply.
    ///
    /// # Errors
    /// [`WireError`].
    pub fn parse(body: &[u8]) -> Result<IrqInfo, WireError> {
        let mut f = Fields::new("an interrupt's description", body);
        f.u32()?;
        let flags = f.u32()?;
        Ok(IrqInfo {
            maskable: flags & IRQ_MASKABLE != 0,
            no_resize: flags & IRQ_NORESIZE != 0,
            index: f.u32()?,
            count: f.u32()?,
        })
    }
}

/// Bytes read, or a count of bytes written: the reply to an access of a region or of
/// memory.
pub trait Access: Sized + PartialEq {
    #[doc(hidden)]
    fn put(&self, out: &mut Vec<u8>);
    #[doc(hidden)]
    fn take(body: &[u8]) -> Result<(Self, &[u8]), WireError>;
}

impl Access for RegionAccess {
    fn put(&self, out: &mut Vec<u8>) {
        put_region(out, self);
    }
    fn take(body: &[u8]) -> Result<(Self, &[u8]), WireError> {
        let mut f = Fields::new("the reply to a region access", body);
        Ok((region_access(&mut f)?, f.rest()))
    }
}

impl Access for DmaAccess {
    fn put(&self, out: &mut Vec<u8>) {
        put_dma(out, self);
    }
    fn take(body: &[u8]) -> Result<(Self, &[u8]), WireError> {
        let mut f = Fields::new("the reply to a memory access", body);
        Ok((dma_access(&mut f)?, f.rest()))
    }
}

/// Appends the reply to an access: its fields, and what was read.
pub fn encode_access_reply(access: &impl Access, data: &[u8], out: &mut Vec<u8>) {
    access.put(out);
    out.extend_from_slice(data);
}

/// Reads the reply to `asked`, of which `bytes` bytes of data are wanted.
///
/// # Errors
/// [`WireError`]: it is not the reply to that.
pub fn parse_access_reply<'a, A: Access>(
    asked: &A,
    bytes: usize,
    body: &'a [u8],
) -> Result<&'a [u8], WireError> {
    let what = "the reply to an access";
    let (answered, data) = A::take(body)?;
    if answered != *asked {
        return Err(WireError::Trailing {
            what,
            bytes: body.len(),
        });
    }
    if data.len() < bytes || bytes > DATA_MAX {
        return Err(WireError::Short {
            what,
            has: data.len(),
            needs: bytes,
        });
    }
    if data.len() > bytes {
        return Err(WireError::Trailing {
            what,
            bytes: data.len() - bytes,
        });
    }
    Ok(data)
}
