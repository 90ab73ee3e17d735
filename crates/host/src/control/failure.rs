// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a request was not done: a code, its name, and what to do.

use serde::{Deserialize, Serialize};
use std::fmt;
use tsonic_driver::DriverError;
use tsonic_tcp::tunables::{TunableError, Tunables};

macro_rules! codes {
    ($( $variant:ident = $code:literal, $name:literal, $doc:literal; )*) => {
        /// What kind of failure. The codes of the hardware contract are below 256.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum Code { $( #[doc = $doc] $variant = $code, )* }

        impl Code {
            /// Every code.
            pub const ALL: &[Code] = &[$(Code::$variant),*];

            /// The number.
            pub const fn number(self) -> u16 { self as u16 }

            /// Upper-case name.
            pub const fn name(self) -> &'static str {
                match self { $( Code::$variant => $name, )* }
            }
        }
    };
}

codes! {
    BadRequest = 256, "BAD_REQUEST", "The line is no request.";
    RequestTooLong = 257, "REQUEST_TOO_LONG", "The line is longer than a request may be.";
    TooSlow = 258, "TOO_SLOW", "A request did not arrive whole in time.";
    TooManyClients = 259, "TOO_MANY_CLIENTS", "All places for clients are taken.";
    NoAnswer = 260, "NO_ANSWER", "The shard did not answer in time.";
    UnknownTunable = 261, "UNKNOWN_TUNABLE", "No tunable has that name.";
    OutOfRange = 262, "OUT_OF_RANGE", "The value is not in the range.";
    NoSuchTenant = 263, "NO_SUCH_TENANT", "There is no tenant of that number.";
    NoSuchQueue = 264, "NO_SUCH_QUEUE", "The device has no queue of that number.";
    NotSupported = 265, "NOT_SUPPORTED", "This build of the NIC cannot do it.";
    UnknownFeature = 266, "UNKNOWN_FEATURE", "No feature has that name.";
    FixedFeature = 267, "FIXED_FEATURE", "The feature cannot be changed.";
    QueueStuck = 268, "QUEUE_STUCK", "Bursts stay in a queue that was turned off.";
    DeviceGone = 269, "DEVICE_GONE", "The device failed.";
}

/// A failure as it crosses the socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// [`Code::number`].
    pub code: u16,
    /// [`Code::name`].
    pub name: String,
    /// What was wrong, and what to do.
    pub remedy: String,
}

impl Failure {
    /// A failure; `remedy` says what was wrong and what to do.
    pub fn new(code: Code, remedy: impl fmt::Display) -> Failure {
        Failure {
            code: code.number(),
            name: code.name().to_owned(),
            remedy: remedy.to_string(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.remedy)
    }
}

impl From<TunableError> for Failure {
    fn from(e: TunableError) -> Failure {
        let code = match e {
            TunableError::Unknown(_) => Code::UnknownTunable,
            TunableError::Range { .. } => Code::OutOfRange,
        };
        Failure::new(code, tunable(&e))
    }
}

/// Likeness from which a name may be what was meant.
const LIKE: f64 = 0.85;
/// Most names that are offered.
const OFFERED: usize = 3;

/// What is wrong with a tunable, and what to do: of all the names only those like the one
/// that was given.
pub fn tunable(error: &TunableError) -> String {
    match error {
        TunableError::Unknown(name) => {
            let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
            let like = |known: &&str| {
                let whole = strsim::jaro_winkler(known, name);
                whole.max(strsim::jaro(&last(known), &last(name)))
            };
            let mut near: Vec<(f64, &str)> = Tunables::NAMES
                .iter()
                .map(|known| (like(known), *known))
                .filter(|(likeness, _)| *likeness > LIKE)
                .collect();
            near.sort_by(|a, b| b.0.total_cmp(&a.0));
            let near: Vec<&str> = near.iter().take(OFFERED).map(|(_, n)| *n).collect();
            let meant = match near.as_slice() {
                [] => String::new(),
                names => format!("did you mean {}? ", names.join(" or ")),
            };
            format!(
                "no tunable is called {name}: {meant}`tsonic sysctl -a` lists those of a running process"
            )
        }
        TunableError::Range { name, range, value } if value.is_empty() => {
            format!("{name} takes {range}, and was given nothing")
        }
        TunableError::Range { .. } => error.to_string(),
    }
}

impl From<DriverError> for Failure {
    fn from(e: DriverError) -> Failure {
        let code = match e {
            DriverError::NoSuchQueue { .. } => Code::NoSuchQueue,
            DriverError::BadSetting { .. } => Code::OutOfRange,
            DriverError::NotSupported(_) => Code::NotSupported,
            DriverError::NotDrained { .. } => Code::QueueStuck,
            _ => Code::DeviceGone,
        };
        Failure::new(code, e)
    }
}

#[cfg(test)]
mod tests {
    use super::{Code, tunable};
    use tsonic_tcp::tunables::Tunables;

    #[test]
    fn a_tunable_that_is_not_there_is_answered_by_those_like_it() {
        let said = |name: &str, value: &str| {
            let refused = Tunables::default().set(name, value);
            tunable(&refused.unwrap_err())
        };
        let near = said("net.ipv4.tcp_tso_rtt_logg", "1");
        assert!(near.contains("mean net.ipv4.tcp_tso_rtt_log"), "{near}");
        let near = said("tcp_sack", "1");
        assert!(near.contains("net.ipv4.tcp_sack"), "{near}");
        for name in ["", "x", "net.core.rmem_max_of_something_else"] {
            let text = said(name, "1");
            assert!(text.contains("sysctl -a") && text.len() < 250, "{text}");
        }
        let empty = said("net.ipv4.tcp_tso_rtt_log", "");
        assert!(empty.ends_with("was given nothing"), "{empty}");
    }

    #[test]
    fn codes_ascend_beyond_those_of_the_contract() {
        assert!(Code::ALL[0].number() > u16::from(u8::MAX));
        for pair in Code::ALL.windows(2) {
            assert!(pair[0].number() < pair[1].number());
            assert_ne!(pair[0].name(), pair[1].name());
        }
    }
}
