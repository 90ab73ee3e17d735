// SPDX-License-Identifier: MIT OR Apache-2.0
//! What crosses the control socket: lines of JSON, one object each.
//!
//! The server speaks first: a [`Greeting`]. Then each [`RequestLine`] of the client
//! is answered by one [`ReplyLine`], in order. Unknown keys are an error at either
//! end: who speaks another version finds out from the greeting.

use super::failure::Failure;
use super::mask::CpuMask;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tsonic_tcp::stats::Counters;

/// Version of this protocol: requests and replies of another number are others.
pub const PROTOCOL: u32 = 1;
/// Longest request in bytes, without the line's end.
pub const REQUEST_MAX: usize = 16 * 1024;
/// Longest reply or greeting in bytes.
pub const REPLY_MAX: usize = 16 << 20;
/// Most connections that a reply lists.
pub const CONNECTIONS_MAX: u32 = 4096;

/// The server's first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Greeting {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// Version of the program.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// What it does, in a few words: `demo`.
    pub role: String,
    /// The engine.
    pub engine: EngineFacts,
    /// The NIC.
    pub nic: NicFacts,
}

/// What an engine is and does not change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineFacts {
    /// Own addresses with their prefix lengths.
    pub addresses: Vec<String>,
    /// Ethernet address.
    pub mac: String,
    /// Most bytes of an IP packet.
    pub mtu: u16,
    /// Most connections.
    pub connections_max: u32,
}

/// What a NIC says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NicFacts {
    /// Which one, as the command calls it: `model`, `rtl`.
    pub kind: String,
    /// Contract version: `1.1`.
    pub contract: String,
    /// First 32 bits of the build's hash.
    pub build: String,
    /// Names of the FEATURES that are 1.
    pub features: Vec<String>,
    /// Queue pairs in use.
    pub queues: u16,
    /// Rows of the flow table, slot 0 included.
    pub flow_slots: u32,
    /// Largest payload of a segment.
    pub max_segment: u32,
    /// Largest payload of a burst.
    pub max_payload: u32,
    /// Ticks of its clock a second.
    pub tick_hz: u32,
}

/// A line of a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestLine {
    /// Comes back with the answer.
    pub id: u64,
    /// What to do.
    pub request: Request,
}

/// A line of the server: either `reply` or `error`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplyLine {
    /// Of the request; null when that could not be read.
    pub id: Option<u64>,
    /// The engine's time in nanoseconds when it was done; absent when the shard was
    /// not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_time_ns: Option<u64>,
    /// It was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<Reply>,
    /// It was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
}

/// What can be asked. Changes answer with the state after them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// All tunables of a tenant.
    TunableList {
        /// The tenant.
        tenant: u16,
    },
    /// One tunable.
    TunableGet {
        /// The tenant.
        tenant: u16,
        /// Its name.
        name: String,
    },
    /// Writes a tunable.
    TunableSet {
        /// The tenant.
        tenant: u16,
        /// Its name.
        name: String,
        /// The value in its own syntax.
        value: String,
    },
    /// Counters and state.
    Stats {
        /// Most connections to list, at most [`CONNECTIONS_MAX`].
        connections: u32,
    },
    /// Which CPUs send from which queue.
    XpsShow {},
    /// The CPUs of a queue.
    XpsSet {
        /// The queue.
        queue: u16,
        /// Its CPUs.
        cpus: CpuMask,
    },
    /// Byte budgets.
    BqlShow {},
    /// One setting of a queue's byte budget.
    BqlSet {
        /// The queue.
        queue: u16,
        /// Which setting.
        setting: BqlSetting,
        /// Wire bytes, or milliseconds for `hold_time`.
        value: u32,
    },
    /// Rates of the queues.
    RateShow {},
    /// The rate of a queue.
    RateSet {
        /// The queue.
        queue: u16,
        /// Wire bytes a second; null: no limit.
        // Not left out by mistake: that would lift the limit.
        #[serde(deserialize_with = "Option::deserialize")]
        rate: Option<u64>,
    },
    /// Interrupt moderation.
    CoalesceShow {},
    /// Interrupt moderation of a queue; null leaves a value as it is.
    CoalesceSet {
        /// The queue.
        queue: u16,
        /// Longest wait of a completion for others in microseconds; 0: none.
        tx_usecs: Option<u32>,
        /// Completions that are gathered; 0: none are.
        tx_frames: Option<u32>,
    },
    /// Offloads.
    FeaturesShow {},
    /// Switches an offload.
    FeaturesSet {
        /// Its name as in `ethtool -K`.
        name: String,
        /// On or off.
        on: bool,
    },
    /// Takes every burst of a transmit queue out of the device and starts it afresh.
    QueueReset {
        /// The queue.
        queue: u16,
    },
}

