// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of a connection and of an engine. All only grow.

/// Bins of [`Counters::segments_per_burst`].
pub const HISTOGRAM_BINS: usize = 129;

/// Counters; the same for one connection and in total.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Bursts with payload posted (retransmissions included).
    pub bursts: u64,
    /// Segments of those bursts.
    pub segments: u64,
    /// Payload bytes of those bursts.
    pub payload_bytes: u64,
    /// Pure acknowledgements posted.
    pub acks: u64,
    /// Segments sent again.
    pub retransmitted_segments: u64,
    /// Payload bytes sent again.
    pub retransmitted_bytes: u64,
    /// Retransmission time-outs.
    pub rto_count: u64,
    /// Tail loss probes.
    pub tlp_probes: u64,
    /// Fast recoveries begun.
    pub recoveries: u64,
    /// Recoveries or time-outs found to be spurious and undone.
    pub undone: u64,
    /// Duplicates that the peer reported (DSACK).
    pub dsacks: u64,
    /// Times the small-queue gate stopped the flow.
    pub tsq_stops: u64,
    /// Times a burst was deferred.
    pub deferred: u64,
    /// Times the port had no room.
    pub backpressure: u64,
    /// Moves to another queue while bytes of the flow were in the NIC.
    pub ooo_moves: u64,
    /// Moves to another queue.
    pub queue_moves: u64,
    /// Window reductions by ECN.
    pub ecn_reductions: u64,
    /// Window reductions by the NIC's congestion notification.
    pub local_reductions: u64,
    /// Bursts that completed with an error.
    pub failed_bursts: u64,
    /// Segments received.
    pub segments_in: u64,
    /// Payload bytes received in order.
    pub bytes_in: u64,
    /// Segments received behind a gap.
    pub out_of_order_in: u64,
    /// Segments received that brought nothing new.
    pub duplicates_in: u64,
    /// Challenge ACKs sent.
    pub challenge_acks: u64,
    /// Segments dropped by PAWS.
    pub paws_drops: u64,
    /// Zero-window probes sent.
    pub window_probes: u64,
    /// Keepalive probes sent.
    pub keepalive_probes: u64,
    /// Bursts by their number of segments: bin `n` counts bursts of `n`
    /// segments, the last bin those of more. Bin 0 stays empty.
    pub segments_per_burst: [u64; HISTOGRAM_BINS],
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            bursts: 0,
            segments: 0,
            payload_bytes: 0,
            acks: 0,
            retransmitted_segments: 0,
            retransmitted_bytes: 0,
            rto_count: 0,
            tlp_probes: 0,
            recoveries: 0,
            undone: 0,
            dsacks: 0,
            tsq_stops: 0,
            deferred: 0,
            backpressure: 0,
            ooo_moves: 0,
            queue_moves: 0,
            ecn_reductions: 0,
            local_reductions: 0,
            failed_bursts: 0,
            segments_in: 0,
            bytes_in: 0,
            out_of_order_in: 0,
            duplicates_in: 0,
            challenge_acks: 0,
            paws_drops: 0,
            window_probes: 0,
            keepalive_probes: 0,
            segments_per_burst: [0; HISTOGRAM_BINS],
        }
    }
}

impl Counters {
    pub(crate) fn count_burst(&mut self, segments: u32, payload: u32) {
        self.bursts += 1;
        self.segments += u64::from(segments);
        self.payload_bytes += u64::from(payload);
        self.segments_per_burst[(segments as usize).min(HISTOGRAM_BINS - 1)] += 1;
    }
}

/// Counters of an engine beyond those of its connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineCounters {
    /// Sum over all connections, closed ones included.
    pub total: Counters,
    /// Bursts with payload by queue.
    pub bursts_by_queue: Vec<u64>,
    /// Frames received.
    pub frames_in: u64,
    /// Frames that were for nobody here, or no valid frames.
    pub frames_ignored: u64,
    /// Frames with a bad checksum.
    pub bad_checksums: u64,
    /// Resets sent to segments without a connection.
    pub resets_out: u64,
    /// SYNs dropped as a backlog or the connection table was full.
    pub syn_drops: u64,
    /// Echo requests answered.
    pub echoes: u64,
    /// Frames of the engine itself (ARP, NDP, echo, reset) dropped for lack of
    /// room.
    pub control_drops: u64,
    /// Completions that named no burst of ours.
    pub stale_completions: u64,
}
