// SPDX-License-Identifier: MIT OR Apache-2.0
//! Capture of frames to a pcapng file, with stamps in nanoseconds of the device's
//! clock. Interface 0 is the wire at the NIC's port; the direction stands in the
//! packet's flags.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, PcapError};
use thiserror::Error;
use tsonic_types::Nanos;

/// if_tsresol: 10^-9 s.
const NANOSECONDS: u8 = 9;
/// epb_flags, bits 0 and 1.
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// The capture could not be written.
#[derive(Debug, Error)]
pub enum CaptureError {
    /// The file cannot be made.
    #[error("{}: {source}; choose a path that can be written", path.display())]
    Create {
        /// Its path.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// It could be made, but not written to the end.
    #[error("{}; choose a place with room for it", reason(.0))]
    Write(#[from] PcapError),
}

/// The operating system's answer where there is one: the crate speaks of reading.
fn reason(error: &PcapError) -> String {
    match error {
        PcapError::IoError(e) => e.to_string(),
        other => other.to_string(),
    }
}

/// A capture that is being written.
pub struct Capture {
    writer: PcapNgWriter<BufWriter<File>>,
    frames: u64,
}

/// Which way a frame goes, seen from the NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the NIC.
    In,
    /// From the NIC.
    Out,
}

impl Capture {
    /// Creates the file, or empties it.
    ///
    /// # Errors
    /// [`CaptureError`] when it cannot be written.
    pub fn create(path: &Path) -> Result<Capture, CaptureError> {
        let file = File::create(path).map_err(|source| CaptureError::Create {
            path: path.into(),
            source,
        })?;
        let mut writer = PcapNgWriter::new(BufWriter::new(file))?;
        writer.write_pcapng_block(InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: 0,
            options: vec![
                InterfaceDescriptionOption::IfName(Cow::Borrowed("tsonic")),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ],
        })?;
        Ok(Capture { writer, frames: 0 })
    }

    /// Frames written.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Writes a frame.
    ///
    /// # Errors
    /// [`CaptureError`].
    pub fn write(
        &mut self,
        at: Nanos,
        direction: Direction,
        frame: &[u8],
    ) -> Result<(), CaptureError> {
        let flags = match direction {
            Direction::In => INBOUND,
            Direction::Out => OUTBOUND,
        };
        self.writer.write_pcapng_block(EnhancedPacketBlock {
            interface_id: 0,
            timestamp: Duration::from_nanos(at.0),
            original_len: frame.len() as u32,
            data: Cow::Borrowed(frame),
            options: vec![EnhancedPacketOption::Flags(flags)],
        })?;
        self.frames += 1;
        Ok(())
    }

    /// Writes what is buffered to the file.
    ///
    /// # Errors
    /// [`CaptureError`].
    pub fn flush(&mut self) -> Result<(), CaptureError> {
        use std::io::Write;
        let flushed = self.writer.get_mut().flush();
        flushed.map_err(|e| CaptureError::Write(PcapError::IoError(e)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcap_file::pcapng::{Block, PcapNgReader};

    #[test]
    fn what_was_written_is_read_back() {
        let path = std::env::temp_dir().join(format!("tsonic-capture-{}", std::process::id()));
        let mut c = Capture::create(&path).unwrap();
        c.write(Nanos(5_000_000_123), Direction::Out, &[1, 2, 3])
            .unwrap();
        c.write(Nanos(5_000_000_124), Direction::In, &[4; 61])
            .unwrap();
        c.flush().unwrap();
        assert_eq!(c.frames(), 2);
        let mut r = PcapNgReader::new(File::open(&path).unwrap()).unwrap();
        let mut packets = Vec::new();
        while let Some(block) = r.next_block() {
            if let Block::EnhancedPacket(p) = block.unwrap() {
                packets.push((
                    p.timestamp,
                    p.data.to_vec(),
                    p.options[0].clone().into_owned(),
                ));
            }
        }
        assert_eq!(packets.len(), 2);
        assert_eq!(packets[0].0, Duration::from_nanos(5_000_000_123));
        assert_eq!(packets[0].1, [1, 2, 3]);
        assert_eq!(packets[1].2, EnhancedPacketOption::Flags(INBOUND));
        std::fs::remove_file(&path).unwrap();
    }
}