/// A setting of a byte budget, as in `byte_queue_limits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BqlSetting {
    /// Where the limit starts from, now.
    Limit,
    /// Never below.
    LimitMin,
    /// Never above; 0 ends the budget.
    LimitMax,
    /// Milliseconds over which slack must last before the limit falls.
    HoldTime,
}

/// Answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Reply {
    /// Tunables: all, or the one that was asked for or written.
    Tunables(Vec<Tunable>),
    /// Counters and state.
    Stats(Box<Stats>),
    /// CPUs of each queue.
    Xps(Vec<QueueCpus>),
    /// Byte budget of each queue.
    Bql(Vec<QueueBql>),
    /// Rate of each queue.
    Rate(Vec<QueueRate>),
    /// Moderation of each queue.
    Coalesce(Vec<QueueCoalesce>),
    /// Offloads.
    Features(Vec<Feature>),
    /// A queue was reset.
    QueueReset {
        /// The queue.
        queue: u16,
        /// Bursts that came back from it, whatever their status.
        bursts: u64,
    },
}

/// A tunable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tunable {
    /// Name.
    pub name: String,
    /// Value.
    pub value: String,
    /// What it takes, in words.
    pub range: String,
    /// What it does.
    pub help: String,
}

/// CPUs that send from a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueCpus {
    /// The queue.
    pub queue: u16,
    /// Its CPUs.
    pub cpus: CpuMask,
}

/// Byte budget of a queue: settings, and where the device says it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueBql {
    /// The queue.
    pub queue: u16,
    /// Whether a budget is in force.
    pub active: bool,
    /// Limit now in wire bytes; null when the device has not reported it.
    pub limit: Option<u64>,
    /// Wire bytes charged and not credited; null as `limit`.
    pub inflight: Option<u64>,
    /// Never below.
    pub limit_min: u32,
    /// Never above.
    pub limit_max: u32,
    /// Milliseconds over which slack must last before the limit falls.
    pub hold_time: u64,
    /// Milliseconds of age of bytes in flight that count as a stall; 0: off.
    pub stall_thrs: u64,
    /// Stalls found; null when the device has not reported it.
    pub stall_cnt: Option<u64>,
    /// Longest stall in milliseconds; null as `stall_cnt`.
    pub stall_max: Option<u64>,
}

/// Rate of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueRate {
    /// The queue.
    pub queue: u16,
    /// Wire bytes a second; null: no limit.
    pub rate: Option<u64>,
}

/// Moderation of a queue, as the device holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueCoalesce {
    /// The queue.
    pub queue: u16,
    /// Longest wait in microseconds; 0: none.
    pub tx_usecs: u64,
    /// Completions that are gathered; 0: none are.
    pub tx_frames: u32,
}

/// An offload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feature {
    /// Name as in `ethtool -k`.
    pub name: String,
    /// On or off.
    pub on: bool,
    /// Whether it cannot be changed by this name.
    pub fixed: bool,
    /// The feature that it is a part of.
    pub part_of: Option<String>,
}

/// Counters and state of a shard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stats {
    /// The engine's time in nanoseconds: the device's clock.
    pub engine_time_ns: u64,
    /// All connections that there were.
    pub total: TcpCounters,
    /// The engine beside its connections.
    pub engine: EngineStats,
    /// By tenant; they add up to `total`.
    pub tenants: Vec<TenantStats>,
    /// Connections that there are, up to the number asked for.
    pub connections: Vec<ConnectionStats>,
    /// Connections that were left out.
    pub connections_left_out: u64,
    /// By queue pair.
    pub queues: Vec<QueueStats>,
    /// The flow table, in words of the fq qdisc.
    pub fq: FqStats,
    /// The device's own counters.
    pub device: BTreeMap<String, u64>,
}

/// What an engine counts beside its connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineStats {
    /// Connections now, closing ones included.
    pub connections: u64,
    /// Bursts in the NIC now.
    pub bursts_in_nic: u64,
    /// Chunks of payload memory that are free now.
    pub chunks_free: u64,
    /// Connections that could still be opened before all send memory is promised.
    pub reserves_left: u64,
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
    /// Frames of the engine itself dropped for lack of room.
    pub control_drops: u64,
    /// Completions that named no burst of ours.
    pub stale_completions: u64,
}

/// A tenant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantStats {
    /// Its number.
    pub tenant: u16,
    /// Its connections, closed ones included.
    pub counters: TcpCounters,
}

