// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tsonic segment`: one burst a line through a whole NIC, and back the frames that
//! left it. No logic of its own: the driver posts, the NIC segments.

use crate::CliError;
use crate::jsonl::{self, Failure, Request, answer};
use crate::nics::NicKind;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::io;
use tsonic_bench::rig::{self, FarEnd, NicDevice, RigError};
use tsonic_driver::{
    ChunkPool, FlowTable, Fragment, Kind, PostError, TxBurst, TxCompletion, TxConfig, TxQueue,
};
use tsonic_pci::Wake;
use tsonic_regs::Status;
use tsonic_regs::limits::{L2_LEN_MIN, RING_LOG2_MIN};
use tsonic_types::{FlowSlot, Nanos, QueueId};

/// Cut bursts into frames with a whole NIC, as JSON lines.
///
/// Reads one JSON object a line from standard input, posts its frame as one burst
/// and answers with the frames that left the NIC, in order, without padding and FCS.
/// The same NIC serves all lines.
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub struct Args {
    /// Which NIC. The model takes segments of up to 65,535 payload bytes, the RTL
    /// of up to 16,000.
    #[arg(long, value_enum)]
    nic: NicKind,
    /// Bits of the data path.
    #[arg(long, default_value = "64", value_parser = width)]
    width: u32,
}

const HELP: &str = "\
Keys of a line (those in [brackets] may be left out):
  id       anything; echoed
  frame    lower-case hex, Ethernet header first: the headers, then the payload of the
           whole burst (up to 262,143 bytes). Lengths and checksums in the headers may
           hold anything
  kind     tso (TCP segmentation), uso (UDP segmentation; the model only), csum (one
           frame, checksums finished)
  mss      payload bytes of a segment; not needed for csum
  [ip_id]  inc (default: the IPv4 identification counts up), fixed
  [cwr]    first (default: CWR stays on the first segment), all
  l2_len l3_len l4_len
           bytes of each header; l2_len with VLAN tags, l3_len with IPv6 extension
           headers, l4_len with TCP options (8 is UDP)
