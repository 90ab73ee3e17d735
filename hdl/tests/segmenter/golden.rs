// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the segmenter must do, byte by byte.

use rust_hdl::prelude::*;
use tsonic_hdl::segment::SegmentJob;
pub use tsonic_regs::descriptor::Kind;

/// A burst: a header template and its payload.
#[derive(Clone, Debug)]
pub struct Burst {
    pub kind: Kind,
    pub ipv6: bool,
    pub ip_id_fixed: bool,
    pub cwr_all: bool,
    pub l2_len: usize,
    pub l3_len: usize,
    pub l4_len: usize,
    pub mss: usize,
    pub header: Vec<u8>,
    pub payload: Vec<u8>,
    pub ctx: u8,
}

/// One segment of a burst.
#[derive(Clone, Debug)]
pub struct Segment {
    pub burst: Burst,
    pub index: usize,
    pub offset: usize,
    pub len: usize,
    pub first: bool,
    pub last: bool,
}

impl Burst {
    pub fn segments(&self) -> Vec<Segment> {
        let total = self.payload.len();
        let mss = match self.kind {
            Kind::Tso | Kind::Uso => self.mss,
            Kind::Raw | Kind::Csum => total.max(1),
        };
        let count = total.div_ceil(mss).max(1);
        (0..count)
            .map(|index| {
                let offset = index * mss;
                Segment {
                    burst: Burst {
                        payload: self.payload[offset..(offset + mss).min(total)].to_vec(),
                        ..self.clone()
                    },
                    index,
                    offset,
                    len: mss.min(total - offset),
                    first: index == 0,
                    last: index == count - 1,
                }
            })
            .collect()
    }

    pub fn frames(&self) -> Vec<Vec<u8>> {
        self.segments().iter().map(Segment::frame).collect()
    }
}

fn put16(bytes: &mut [u8], at: usize, value: usize) {
    bytes[at..at + 2].copy_from_slice(&(value as u16).to_be_bytes());
}

fn get16(bytes: &[u8], at: usize) -> usize {
    usize::from(bytes[at]) << 8 | usize::from(bytes[at + 1])
}

/// One's complement sum, folded.
fn sum(parts: &[&[u8]]) -> usize {
    let mut sum = 0;
    for part in parts {
        for pair in part.chunks(2) {
            sum += usize::from(pair[0]) << 8 | usize::from(*pair.get(1).unwrap_or(&0));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

/// The destination of the pseudo header: behind a routing header with segments
/// left, the last address of the route.
fn final_destination(ip: &[u8]) -> [u8; 16] {
    let mut destination = ip[24..40].to_vec();
    let (mut next, mut at) = (ip[6], 40);
    while at + 8 <= ip.len() {
        let units = usize::from(ip[at + 1]);
        let body = &ip[at..(at + 8 * (units + 1)).min(ip.len())];
        if next == 43 && body[3] != 0 && units >= 2 {
            match body[2] {
                0 | 2 => destination = body[body.len() - 16..].to_vec(),
                4 => destination = body[8..24].to_vec(),
                _ => {}
            }
        }
        next = ip[at];
        at += 8 * (units + 1);
    }
    destination.try_into().expect("16 bytes")
}

impl Segment {
    /// The frame on the wire.
    pub fn frame(&self) -> Vec<u8> {
        let b = &self.burst;
        let mut header = b.header.clone();
        if b.kind != Kind::Raw {
            self.patch(&mut header);
        }
        header.extend_from_slice(&b.payload);
        header
    }

    fn patch(&self, header: &mut [u8]) {
        let b = &self.burst;
        let (l3, l4) = (b.l2_len, b.l2_len + b.l3_len);
        let udp = b.l4_len == 8;
        let l4_bytes = b.l4_len + self.len;
        let mut addresses = Vec::new();
        if b.ipv6 {
            put16(header, l3 + 4, b.l3_len - 40 + l4_bytes);
            addresses.extend_from_slice(&header[l3 + 8..l3 + 24]);
            addresses.extend_from_slice(&final_destination(&header[l3..l4]));
        } else {
            put16(header, l3 + 2, b.l3_len + l4_bytes);
            if !b.ip_id_fixed {
                let id = get16(header, l3 + 4) + self.index;
                put16(header, l3 + 4, id);
            }
            put16(header, l3 + 10, 0);
            let csum = !sum(&[&header[l3..l4]]);
            put16(header, l3 + 10, csum);
            addresses.extend_from_slice(&header[l3 + 12..l3 + 20]);
        }
        let place = if udp {
            put16(header, l4 + 4, l4_bytes);
            l4 + 6
        } else {
            let seq = u32::from_be_bytes(header[l4 + 4..l4 + 8].try_into().expect("4 bytes"));
            let seq = seq.wrapping_add(self.offset as u32);
            header[l4 + 4..l4 + 8].copy_from_slice(&seq.to_be_bytes());
            if !self.last {
                header[l4 + 13] &= !0x09;
            }
            if !self.first && !b.cwr_all {
                header[l4 + 13] &= !0x80;
            }
            l4 + 16
        };
        put16(header, place, 0);
        let protocol = if udp { 17 } else { 6 };
        let length = (l4_bytes as u32).to_be_bytes();
        let pseudo = [&addresses[..], &length, &[0, 0, 0, protocol]].concat();
        let csum = !sum(&[&pseudo, &header[l4..], &b.payload]) & 0xffff;
        let no_zero = udp || b.kind == Kind::Csum;
        put16(
            header,
            place,
            if csum == 0 && no_zero { 0xffff } else { csum },
        );
    }

    /// The job that asks for it.
    pub fn job(&self) -> SegmentJob {
        let b = &self.burst;
        SegmentJob {
            kind: (b.kind as u64).into(),
            ipv6: b.ipv6,
            ip_id_fixed: b.ip_id_fixed,
            cwr_all: b.cwr_all,
            l2_len: (b.l2_len as u64).into(),
            l3_len: (b.l3_len as u64).into(),
            l4_len: (b.l4_len as u64).into(),
            len: (self.len as u64).into(),
            offset: (self.offset as u64).into(),
            index: (self.index as u64).into(),
            first: self.first,
            last: self.last,
            ctx: u64::from(b.ctx).into(),
        }
    }
}

/// `SegmentJob` as a port sees it, 32-bit words, lowest first.
pub fn job_words(job: SegmentJob) -> [u32; 3] {
    let bits: Bits<{ SegmentJob::BITS }> = job.into();
    let value = bits.to_u128();
    [value as u32, (value >> 32) as u32, (value >> 64) as u32]
}
