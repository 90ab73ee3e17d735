// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tunables of a tenant under their Linux names and in Linux's units; what Linux
//! does not have lives under `tsonic.`.
//!
//! A value is checked against its range when it is written; the error names the
//! range. A connection reads its tenant's struct at each use, so a write takes
//! effect on the next packet or ACK; buffers, congestion control and what a SYN
//! negotiates are fixed when a connection is opened.

use crate::arith::pacing::PacingMode;
use crate::arith::tso::TsoSizing;
use crate::congestion::Algorithm;
use thiserror::Error;

/// Why a tunable was not written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TunableError {
    /// There is none of that name.
    #[error("no tunable is called {0}; there are {names}", names = Tunables::NAMES.join(", "))]
    Unknown(String),
    /// The value is not in the range.
    #[error("{name} takes {range}, not {value}")]
    Range {
        /// Name of the tunable.
        name: &'static str,
        /// What it takes.
        range: String,
        /// What was given.
        value: String,
    },
}

/// Sizes of a buffer in bytes: least, initial, most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferSizes {
    /// Never below this.
    pub min: u32,
    /// To start with.
    pub default: u32,
    /// Never above this.
    pub max: u32,
}

/// What a tunable is, for lists and help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Name.
    pub name: &'static str,
    /// Range in words.
    pub range: String,
    /// Value now.
    pub value: String,
    /// What it does.
    pub help: &'static str,
}

macro_rules! tunables {
    ($( $name:literal, $field:ident: $ty:ty = $default:expr, $range:expr, $help:literal; )*) => {
        /// The tunables of one tenant.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Tunables { $( #[doc = $help] pub $field: $ty, )* }

        impl Default for Tunables {
            fn default() -> Tunables {
                Tunables { $( $field: $default, )* }
            }
        }

        impl Tunables {
            /// Every name.
            pub const NAMES: &[&str] = &[$($name),*];

            /// Writes the tunable called `name`.
            ///
            /// # Errors
            /// [`TunableError`]: no such name, or the value is not in the range.
            pub fn set(&mut self, name: &str, value: &str) -> Result<(), TunableError> {
                match name {
                    $( $name => {
                        let range = $range;
                        self.$field = Value::parse(value.trim(), &range).ok_or_else(|| {
                            TunableError::Range {
                                name: $name,
                                range: Value::range(&self.$field, &range),
                                value: value.to_owned(),
                            }
                        })?;
                        Ok(())
                    } )*
                    _ => Err(TunableError::Unknown(name.to_owned())),
                }
            }

            /// The value of the tunable called `name`.
            pub fn get(&self, name: &str) -> Option<String> {
                match name {
                    $( $name => Some(Value::print(&self.$field)), )*
                    _ => None,
                }
            }

            /// All of them.
            pub fn describe(&self) -> Vec<Description> {
                vec![ $( Description {
                    name: $name,
                    range: Value::range(&self.$field, &$range),
                    value: Value::print(&self.$field),
                    help: $help,
                } ),* ]
            }
        }
    };
}

type Range = core::ops::RangeInclusive<u64>;

/// How a type of tunable is read and printed.
trait Value: Sized {
    fn parse(s: &str, range: &Range) -> Option<Self>;
    fn print(&self) -> String;
    fn range(&self, range: &Range) -> String;
}

fn integer(s: &str, range: &Range) -> Option<u64> {
    s.parse().ok().filter(|v| range.contains(v))
}

fn integer_range(range: &Range) -> String {
    format!("an integer {}..={}", range.start(), range.end())
}

macro_rules! integers {
    ($($ty:ty),*) => { $(
        impl Value for $ty {
            fn parse(s: &str, range: &Range) -> Option<$ty> {
                integer(s, range)?.try_into().ok()
            }
            fn print(&self) -> String {
                self.to_string()
            }
            fn range(&self, range: &Range) -> String {
                integer_range(range)
            }
        }
    )* };
}
integers!(u8, u32, u64);