/// A connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectionStats {
    /// Whose it is.
    pub tenant: u16,
    /// Our end.
    pub local: String,
    /// The peer's end.
    pub remote: String,
    /// State of RFC 9293.
    pub state: String,
    /// Payload bytes of a segment.
    pub mss: u32,
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Slow-start threshold in segments.
    pub ssthresh: u32,
    /// Segments in flight.
    pub in_flight: u32,
    /// Smoothed RTT; null before the first sample.
    pub srtt_us: Option<f64>,
    /// Windowed minimum of the RTT; null as `srtt_us`.
    pub min_rtt_us: Option<f64>,
    /// Retransmission time-out before back-off; null as `srtt_us`.
    pub rto_us: Option<f64>,
    /// Payload bytes a second; null: not paced.
    pub pacing_rate: Option<u64>,
    /// The NIC paces it; else the engine does.
    pub paced_by_nic: bool,
    /// Queue of its last burst.
    pub queue: Option<u16>,
    /// Bytes in the NIC by the measure of small queues.
    pub in_nic: u64,
    /// The small-queue gate holds it back.
    pub throttled: bool,
    /// Bytes written and not acknowledged.
    pub send_queue: u64,
    /// Bytes received and not read.
    pub receive_queue: u64,
    /// Counters.
    pub counters: TcpCounters,
}

/// A queue pair. Names as `ethtool -S` and the kernel's queue statistics have them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueStats {
    /// Its number.
    pub queue: u16,
    /// Bursts with payload that the engine gave it.
    pub bursts: u64,
    /// Bursts in the device now.
    pub outstanding: u64,
    /// Bursts that could be posted now.
    pub room: u64,
    /// Counters of the transmit side.
    pub tx: BTreeMap<String, u64>,
    /// Counters of the receive side.
    pub rx: BTreeMap<String, u64>,
    /// Byte budget; null when this build has none.
    pub byte_queue_limits: Option<QueueBql>,
}

/// The flow table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FqStats {
    /// Flows that have a row.
    pub flows: u64,
    /// Rows that flows can have.
    pub flow_slots: u64,
}

macro_rules! tcp_counters {
    ($($field:ident,)*) => {
        /// Counters of one connection or of several; [`Counters`] says what each is.
        #[allow(missing_docs)]
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct TcpCounters {
            $( pub $field: u64, )*
            /// Mean; null before the first burst.
            pub segments_per_burst: Option<f64>,
            /// Bursts by their number of segments, where there were any.
            pub segments_per_burst_histogram: BTreeMap<u32, u64>,
        }

        impl From<&Counters> for TcpCounters {
            fn from(c: &Counters) -> TcpCounters {
                // Names every field, so that none is forgotten.
                let Counters { $($field,)* segments_per_burst } = c;
                let bins = (0u32..).zip(segments_per_burst.iter().copied());
                TcpCounters {
                    $( $field: *$field, )*
                    segments_per_burst: (c.bursts > 0)
                        .then(|| c.segments as f64 / c.bursts as f64),
                    segments_per_burst_histogram: bins.filter(|(_, n)| *n > 0).collect(),
                }
            }
        }

        impl TcpCounters {
            /// Every counter but the histogram, in the order of [`Counters::HELP`].
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$( (stringify!($field), self.$field), )*].into_iter()
            }
        }
    };
}

tcp_counters! {
    bursts, segments, payload_bytes, acks, retransmitted_segments, retransmitted_bytes,
    rto_count, tlp_probes, recoveries, undone, dsacks, tsq_stops, deferred, backpressure,
    ooo_moves, queue_moves, ecn_reductions, local_reductions, failed_bursts, segments_in,
    bytes_in, out_of_order_in, duplicates_in, challenge_acks, paws_drops, window_probes,
    keepalive_probes,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_do_not_pass() {
        let ok = r#"{"id":1,"request":{"rate_set":{"queue":0,"rate":null}}}"#;
        let line: RequestLine = serde_json::from_str(ok).unwrap();
        assert_eq!(
            line.request,
            Request::RateSet {
                queue: 0,
                rate: None
            }
        );
        assert_eq!(serde_json::to_string(&line).unwrap(), ok);
        for bad in [
            r#"{"id":1,"request":{"rate_set":{"queue":0,"rate":null,"x":1}}}"#,
            r#"{"id":1,"request":{"rate_sett":{"queue":0}}}"#,
            r#"{"id":1,"x":1,"request":{"xps_show":{}}}"#,
            r#"{"id":-1,"request":{"xps_show":{}}}"#,
            r#"{"id":1,"request":{"xps_set":{"queue":0,"cpus":"xyz"}}}"#,
            r#"{"id":1,"request":{"rate_set":{"queue":65536,"rate":1}}}"#,
            r#"{"id":1,"request":{"rate_set":{"queue":0}}}"#,
            r#"{"request":{"xps_show":{}}}"#,
            "null",
        ] {
            assert!(serde_json::from_str::<RequestLine>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn counters_keep_their_names_and_order() {
        let c = Counters {
            bursts: 4,
            segments: 10,
            ..Counters::default()
        };
        let t = TcpCounters::from(&c);
        assert_eq!(t.segments_per_burst, Some(2.5));
        assert!(t.iter().map(|c| c.0).eq(c.iter().map(|c| c.0)));
        assert!(t.iter().map(|c| c.0).eq(Counters::HELP.iter().map(|h| h.0)));
        assert_eq!(
            TcpCounters::from(&Counters::default()).segments_per_burst,
            None
        );
    }
}
