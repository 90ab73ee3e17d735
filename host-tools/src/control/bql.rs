// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tsonic bql`: byte budgets of the queues.

use super::target::Target;
use super::{ControlError, ask, print, queue_name, unexpected};
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use tsonic_host::control::protocol::{BqlSetting, QueueBql, Reply, Request};

/// Shows or sets the byte budget (dynamic queue limit) of transmit queues.
///
/// The budget is the NIC's own; words and units are those of
/// /sys/class/net/*/queues/tx-*/byte_queue_limits, in wire bytes. Setting anything where no budget is
/// in force starts one with Linux's defaults; limit_max 0 ends it.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  tsonic bql show\n  tsonic bql set tx-0 limit_max 65536\n  tsonic bql set tx-0 hold_time 1000 --json"
)]
pub struct BqlArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    /// The budget of every queue.
    #[command(after_help = "Example:\n  tsonic bql show")]
    Show {
        #[command(flatten)]
        target: Target,
    },
    /// Sets one value of a queue's budget.
    #[command(after_help = "Example:\n  tsonic bql set tx-0 limit_max 65536")]
    Set {
        /// The queue: tx-0, tx-1, ...
        #[arg(value_parser = queue_name)]
        queue: u16,
        /// Which value.
        #[arg(value_enum)]
        setting: Setting,
        /// Wire bytes; for hold_time milliseconds.
        value: u32,
        #[command(flatten)]
        target: Target,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Setting {
    /// Where the limit starts from, now.
    Limit,
    /// Never below.
    LimitMin,
    /// Never above; 0 ends the budget.
    LimitMax,
    /// Milliseconds over which slack must last before the limit falls.
    HoldTime,
}

#[derive(Serialize)]
struct Bql {
    byte_queue_limits: Vec<QueueBql>,
}

/// Runs the command.
///
/// # Errors
/// [`ControlError`].
pub fn run(args: &BqlArgs) -> Result<(), ControlError> {
    let (target, request) = match &args.what {
        What::Show { target } => (target, Request::BqlShow {}),
        What::Set {
            queue,
            setting,
            value,
            target,
        } => {
            let setting = match setting {
                Setting::Limit => BqlSetting::Limit,
                Setting::LimitMin => BqlSetting::LimitMin,
                Setting::LimitMax => BqlSetting::LimitMax,
                Setting::HoldTime => BqlSetting::HoldTime,
            };
            let (queue, value) = (*queue, *value);
            let request = Request::BqlSet {
                queue,
                setting,
                value,
            };
            (target, request)
        }
    };
    let (pid, at, Reply::Bql(byte_queue_limits)) = ask(target, request)? else {
        return Err(unexpected());
    };
    print(target, (pid, at), &Bql { byte_queue_limits }, |out, all| {
        for b in &all.byte_queue_limits {
            writeln!(out, "{}", line(b))?;
        }
        Ok(())
    })
}

/// A budget in one line.
pub fn line(b: &QueueBql) -> String {
    if !b.active {
        return format!("tx-{} off", b.queue);
    }
    let told = |v: Option<u64>| v.map_or("?".into(), |v| v.to_string());
    let mut line = format!(
        "tx-{} limit {} inflight {} limit_min {} limit_max {} hold_time {}",
        b.queue,
        told(b.limit),
        told(b.inflight),
        b.limit_min,
        b.limit_max,
        b.hold_time
    );
    if let (Some(count), Some(longest)) = (b.stall_cnt, b.stall_max) {
        line += &format!(
            " stall_thrs {} stall_cnt {count} stall_max {longest}",
            b.stall_thrs
        );
    }
    line
}