impl Value for bool {
    fn parse(s: &str, _: &Range) -> Option<bool> {
        match s {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        }
    }
    fn print(&self) -> String {
        u8::from(*self).to_string()
    }
    fn range(&self, _: &Range) -> String {
        "0 or 1".into()
    }
}

impl Value for Option<u8> {
    fn parse(s: &str, range: &Range) -> Option<Option<u8>> {
        match s {
            "off" | "null" => Some(None),
            _ => u8::parse(s, range).map(Some),
        }
    }
    fn print(&self) -> String {
        self.map_or("off".into(), |v| v.to_string())
    }
    fn range(&self, range: &Range) -> String {
        format!("{} or off", integer_range(range))
    }
}

impl Value for BufferSizes {
    fn parse(s: &str, range: &Range) -> Option<BufferSizes> {
        let mut fields = s.split_ascii_whitespace().map(|f| u32::parse(f, range));
        let (min, default, max) = (fields.next()??, fields.next()??, fields.next()??);
        (fields.next().is_none() && min <= default && default <= max).then_some(BufferSizes {
            min,
            default,
            max,
        })
    }
    fn print(&self) -> String {
        format!("{} {} {}", self.min, self.default, self.max)
    }
    fn range(&self, range: &Range) -> String {
        format!(
            "three ascending integers (min default max), each {}..={}",
            range.start(),
            range.end()
        )
    }
}

impl Value for PacingMode {
    fn parse(s: &str, _: &Range) -> Option<PacingMode> {
        PacingMode::from_name(s)
    }
    fn print(&self) -> String {
        self.name().into()
    }
    fn range(&self, _: &Range) -> String {
        PacingMode::NAMES.join(" or ")
    }
}

impl Value for TsoSizing {
    fn parse(s: &str, _: &Range) -> Option<TsoSizing> {
        TsoSizing::from_name(s)
    }
    fn print(&self) -> String {
        self.name().into()
    }
    fn range(&self, _: &Range) -> String {
        TsoSizing::NAMES.join(" or ")
    }
}

impl Value for Algorithm {
    fn parse(s: &str, _: &Range) -> Option<Algorithm> {
        Algorithm::from_name(s)
    }
    fn print(&self) -> String {
        self.name().into()
    }
    fn range(&self, _: &Range) -> String {
        Algorithm::NAMES.join(" or ")
    }
}

const INT: u64 = i32::MAX as u64;

