// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a request was not done: a code, its name, and what to do.

use serde::{Deserialize, Serialize};
use std::fmt;
use tsonic_driver::DriverError;
use tsonic_tcp::tunables::TunableError;

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
        Failure::new(code, e)
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
    use super::Code;

    #[test]
    fn codes_ascend_beyond_those_of_the_contract() {
        assert!(Code::ALL[0].number() > u16::from(u8::MAX));
        for pair in Code::ALL.windows(2) {
            assert!(pair[0].number() < pair[1].number());
            assert_ne!(pair[0].name(), pair[1].name());
        }
    }
}
