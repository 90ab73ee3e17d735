// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tsonic coalesce`: interrupt moderation.

use super::target::Target;
use super::{ControlError, ask, print, queue_name, unexpected};
use clap::{Args, Subcommand};
use serde::Serialize;
use tsonic_host::control::protocol::{QueueCoalesce, Reply, Request};

/// Shows or sets interrupt moderation.
///
/// Words are those of `ethtool -C`. A queue pair has one interrupt for both directions, so
/// that both share its moderation.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  tsonic coalesce show\n  tsonic coalesce set tx-0 tx-usecs 50 tx-frames 16\n  tsonic coalesce set tx-0 tx-usecs 0"
)]
pub struct CoalesceArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    /// The moderation of every queue.
    #[command(after_help = "Example:\n  tsonic coalesce show")]
    Show {
        #[command(flatten)]
        target: Target,
    },
    /// Sets the moderation of a queue; what is not given stays as it is.
    #[command(after_help = "Example:\n  tsonic coalesce set tx-0 tx-usecs 50 tx-frames 16")]
    Set {
        /// The queue: tx-0, tx-1, ...
        #[arg(value_parser = queue_name)]
        queue: u16,
        /// `tx-usecs N`: longest wait of a completion for others; `tx-frames N`: completions
        /// that are gathered. 0 in both: off.
        #[arg(required = true, num_args = 2..=4, value_name = "NAME VALUE")]
        settings: Vec<String>,
        #[command(flatten)]
        target: Target,
    },
}

#[derive(Serialize)]
struct Coalesce {
    coalesce: Vec<QueueCoalesce>,
}

/// Pairs of name and value.
fn settings(words: &[String]) -> Result<(Option<u32>, Option<u32>), ControlError> {
    let (mut usecs, mut frames) = (None, None);
    for pair in words.chunks(2) {
        let wrong = || ControlError::Coalesce(pair.join(" "));
        let [name, value] = pair else {
            return Err(wrong());
        };
        let place = match name.as_str() {
            "tx-usecs" => &mut usecs,
            "tx-frames" => &mut frames,
            _ => return Err(wrong()),
        };
        let value = value.parse().map_err(|_| wrong())?;
        if place.replace(value).is_some() {
            return Err(wrong());
        }
    }
    Ok((usecs, frames))
}

/// Runs the command.
///
/// # Errors
/// [`ControlError`].
pub fn run(args: &CoalesceArgs) -> Result<(), ControlError> {
    let (target, request) = match &args.what {
        What::Show { target } => (target, Request::CoalesceShow {}),
        What::Set {
            queue,
            settings: words,
            target,
        } => {
            let (tx_usecs, tx_frames) = settings(words)?;
            let request = Request::CoalesceSet {
                queue: *queue,
                tx_usecs,
                tx_frames,
            };
            (target, request)
        }
    };
    let (pid, at, Reply::Coalesce(coalesce)) = ask(target, request)? else {
        return Err(unexpected());
    };
    print(target, (pid, at), &Coalesce { coalesce }, |out, all| {
        for q in &all.coalesce {
            let (n, us, frames) = (q.queue, q.tx_usecs, q.tx_frames);
            writeln!(out, "tx-{n} tx-usecs {us} tx-frames {frames}")?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<(Option<u32>, Option<u32>)> {
        let words: Vec<String> = text.split(' ').map(Into::into).collect();
        settings(&words).ok()
    }

    #[test]
    fn settings_come_in_pairs() {
        assert_eq!(
            parse("tx-usecs 50 tx-frames 16"),
            Some((Some(50), Some(16)))
        );
        assert_eq!(parse("tx-frames 0"), Some((None, Some(0))));
        for bad in [
            "tx-usecs",
            "tx-usecs x",
            "tx-usecs -1",
            "rx-usecs 1",
            "tx-usecs 1 tx-usecs 2",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