tunables! {
    "net.ipv4.tcp_tso_rtt_log", tso_rtt_log: Option<u8> = Some(9), 0..=31,
        "burst allowance of near peers: gso_max >> (min_rtt_us >> log); off: none";
    "net.ipv4.tcp_min_tso_segs", min_tso_segs: u32 = 2, 1..=255,
        "least segments of a burst, if there is data";
    "net.ipv4.tcp_limit_output_bytes", limit_output_bytes: u32 = 4_194_304, 0..=INT,
        "most bytes of a flow below the engine";
    "net.ipv4.tcp_tso_win_divisor", tso_win_divisor: u32 = 3, 0..=INT,
        "a burst may be deferred until this share of the window is open; 0: three segments";
    "net.ipv4.tcp_pacing_ss_ratio", pacing_ss_ratio: u32 = 200, 0..=1000,
        "pacing rate in slow start, percent of cwnd/srtt";
    "net.ipv4.tcp_pacing_ca_ratio", pacing_ca_ratio: u32 = 120, 0..=1000,
        "pacing rate in congestion avoidance, percent of cwnd/srtt";
    "net.ipv4.tcp_min_rtt_wlen", min_rtt_wlen: u32 = 300, 0..=86_400,
        "window of the minimal RTT in seconds";
    "net.ipv4.tcp_rmem", rmem: BufferSizes = BufferSizes { min: 4096, default: 131_072, max: 6_291_456 }, 1..=1 << 30,
        "receive buffer in bytes";
    "net.ipv4.tcp_wmem", wmem: BufferSizes = BufferSizes { min: 4096, default: 65_536, max: 4_194_304 }, 1..=1 << 30,
        "send buffer in bytes";
    "net.ipv4.tcp_ecn", ecn: u8 = 2, 0..=2,
        "ECN: 0 off, 1 ask and accept, 2 accept";
    "net.ipv4.tcp_sack", sack: bool = true, 0..=1,
        "selective acknowledgements";
    "net.ipv4.tcp_dsack", dsack: bool = true, 0..=1,
        "report duplicates by SACK";
    "net.ipv4.tcp_timestamps", timestamps: bool = true, 0..=1,
        "timestamps option";
    "net.ipv4.tcp_window_scaling", window_scaling: bool = true, 0..=1,
        "window scale option";
    "net.ipv4.tcp_congestion_control", congestion_control: Algorithm = Algorithm::Cubic, 0..=0,
        "congestion control of new connections";
    "net.ipv4.tcp_slow_start_after_idle", slow_start_after_idle: bool = true, 0..=1,
        "shrink the window after an idle RTO";
    "net.ipv4.tcp_early_retrans", early_retrans: u8 = 3, 0..=4,
        "tail loss probe: 3 or 4 on, else off";
    "net.ipv4.tcp_recovery", recovery: u8 = 1, 0..=7,
        "RACK: bit 0 on, bit 1 static reordering window, bit 2 no duplicate-ACK threshold";
    "net.ipv4.tcp_reordering", reordering: u32 = 3, 1..=300,
        "duplicate-ACK threshold";
    "net.ipv4.tcp_rto_min_us", rto_min_us: u32 = 200_000, 1..=120_000_000,
        "least retransmission time-out in microseconds";
    "net.ipv4.tcp_rto_max_ms", rto_max_ms: u32 = 120_000, 1000..=120_000,
        "most retransmission time-out in milliseconds";
    "net.ipv4.tcp_syn_retries", syn_retries: u8 = 6, 1..=127,
        "retries of an active open";
    "net.ipv4.tcp_synack_retries", synack_retries: u8 = 5, 0..=127,
        "retries of a passive open";
    "net.ipv4.tcp_retries2", retries2: u8 = 15, 0..=127,
        "retransmission time-outs before a connection is given up";
    "net.ipv4.tcp_fin_timeout", fin_timeout: u32 = 60, 1..=3600,
        "seconds in FIN_WAIT2 of a closed connection";
    "net.ipv4.tcp_keepalive_time", keepalive_time: u32 = 7200, 1..=32_767,
        "seconds of silence before the first keepalive probe";
    "net.ipv4.tcp_keepalive_intvl", keepalive_intvl: u32 = 75, 1..=32_767,
        "seconds between keepalive probes";
    "net.ipv4.tcp_keepalive_probes", keepalive_probes: u8 = 9, 1..=127,
        "unanswered keepalive probes before a connection is given up";
    "net.ipv4.tcp_invalid_ratelimit", invalid_ratelimit: u32 = 500, 0..=INT,
        "least milliseconds between two challenge ACKs of a connection";
    "net.ipv4.tcp_challenge_ack_limit", challenge_ack_limit: u32 = i32::MAX as u32, 0..=INT,
        "challenge ACKs a second of the tenant; 2147483647: no limit";
    "net.ipv4.tcp_max_syn_backlog", max_syn_backlog: u32 = 1024, 1..=INT,
        "half-open connections of a listener";
    "net.ipv4.tcp_max_tw_buckets", max_tw_buckets: u32 = 65_536, 0..=INT,
        "connections in TIME_WAIT";
    "net.core.somaxconn", somaxconn: u32 = 4096, 1..=INT,
        "connections that wait to be accepted";
    "net.core.txq_reselection_ms", txq_reselection_ms: u32 = 1000, 0..=INT,
        "a busy flow chooses its transmit queue again after this time; 0: never";
    "tsonic.initial_cwnd", initial_cwnd: u32 = 10, 1..=1000,
        "initial congestion window in segments";
    "tsonic.cwnd_clamp", cwnd_clamp: u32 = 1 << 24, 1..=1 << 24,
        "most segments that the congestion window grows to";
    "tsonic.tso_sizing", tso_sizing: TsoSizing = TsoSizing::Rate, 0..=0,
        "size of a burst: by pacing rate and nearness of the peer (rate), or, as in 2004, the share of the congestion window that tcp_tso_win_divisor says, 0: all of it, which leaves whole (window)";
    "tsonic.pacing", pacing: bool = true, 0..=1,
        "space segments at the pacing rate";
    "tsonic.pacing_mode", pacing_mode: PacingMode = PacingMode::Nic, 0..=0,
        "who spaces: the NIC each segment, the NIC whole bursts that leave at line rate, the engine's timer; a connection that has a row of the NIC's table keeps it";
    "tsonic.pacing_shift", pacing_shift: u8 = 10, 0..=31,
        "a burst is about rate >> shift bytes";
    "tsonic.max_pacing_rate", max_pacing_rate: u64 = u64::MAX, 1..=u64::MAX,
        "cap of the pacing rate in payload bytes a second";
    "tsonic.tsq_bql", tsq_bql: bool = false, 0..=1,
        "limit of a flow's bytes in the NIC: the queue's dynamic limit and one burst";
    "tsonic.delack_min_us", delack_min_us: u32 = 40_000, 0..=500_000,
        "least delay of a delayed ACK in microseconds";
    "tsonic.delack_max_us", delack_max_us: u32 = 200_000, 0..=500_000,
        "most delay of a delayed ACK in microseconds";
    "tsonic.ecn_react", ecn_react: bool = true, 0..=1,
        "reduce the window when congestion marks are echoed; 0: only count them";
    "tsonic.hystart", hystart: bool = true, 0..=1,
        "leave slow start when the RTT grows (HyStart++)";
    "tsonic.time_wait_s", time_wait: u32 = 60, 0..=3600,
        "seconds in TIME_WAIT";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_in_its_range() {
        let t = Tunables::default();
        let mut u = t.clone();
        for d in t.describe() {
            assert_eq!(u.set(d.name, &d.value), Ok(()), "{}", d.name);
            assert_eq!(t.get(d.name), Some(d.value));
        }
        assert_eq!(t, u);
        assert_eq!(Tunables::NAMES.len(), t.describe().len());
    }

    #[test]
    fn errors_name_the_range() {
        let mut t = Tunables::default();
        let e = t.set("net.ipv4.tcp_tso_rtt_log", "32").unwrap_err();
        assert_eq!(
            e.to_string(),
            "net.ipv4.tcp_tso_rtt_log takes an integer 0..=31 or off, not 32"
        );
        assert!(t.set("net.ipv4.tcp_min_tso_segs", "256").is_err());
        assert!(t.set("net.ipv4.tcp_rmem", "4096 2048 8192").is_err());
        assert!(t.set("net.ipv4.tcp_congestion_control", "vegas").is_err());
        assert!(t.set("net.ipv4.tcp_tso_rtt_logg", "1").is_err());
        assert_eq!(t, Tunables::default());
    }

    #[test]
    fn null_and_off_switch_the_near_peer_term_off() {
        let mut t = Tunables::default();
        for v in ["off", "null"] {
            t.set("net.ipv4.tcp_tso_rtt_log", "3").unwrap();
            t.set("net.ipv4.tcp_tso_rtt_log", v).unwrap();
            assert_eq!(t.tso_rtt_log, None);
        }
        t.set("tsonic.pacing_mode", "line").unwrap();
        assert_eq!(t.pacing_mode, PacingMode::Line);
        let e = t.set("tsonic.pacing_mode", "fq").unwrap_err();
        assert_eq!(
            e.to_string(),
            "tsonic.pacing_mode takes nic or line or edt, not fq"
        );
        t.set("tsonic.tso_sizing", "window").unwrap();
        assert_eq!(t.tso_sizing, TsoSizing::Window);
        let e = t.set("tsonic.tso_sizing", "2004").unwrap_err();
        assert_eq!(
            e.to_string(),
            "tsonic.tso_sizing takes rate or window, not 2004"
        );
        t.set("net.ipv4.tcp_congestion_control", "reno").unwrap();
        assert_eq!(t.congestion_control, Algorithm::Reno);
    }
}
