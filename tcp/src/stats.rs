// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of a connection and of an engine. All only grow.

/// Bins of [`Counters::segments_per_burst`].
pub const HISTOGRAM_BINS: usize = 129;

macro_rules! counters {
    ($( #[doc = $doc:literal] $field:ident, )*) => {
        /// Counters; the same for one connection and in total.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Counters {
            $( #[doc = $doc] pub $field: u64, )*
            /// Bursts by their number of segments: bin `n` counts bursts of `n`
            /// segments, the last bin those of more. Bin 0 stays empty.
            pub segments_per_burst: [u64; HISTOGRAM_BINS],
        }

        impl Default for Counters {
            fn default() -> Counters {
                Counters {
                    $( $field: 0, )*
                    segments_per_burst: [0; HISTOGRAM_BINS],
                }
            }
        }

        impl Counters {
            /// Every counter but the histogram, with its name.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$( (stringify!($field), self.$field), )*].into_iter()
            }

            /// Every counter's name with what it counts, in the order of [`Counters::iter`].
            pub const HELP: &[(&str, &str)] = &[$( (stringify!($field), $doc), )*];

            /// Adds those of another connection.
            pub(crate) fn add(&mut self, other: &Counters) {
                $( self.$field += other.$field; )*
                let bins = self.segments_per_burst.iter_mut();
                for (bin, n) in bins.zip(other.segments_per_burst) {
                    *bin += n;
                }
            }
        }
    };
}

counters! {
    /// Bursts with payload posted (retransmissions included).
    bursts,
    /// Segments of those bursts.
    segments,
    /// Payload bytes of those bursts.
    payload_bytes,
    /// Pure acknowledgements posted.
    acks,
    /// Segments sent again.
    retransmitted_segments,
    /// Payload bytes sent again.
    retransmitted_bytes,
    /// Retransmission time-outs.
    rto_count,
    /// Tail loss probes.
    tlp_probes,
    /// Fast recoveries begun.
    recoveries,
    /// Recoveries or time-outs found to be spurious and undone.
    undone,
    /// Duplicates that the peer reported (DSACK).
    dsacks,
    /// Times the small-queue gate stopped the flow.
    tsq_stops,
    /// Times a burst was deferred.
    deferred,
    /// Times the port had no room.
    backpressure,
    /// Moves to another queue while bytes of the flow were in the NIC.
    ooo_moves,
    /// Moves to another queue.
    queue_moves,
    /// Window reductions by ECN.
    ecn_reductions,
    /// Window reductions by the NIC's congestion notification.
    local_reductions,
    /// Bursts that completed with an error.
    failed_bursts,
    /// Segments received.
    segments_in,
    /// Payload bytes received in order.
    bytes_in,
    /// Segments received behind a gap.
    out_of_order_in,
    /// Segments received that brought nothing new.
    duplicates_in,
    /// Challenge ACKs sent.
    challenge_acks,
    /// Segments dropped by PAWS.
    paws_drops,
    /// Zero-window probes sent.
    window_probes,
    /// Keepalive probes sent.
    keepalive_probes,
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
    /// Connections refused with a reset: all send memory was promised to others.
    pub refused: u64,
    /// Writes cut short by the connection's share of the send memory.
    pub share_stops: u64,
    /// Echo requests answered.
    pub echoes: u64,
    /// Frames of the engine itself (ARP, NDP, echo, reset) dropped for lack of
    /// room.
    pub control_drops: u64,
    /// Completions that named no burst of ours.
    pub stale_completions: u64,
}