Answer: {\"id\",\"frames\":[hex,...]}
A line that is no use, or a burst that the NIC refuses, gives
{\"id\",\"error\":{\"code\",\"name\",\"remedy\"}}, and the stream goes on.

Example (8 payload bytes behind 54 of Ethernet, IPv4 and TCP, in segments of 4):
  $ tsonic segment --nic model <<'END'
  {\"id\":1,\"frame\":\"02000000000202000000000108004500000000014000400600000a0900010a090002c000138900000001000000015018ffff000000007061796c6f616421\",\"kind\":\"tso\",\"mss\":4,\"l2_len\":14,\"l3_len\":20,\"l4_len\":20}
  END";

/// Longest wait for a burst, on the NIC's clock. The longest burst with an mss of 1
/// takes some 20 ms at the width of the data path.
const WAIT: Nanos = Nanos::from_millis(1_000);
/// Chunks of payload memory, so that long bursts have many fragments.
const CHUNKS: usize = 16;
const CHUNK_BYTES: usize = 16_384;

fn width(text: &str) -> Result<u32, String> {
    match text {
        "64" => Ok(64),
        _ => Err("the only data path there is has 64 bits".into()),
    }
}

/// Runs the command up to the end of standard input.
///
/// # Errors
/// Those of standard input and output, and when there is no such NIC.
pub fn run(args: &Args) -> Result<(), CliError> {
    let mut bench = Bench::new(args.nic)?;
    jsonl::run(io::stdin().lock(), io::stdout().lock(), |line| {
        bench.segment(line)
    })?;
    Ok(())
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum KindKey {
    Tso,
    Uso,
    Csum,
}

#[derive(Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum IpId {
    #[default]
    Inc,
    Fixed,
}

#[derive(Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Cwr {
    #[default]
    First,
    All,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(deserialize_with = "jsonl::hex_bytes")]
    frame: Vec<u8>,
    kind: KindKey,
    mss: Option<u64>,
    #[serde(default)]
    ip_id: IpId,
    #[serde(default)]
    cwr: Cwr,
    l2_len: u64,
    l3_len: u64,
    l4_len: u64,
}

/// The IP version at the start of a packet, if it is one.
fn ip_version(packet: &[u8]) -> Option<u8> {
    packet
        .first()
        .map(|b| b >> 4)
        .filter(|v| [4, 6].contains(v))
}

impl Line {
    /// Lengths of the headers as a descriptor holds them, and their sum.
    fn headers(&self) -> Result<(u8, u16, u8, usize), Failure> {
        let long = || Failure::from(Status::BadHeaderLength);
        let l2 = u8::try_from(self.l2_len).map_err(|_| long())?;
        let l3 = u16::try_from(self.l3_len).map_err(|_| long())?;
        let l4 = u8::try_from(self.l4_len).map_err(|_| long())?;
        let sum = usize::from(l2) + usize::from(l3) + usize::from(l4);
        if sum > self.frame.len() {
            return Err(Failure {
                status: Status::BadHeaderLength,
                detail: Some(format!(
                    "the headers have {sum} bytes, the frame {}",
                    self.frame.len()
                )),
            });
        }
        Ok((l2, l3, l4, sum))
    }

    /// The mss as a descriptor holds it; 0 when the payload is not cut.
    fn mss(&self, payload: usize) -> Result<u16, Failure> {
        let mss = match (&self.kind, self.mss) {
            (KindKey::Csum, _) => return Ok(0),
            (_, Some(mss)) => mss,
            (_, None) => return Err(Failure::bad_input("missing field `mss`")),
        };
        match u16::try_from(mss) {
            Ok(mss) => Ok(mss),
            // One segment, whatever it is beyond the payload.
            Err(_) if payload <= usize::from(u16::MAX) => Ok(u16::MAX),
            Err(_) => Err(Status::SegmentTooLarge.into()),
        }
    }
}

/// A NIC with one transmit queue in use.
struct Bench {
    device: NicDevice,
    far: FarEnd,
    tx: TxQueue,
    flows: FlowTable,
    pool: ChunkPool,
    chunks: Vec<u32>,
    /// The next burst's name.
    token: u64,
}

impl Bench {
    fn new(nic: NicKind) -> Result<Bench, RigError> {
        let (mut device, far) = rig::open(nic.build_for_frames(4)?)?;
        let config = TxConfig {
            ring_log2: RING_LOG2_MIN as u8,
            completion_log2: RING_LOG2_MIN as u8,
            ..TxConfig::default()
        };
        let tx = device.open_tx(QueueId(0), config)?;
        device.start()?;
        let mut pool = device.chunk_pool(CHUNKS as u32, CHUNK_BYTES as u32)?;
        Ok(Bench {
            chunks: std::iter::from_fn(|| pool.allocate()).collect(),
            flows: device.flow_table(),
            device,
            far,
            tx,
            pool,
            token: 0,
        })
    }

    fn segment(&mut self, request: Request) -> Result<Map<String, Value>, Failure> {
        let line: Line = request.parse()?;
        let (l2_len, l3_len, l4_len, header_len) = line.headers()?;
        let (header, payload) = line.frame.split_at(header_len);
        let version = ip_version(&line.frame[usize::from(l2_len)..]);
        let l2_legal = usize::from(l2_len) >= L2_LEN_MIN && l2_len.is_multiple_of(2);
        if version.is_none() && l2_legal && l3_len > 0 {
            let detail = format!("there is no IP header behind {l2_len} bytes (l2_len)");
            return Err(Failure::bad_input(detail));
        }
        let fragments = self.place(payload)?;
        self.token += 1;
        let burst = TxBurst {
            kind: match line.kind {
                KindKey::Tso => Kind::Tso,
                KindKey::Uso => Kind::Uso,
                KindKey::Csum => Kind::Csum,
            },
            ipv6: version == Some(6),
            ip_id_fixed: line.ip_id == IpId::Fixed,
            cwr_all: line.cwr == Cwr::All,
            complete_now: true,
            l2_len,
            l3_len,
            l4_len,
            mss: line.mss(payload.len())?,
            header,
            fragments: &fragments,
            flow: FlowSlot::UNPACED,
            rate: None,
            flow_limit: None,
            launch: None,
            token: self.token,
        };
        match self.tx.post(&mut self.flows, &burst) {
            Ok(()) => {}
            Err(PostError::Refused(status)) => return Err(status.into()),
            Err(other) => return Err(Failure::unable(other)),
        }
        let done = self.complete().map_err(Failure::unable)?;
        let frames = self.far.take();
        match done.as_ref().map(TxCompletion::status) {
            Some(Some(Status::Ok)) => {}
            Some(Some(status)) => return Err(status.into()),
            Some(None) => return Err(Failure::unable("the NIC gave a status that nobody knows")),
            None => return Err(Failure::unable("the NIC has lost the burst")),
        }
        let told = done.map_or(0, |d| d.segments);
        if told as usize != frames.len() {
            let left = frames.len();
            return Err(Failure::unable(format!(
                "{left} frames left the NIC, it says {told}"
            )));
        }
        let frames: Vec<String> = frames.iter().map(hex::encode).collect();
        answer(&json!({ "frames": frames }))
    }

    /// Writes a payload to the chunks.
    fn place(&mut self, payload: &[u8]) -> Result<Vec<Fragment>, Failure> {
        let most = self.device.info().max_payload as usize;
        if payload.len() > most.min(CHUNKS * CHUNK_BYTES) {
            return Err(Failure {
                status: Status::LengthMismatch,
                detail: Some(format!(
                    "the payload has {} bytes, a burst at most {most}",
                    payload.len()
                )),
            });
        }
        let map = self.pool.map();
        let pieces = payload.chunks(CHUNK_BYTES).zip(&self.chunks);
        Ok(pieces
            .filter_map(|(piece, chunk)| {
                self.pool.write(*chunk, 0, piece);
                map.fragment(*chunk, 0, piece.len() as u32)
            })
            .collect())
    }

    /// Waits for the completion of the burst just posted. A burst that the NIC
    /// keeps is taken out of it again.
    fn complete(&mut self) -> Result<Option<TxCompletion>, tsonic_driver::DriverError> {
        self.tx.flush(self.device.function())?;
        let token = self.token;
        let mut done = None;
        let end = self.device.now() + WAIT;
        loop {
            let each = |c: &TxCompletion| {
                if c.token == token {
                    done = Some(*c);
                }
            };
            self.tx.reap(&mut self.flows, usize::MAX, each);
            if done.is_some() {
                return Ok(done);
            }
            if self.device.wait(Some(end))? != Wake::Completion {
                break;
            }
        }
        let each = |c: &TxCompletion| {
            if c.token == token {
                done = Some(*c);
            }
        };
        self.device.reset_tx(&mut self.tx, &mut self.flows, each)?;
        Ok(done)
    }
}
