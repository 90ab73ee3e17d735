// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tsonic classify`: one frame a line into a whole NIC, and back what it says of
//! it: checksums, RSS hash and queue. No logic of its own.

use crate::CliError;
use crate::jsonl::{self, Failure, Request, answer};
use crate::nics::NicKind;
use clap::builder::RangedU64ValueParser;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::io;
use tsonic_bench::rig::{self, FarEnd, NicDevice, RigError};
use tsonic_driver::{
    ChecksumVerdict, DriverError, HashKind, RSS_KEY_DEFAULT, RxConfig, RxMeta, RxQueue,
};
use tsonic_pci::Wake;
use tsonic_regs::Status;
use tsonic_regs::limits::{QUEUES_MAX, RING_LOG2_MIN, RSS_KEY, RX_FRAME_MAX};
use tsonic_regs::registers::global;
use tsonic_types::{Nanos, QueueId};

/// Let a whole NIC check, hash and steer received frames, as JSON lines.
///
/// Reads one JSON object a line from standard input, sends its frame to the NIC and
/// answers with what the NIC says of it. The same NIC serves all lines.
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub struct Args {
    /// Which NIC.
    #[arg(long, value_enum)]
    nic: NicKind,
    /// Queue pairs that the indirection table spreads frames over in turn. The RTL has
    /// at most 32.
    #[arg(long, default_value_t = 4,
          value_parser = RangedU64ValueParser::<u16>::new().range(1..=QUEUES_MAX as u64))]
    queues: u16,
}

const HELP: &str = "\
Keys of a line (that in [brackets] may be left out):
  id     anything; echoed
  frame  lower-case hex, Ethernet header first, without FCS; given to the NIC as it is,
         also when it is shorter than the 60 bytes of a padded frame
  [key]  the RSS key, 40 bytes in hex; default: the one that Microsoft published
