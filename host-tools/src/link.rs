// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wire behind a NIC, as commands take it.

use crate::units;
use clap::Args;
use std::time::Duration;
use tsonic_sim::wire::PathConfig;
use tsonic_sim::world::LinkConfig;
use tsonic_types::{ByteRate, Nanos};

/// Speed, delay and faults of a wire.
#[derive(Args, Clone, Debug)]
pub struct LinkArgs {
    /// Speed of the wire.
    #[arg(long, default_value = "1Gbit", value_parser = units::rate)]
    pub link_rate: ByteRate,
    /// Delay of the wire, each way; 1s at most.
    #[arg(long, default_value = "500us", value_parser = units::delay)]
    pub delay: Duration,
    /// Share of frames lost, each way.
    #[arg(long, default_value = "0", value_parser = units::share)]
    pub loss: f64,
    /// Share of frames that are delayed, and so reordered, each way.
    #[arg(long, default_value = "0", value_parser = units::share)]
    pub reorder: f64,
    /// Longest extra delay of such a frame.
    #[arg(long, default_value = "200us", value_parser = units::span)]
    pub reorder_delay: Duration,
    /// Share of frames that arrive twice, each way.
    #[arg(long, default_value = "0", value_parser = units::share)]
    pub dup: f64,
}

/// Names of those options.
pub const LINK_OPTIONS: [&str; 6] = [
    "link_rate",
    "delay",
    "loss",
    "reorder",
    "reorder_delay",
    "dup",
];

impl LinkArgs {
    /// The wire, with its dice.
    pub fn config(&self, seed: u64) -> LinkConfig {
        let nanos = |d: Duration| Nanos(d.as_nanos() as u64);
        let path = |salt: u64| PathConfig {
            delay: nanos(self.delay),
            loss: self.loss,
            duplicate: self.dup,
            reorder: self.reorder,
            reorder_extra: nanos(self.reorder_delay),
            seed: seed.wrapping_mul(2).wrapping_add(salt),
            ..PathConfig::default()
        };
        LinkConfig {
            line_rate: self.link_rate.0.saturating_mul(8),
            out: path(0),
            back: path(1),
        }
    }

    /// The same as a command line.
    pub fn to_args(&self) -> Vec<String> {
        [
            ("--link-rate", format!("{}B/s", self.link_rate.0)),
            ("--delay", format!("{}ns", self.delay.as_nanos())),
            ("--loss", self.loss.to_string()),
            ("--reorder", self.reorder.to_string()),
            (
                "--reorder-delay",
                format!("{}ns", self.reorder_delay.as_nanos()),
            ),
            ("--dup", self.dup.to_string()),
        ]
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value])
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::LinkArgs;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        link: LinkArgs,
    }

    #[test]
    fn a_wire_survives_a_command_line() {
        let line = "x --link-rate 800kbit --delay 3us --loss 1% --reorder 0.5% \
                    --reorder-delay 7ms --dup 0.1%";
        let first = Line::parse_from(line.split_whitespace()).link;
        let again = [vec!["x".to_owned()], first.to_args()].concat();
        let second = Line::parse_from(again).link;
        assert_eq!(first.config(3), second.config(3));
        assert_eq!((first.loss, first.link_rate.0), (0.01, 100_000));
    }
}
