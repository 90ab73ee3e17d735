// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a demo tells.

use super::args::PeerKind;
use crate::nics::NicKind;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// The result of a demo. Times are of the device's clock unless they say "wall".
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Everything arrived as it was sent.
    pub ok: bool,
    pub sha256_sent: String,
    pub sha256_received: String,
    pub bytes: u64,
    pub bytes_received: u64,
    /// `null` when the device was there before.
    pub nic: Option<NicKind>,
    pub device: &'static str,
    pub peer: PeerKind,
    pub flows: u16,
    pub ipv6: bool,
    pub seed: u64,
    /// From the first SYN to the receiver's end of the stream.
    pub seconds: f64,
    /// Payload bytes a second.
    pub goodput: f64,
    pub wall_seconds: f64,
    /// Simulated seconds a second of wall time.
    pub dilation: f64,
    /// Bursts with payload.
    pub bursts: u64,
    /// Segments of those bursts.
    pub segments: u64,
    /// Mean.
    pub segments_per_burst: f64,
    /// Bursts by number of segments.
    pub segments_per_burst_histogram: BTreeMap<usize, u64>,
    /// Bursts by transmit queue.
    pub bursts_by_queue: Vec<u64>,
    pub tsq_stops: u64,
    pub queue_moves: u64,
    pub retransmitted: u64,
    pub retransmitted_bytes: u64,
    pub rto_count: u64,
    pub tlp_probes: u64,
    pub recoveries: u64,
    /// What the driver's watchdog did.
    pub lost_interrupts: u64,
    pub tx_timeouts: u64,
    /// What the wire did to frames of the sender.
    pub wire_dropped: u64,
    pub wire_dropped_payload_bytes: u64,
    pub wire_duplicated: u64,
    pub wire_reordered: u64,
    /// Frames that found no receive buffer, at either NIC.
    pub rx_no_buffer: u64,
    /// Frames that the kernel at the far end did not take.
    pub kernel_refused: u64,
    /// Gaps between segments of paced bursts, and how far they were off.
    pub paced_gaps: u64,
    pub pacing_error_mean_ns: f64,
    pub pacing_error_p99_ns: u64,
    pub pacing_error_max_ns: f64,
    /// Smallest RTT of the first connection in microseconds.
    pub min_rtt_us: Option<f64>,
    /// Frames written to the capture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub captured: Option<u64>,
    /// Why the capture is not whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capture_error: Option<String>,
}

/// Widest bar of the histogram.
const BAR: u64 = 40;

/// A positive number to three digits that count, however small.
fn significant(x: f64) -> String {
    let digits = match x.is_normal() {
        // Beyond any clock on either side: a few hundred digits are no use.
        true => (2.0 - x.abs().log10().floor()).clamp(0.0, 12.0) as usize,
        false => 2,
    };
    format!("{x:.digits$}")
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.ok {
            "arrived as sent"
        } else {
            "DID NOT ARRIVE AS SENT"
        };
        let version = if self.ipv6 { 6 } else { 4 };
        writeln!(f, "{} bytes {verdict}, over IPv{version}", self.bytes)?;
        writeln!(f, "  sha256 sent       {}", self.sha256_sent)?;
        writeln!(f, "  sha256 received   {}", self.sha256_received)?;
        let peer = match self.peer {
            PeerKind::Linux => "a Linux kernel's TCP",
            PeerKind::Sim => "our own engine on a second NIC",
        };
        let nic = match self.nic {
            Some(NicKind::Model) => "model",
            Some(NicKind::Rtl) => "compiled RTL",
            None => "the device's own",
        };
        let device = match self.device {
            "inproc" => "in this process",
            _ => "in another process, over vfio-user",
        };
        writeln!(f, "  NIC               {nic}, {device}; receiver: {peer}")?;
        writeln!(
            f,
            "  time              {:.3} s at {:.1} MB/s ({:.2} s of wall time; {} simulated seconds a second)",
            self.seconds,
            self.goodput / 1e6,
            self.wall_seconds,
            significant(self.dilation)
        )?;
        writeln!(
            f,
            "  bursts            {} of {:.1} segments ({} segments)",
            self.bursts, self.segments_per_burst, self.segments
        )?;
        let most = self
            .segments_per_burst_histogram
            .values()
            .max()
            .copied()
            .unwrap_or(1)
            .max(1);
        for (segments, bursts) in &self.segments_per_burst_histogram {
            let bar = "#".repeat((bursts * BAR).div_ceil(most) as usize);
            writeln!(f, "  {segments:>6} segments   {bursts:>8} {bar}")?;
        }
        let queues: Vec<String> = self
            .bursts_by_queue
            .iter()
            .enumerate()
            .map(|(q, n)| format!("tx-{q} {n}"))
            .collect();
        writeln!(
            f,
            "  queues            {} ({} moves)",
            queues.join(", "),
            self.queue_moves
        )?;
        writeln!(f, "  small-queue stops {}", self.tsq_stops)?;
        writeln!(
            f,
            "  retransmitted     {} segments, {} bytes; {} time-outs, {} probes, {} recoveries",
            self.retransmitted,
            self.retransmitted_bytes,
            self.rto_count,
            self.tlp_probes,
            self.recoveries
        )?;
        writeln!(
            f,
            "  wire              dropped {} frames ({} payload bytes), doubled {}, delayed {}",
            self.wire_dropped,
            self.wire_dropped_payload_bytes,
            self.wire_duplicated,
            self.wire_reordered
        )?;
        if self.rx_no_buffer + self.kernel_refused > 0 {
            writeln!(
                f,
                "  not taken         {} frames found no receive buffer, {} were refused by the kernel",
                self.rx_no_buffer, self.kernel_refused
            )?;
        }
        if self.lost_interrupts + self.tx_timeouts > 0 {
            writeln!(
                f,
                "  watchdog          {} lost interrupts, {} queues reset",
                self.lost_interrupts, self.tx_timeouts
            )?;
        }
        if self.paced_gaps == 0 {
            write!(
                f,
                "  pacing error      not measured: no burst had a --rate to keep"
            )?;
        } else {
            write!(
                f,
                "  pacing error      mean {:.0} ns, 99 % within {} ns, at most {:.0} ns over {} gaps",
                self.pacing_error_mean_ns,
                self.pacing_error_p99_ns,
                self.pacing_error_max_ns,
                self.paced_gaps
            )?;
        }
        if let Some(frames) = self.captured {
            write!(f, "\n  captured          {frames} frames")?;
        }
        if self.capture_error.is_some() {
            write!(f, "\n  captured          NOT WHOLE")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::significant;

    #[test]
    fn a_slow_clock_is_told_from_one_that_stands_still() {
        for (x, text) in [
            (0.0, "0.00"),
            (0.000_312_4, "0.000312"),
            (0.0521, "0.0521"),
            (1.094, "1.09"),
            (37.25, "37.2"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(significant(x), text);
        }
    }
}