Answer: {\"id\",\"ip_csum\",\"l4_csum\",\"hash\",\"hash_kind\",\"queue\"}
  ip_csum, l4_csum  ok, bad, none (nothing to check)
  hash              8 hex digits; null for what is not IP
  hash_kind         l4 (addresses and ports), l3 (addresses), none
  queue             by a table of 128 rows, indexed by the hash's low 7 bits
A line that is no use, or a frame that the NIC drops, gives
{\"id\",\"error\":{\"code\",\"name\",\"remedy\"}}, and the stream goes on.

Example:
  $ tsonic classify --nic model <<'END'
  {\"id\":1,\"frame\":\"02000000000202000000000108004500002c00014000400626b70a0900010a090002c000138900000001000000015010ffffde6200007061796c\"}
  END
  {\"hash\":\"c8206a3f\",\"hash_kind\":\"l4\",\"id\":1,\"ip_csum\":\"ok\",\"l4_csum\":\"ok\",\"queue\":3}";

/// Longest wait for a frame, on the NIC's clock: a hundred times what the longest
/// frame takes.
const WAIT: Nanos = Nanos::from_millis(2);

/// Runs the command up to the end of standard input.
///
/// # Errors
/// Those of standard input and output, and when there is no such NIC.
pub fn run(args: &Args) -> Result<(), CliError> {
    let mut bench = Bench::new(args.nic, args.queues)?;
    jsonl::run(io::stdin().lock(), io::stdout().lock(), |line| {
        bench.classify(line)
    })?;
    Ok(())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(deserialize_with = "jsonl::hex_bytes")]
    frame: Vec<u8>,
    key: Option<String>,
}

fn rss_key(key: Option<String>) -> Result<[u8; RSS_KEY], Failure> {
    let Some(text) = key else {
        return Ok(RSS_KEY_DEFAULT);
    };
    let mut key = [0; RSS_KEY];
    hex::decode_to_slice(&text, &mut key)
        .map_err(|e| Failure::bad_input(format!("key: {RSS_KEY} bytes in hex are wanted: {e}")))?;
    Ok(key)
}

/// A NIC with all of its receive queues in use.
struct Bench {
    device: NicDevice,
    far: FarEnd,
    rx: Vec<RxQueue>,
    queues: u16,
    /// The key that the NIC has.
    key: [u8; RSS_KEY],
    /// Its counters when a frame was last dropped.
    dropped: Dropped,
}

/// Counters of dropped frames.
#[derive(Clone, Copy, Default)]
struct Dropped {
    no_buffer: u64,
    errors: u64,
}

impl Bench {
    fn new(nic: NicKind, queues: u16) -> Result<Bench, RigError> {
        let (mut device, far) = rig::open(nic.build_at_least(queues)?)?;
        let config = RxConfig {
            ring_log2: RING_LOG2_MIN as u8,
            completion_log2: RING_LOG2_MIN as u8,
            ..RxConfig::default()
        };
        let rx = (0..queues)
            .map(|q| device.open_rx(QueueId(q), config))
            .collect::<Result<_, _>>()?;
        let key = RSS_KEY_DEFAULT;
        device.set_rss(&key, &NicDevice::rss_round_robin(queues))?;
        device.start()?;
        Ok(Bench {
            device,
            far,
            rx,
            queues,
            key,
            dropped: Dropped::default(),
        })
    }

    fn classify(&mut self, request: Request) -> Result<Map<String, Value>, Failure> {
        let line: Line = request.parse()?;
        let key = rss_key(line.key)?;
        let bytes = line.frame.len();
        if bytes == 0 {
            return Err(Failure::bad_input("the frame has no byte"));
        }
        if bytes > usize::from(u16::MAX) {
            return Err(Status::RxTooLong.into());
        }
        if key != self.key {
            let table = NicDevice::rss_round_robin(self.queues);
            self.device.set_rss(&key, &table).map_err(Failure::unable)?;
            self.key = key;
        }
        self.far.give(line.frame);
        let Some(meta) = self.receive().map_err(Failure::unable)? else {
            return Err(self.why_dropped(bytes).unwrap_or_else(Failure::unable));
        };
        answer(&json!({
            "ip_csum": verdict(meta.ip_checksum),
            "l4_csum": verdict(meta.l4_checksum),
            "hash": meta.hash.map(|h| format!("{h:08x}")),
            "hash_kind": match meta.hash_kind {
                HashKind::L4 => "l4",
                HashKind::L3 => "l3",
                HashKind::None => "none",
            },
            "queue": meta.queue.0,
        }))
    }

    /// What the NIC says of the frame on its way; `None` when it drops it.
    fn receive(&mut self) -> Result<Option<RxMeta>, DriverError> {
        let mut got = None;
        let end = self.device.now() + WAIT;
        loop {
            let wake = self.device.wait(Some(end))?;
            for q in &mut self.rx {
                q.receive(usize::MAX, |_, meta| got = Some(*meta));
                q.flush(self.device.function())?;
            }
            if got.is_some() || wake != Wake::Completion {
                return Ok(got);
            }
        }
    }

    /// Why a frame of so many bytes was dropped, by the NIC's counters.
    fn why_dropped(&mut self, bytes: usize) -> Result<Failure, DriverError> {
        let mut now = Dropped::default();
        for (name, value) in self.device.counters()? {
            if name == global::RX_NO_BUFFER.name {
                now.no_buffer = value;
            } else if name == global::RX_ERRORS.name {
                now.errors = value;
            }
        }
        let before = std::mem::replace(&mut self.dropped, now);
        Ok(if bytes > RX_FRAME_MAX {
            Status::RxTooLong.into()
        } else if now.no_buffer > before.no_buffer {
            Status::RxNoBuffer.into()
        } else if now.errors > before.errors {
            Failure::bad_input(format!("the NIC dropped the frame of {bytes} bytes"))
        } else {
            Failure::unable("the NIC said nothing of the frame")
        })
    }
}

const fn verdict(v: ChecksumVerdict) -> &'static str {
    match v {
        ChecksumVerdict::Ok => "ok",
        ChecksumVerdict::Bad => "bad",
        ChecksumVerdict::None => "none",
    }
}
