// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tsonic explain`: the arithmetic of burst sizing, pacing, queue limits, queue
//! selection and congestion control, one question a line. No logic of its own:
//! the engine and the NIC model run the same functions.

use crate::CliError;
use crate::jsonl::{self, Failure, Request, answer, nullable};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::io;
use tsonic_regs::Status;
use tsonic_sim::dql::{Dql, MAX_LIMIT};
use tsonic_tcp::arith::codel::CodelQueue;
use tsonic_tcp::arith::min_rtt::MinFilter;
use tsonic_tcp::arith::pacing::{self, PacingInput};
use tsonic_tcp::arith::prr::{Prr, PrrAck};
use tsonic_tcp::arith::rtt::RttEstimator;
use tsonic_tcp::arith::tso::{self, Autosize, DeferInput, RTT_LOG_MAX, Split};
use tsonic_tcp::arith::tsq::{self, LimitInput};
use tsonic_tcp::arith::txq::{self, CachedQueue, XpsMap};
use tsonic_tcp::arith::{dctcp, paws};

/// Answer questions about the transmit path's arithmetic, as JSON lines.
///
/// Reads one JSON object a line from standard input: `id` (echoed), `fn` and the
/// function's keys. Writes one a line. A key in brackets may be left out.
/// Rates are bytes per second; null in a key is said where it means something.
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub struct Args {}

const HELP: &str = "\
Functions, their keys -> keys of the answer:
  tso_autosize      pacing_rate mss gso_max [min_rtt_us: null, no sample]
                    rtt_log (0..31, null: off) min_segs max_segs [shift: 10] -> segs
  cwnd_quota        cwnd in_flight -> segs
  split_point       len mss segs window tail partial_blocked -> bytes
  should_defer      in_recovery now_ns wstamp_ns in_flight cwnd snd_wnd wnd_left mss segs
                    len tail win_divisor [head_sent_ns: null, nothing in flight] srtt8_us
                    fin_or_eor -> defer cwnd_limited rwnd_limited
  win_divisor_2004  mss cwnd divisor header_len -> segs
  pacing_rate       mss cwnd packets_out ssthresh srtt8_us [ss_ratio: 200] [ca_ratio: 120]
                    [max: null, unlimited] -> rate
  tsq_limit         truesize pacing_rate cap [shift: 10] [factor: 0] [tx_delay_us: 0] -> bytes
  tsq_gate          outstanding (with the bias of 1) limit rtx_queue
                    [outstanding_again: outstanding] -> blocked throttled
  tsq_bql           bql_limit bql_inflight one_burst -> bytes
  edt_step          len [rate: null, unpaced] wstamp_ns now_ns segs_out
                    -> departure_ns wstamp_ns
  dql               hold [min: 0] [max: 1879048192] [now: 0] [limit: 0]
                    events:[[\"q\",bytes,t] or [\"c\",bytes,t],...]
                    -> steps:[{limit,avail,inflight},...]
  xps               queues cpus_per_queue reselection_ms now_ms
                    events:[{t_ms,cpu,ooo_okay,[queues],[hash: 0]},...] -> queues:[...]
  min_rtt           window_s samples:[[t_s,rtt_us],...] -> min:[...]
  rtt               [rto_min_us: 200000] [rto_max_us: 120000000] samples_us:[...]
                    -> srtt8:[...] rto_us:[...]
  prr               ssthresh prior_cwnd acks:[{in_flight,newly,lost,una_advanced},...]
                    -> steps:[{sndcnt,cwnd},...]
  dctcp             windows:[[delivered,ce],...] -> alpha:[...] (in 1/1024, from 1024)
  paws              ts_recent tsval age_s -> accept
  codel             target_ticks interval_ticks events:[[\"e\",t,bytes] or [\"d\",t],...]
                    -> deq:[{drop,delay},...] (delay null: nothing to deliver)

Numbers are integers: from 0 to 2^64-1, except the 32-bit ones (0 to 2^32-1) shift, factor,
min, max and limit of dql, bytes of its events, cpus_per_queue, reselection_ms, cpu, hash,
ts_recent, tsval, target_ticks and interval_ticks, and queues (1 to 65535). mss, min_segs,
max_segs, queues and cpus_per_queue are 1 at least. true or false: tail partial_blocked
in_recovery fin_or_eor ooo_okay una_advanced. An error names the key and what it takes.

A bad line gives {\"id\",\"error\":{\"code\",\"name\",\"remedy\"}}, and the stream goes on.

Example:
  $ echo '{\"id\":1,\"fn\":\"cwnd_quota\",\"cwnd\":10,\"in_flight\":4}' | tsonic explain
  {\"id\":1,\"segs\":5}";

/// Runs the command up to the end of standard input.
///
/// # Errors
/// Those of standard input and output.
pub fn run(_: &Args) -> Result<(), CliError> {
    jsonl::run(io::stdin().lock(), io::stdout().lock(), explain)?;
    Ok(())
}

type Answer = Result<Map<String, Value>, Failure>;
type Function = fn(Request) -> Answer;

/// Every function by name.
const FUNCTIONS: &[(&str, Function)] = &[
    ("tso_autosize", tso_autosize),
    ("cwnd_quota", cwnd_quota),
    ("split_point", split_point),
    ("should_defer", should_defer),
    ("win_divisor_2004", win_divisor_2004),
    ("pacing_rate", pacing_rate),
    ("tsq_limit", tsq_limit),
    ("tsq_gate", tsq_gate),
    ("tsq_bql", tsq_bql),
    ("edt_step", edt_step),
    ("dql", dql),
    ("xps", xps),
    ("min_rtt", min_rtt),
    ("rtt", rtt),
    ("prr", prr),
    ("dctcp", dctcp),
    ("paws", paws),
    ("codel", codel),
];

/// Answers one line.
fn explain(mut request: Request) -> Answer {
    let name = match request.take("fn") {
        Some(Value::String(name)) => name,
        Some(_) => return Err(Failure::bad_input("`fn` is not a string")),
        None => return Err(Failure::bad_input("missing field `fn`")),
    };
    match FUNCTIONS.iter().find(|(known, _)| *known == name) {
        Some((_, function)) => function(request),
        None => Err(Failure {
            status: Status::UnknownFunction,
            detail: Some(format!("`{name}` is no function")),
        }),
    }
}

fn at_least_one(name: &str, value: u64) -> Result<(), Failure> {
    if value == 0 {
        return Err(Failure::bad_input(format!("`{name}` is 0")));
    }
    Ok(())
}

fn nonzero_mss(mss: u64) -> Result<(), Failure> {
    if mss == 0 {
        return Err(Status::MssZero.into());
    }
    Ok(())
}

const fn ten() -> u32 {
    10
}

fn tso_autosize(request: Request) -> Answer {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Keys {
        pacing_rate: u64,
        mss: u64,
        gso_max: u64,
        #[serde(default)]
        min_rtt_us: Option<u64>,
        #[serde(deserialize_with = "nullable")]
        rtt_log: Option<u8>,
        min_segs: u64,
        max_segs: u64,
        #[serde(default = "ten")]
        shift: u32,
    }
    let k: Keys = request.parse()?;
    nonzero_mss(k.mss)?;
    at_least_one("min_segs", k.min_segs)?;
    at_least_one("max_segs", k.max_segs)?;
    if k.rtt_log.is_some_and(|log| log > RTT_LOG_MAX) {
        return Err(Failure::bad_input(format!(
            "`rtt_log` exceeds {RTT_LOG_MAX}"
        )));
    }
    let segs = tso::autosize(&Autosize {
        pacing_rate: k.pacing_rate,
        mss: k.mss,
        gso_max: k.gso_max,
        min_rtt_us: k.min_rtt_us,
        rtt_log: k.rtt_log,
        min_segs: k.min_segs,
        max_segs: k.max_segs,
        shift: k.shift,
    });
    answer(&json!({ "segs": segs }))
}

fn cwnd_quota(request: Request) -> Answer {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Keys {
        cwnd: u64,
        in_flight: u64,
    }
    let k: Keys = request.parse()?;
    answer(&json!({ "segs": tso::cwnd_quota(k.cwnd, k.in_flight) }))
}

fn split_point(request: Request) -> Answer {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Keys {
        len: u64,
        mss: u64,
        segs: u64,
        window: u64,
        tail: bool,
        partial_blocked: bool,
    }
    let k: Keys = request.parse()?;
    nonzero_mss(k.mss)?;
    let bytes = tso::split_point(&Split {
        len: k.len,
        mss: k.mss,
        segs: k.segs,
        window: k.window,
        tail: k.tail,
        partial_blocked: k.partial_blocked,
    });
    answer(&json!({ "bytes": bytes }))
}

fn should_defer(request: Request) -> Answer {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Keys {
        in_recovery: bool,
        now_ns: u64,
        wstamp_ns: u64,
        in_flight: u64,
        cwnd: u64,
        snd_wnd: u64,
        wnd_left: u64,
        mss: u64,
        segs: u64,
        len: u64,
        tail: bool,
        win_divisor: u64,
        #[serde(default)]
        head_sent_ns: Option<u64>,
        srtt8_us: u64,
        fin_or_eor: bool,
    }
    let k: Keys = request.parse()?;
    let verdict = tso::should_defer(&DeferInput {
        in_recovery: k.in_recovery,
        now_ns: k.now_ns,
        wstamp_ns: k.wstamp_ns,
        in_flight: k.in_flight,
        cwnd: k.cwnd,
        snd_wnd: k.snd_wnd,
        wnd_left: k.wnd_left,
        mss: k.mss,
        segs: k.segs,
        len: k.len,
        tail: k.tail,
        win_divisor: k.win_divisor,
        head_sent_ns: k.head_sent_ns,
        srtt8_us: k.srtt8_us,
        fin_or_eor: k.fin_or_eor,
    });
    answer(&json!({
        "defer": verdict.defer,
        "cwnd_limited": verdict.cwnd_limited,
        "rwnd_limited": verdict.rwnd_limited,
    }))
}

fn win_divisor_2004(request: Request) -> Answer {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Keys {
        mss: u64,
        cwnd: u64,
        divisor: u64,
        header_len: u64,
    }
    let k: Keys = request.parse()?;
    nonzero_mss(k.mss)?;
    let segs = tso::win_divisor_2004(k.mss, k.cwnd, k.divisor, k.header_len);
    answer(&json!({ "segs": segs }))
}

fn pacing_rate(request: Request) -> Answer {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Keys {
        mss: u64,
        cwnd: u64,
        packets_out: u64,
        ssthresh: u64,
        srtt8_us: u64,
        #[serde(default = "ss_ratio")]
        ss_ratio: u64,
        #[serde(default = "ca_ratio")]
        ca_ratio: u64,
        #[serde(default)]
        max: Option<u64>,
    }
    const fn ss_ratio() -> u64 {
        200
    }
    const fn ca_ratio() -> u64 {
        120
    }
    let k: Keys = request.parse()?;
    let rate = pacing::pacing_rate(&PacingInput {
        mss: k.mss,
        cwnd: k.cwnd,
        packets_out: k.packets_out,
        ssthresh: k.ssthresh,
        srtt8_us: k.srtt8_us,
        ss_ratio: k.ss_ratio,
        ca_ratio: k.ca_ratio,
        max: k.max.unwrap_or(u64::MAX),
    });
    answer(&json!({ "rate": rate }))
}

fn tsq_limit(request: Request) -> Answer {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Keys {
        truesize: u64,
        pacing_rate: u64,
        cap: u64,
        #[serde(default = "ten")]
        shift: u32,
        #[serde(default)]
        factor: u32,
        #[serde(default)]
        tx_delay_us: u64,
    }
    let k: Keys = request.parse()?;
    let bytes = tsq::limit(&LimitInput {
        truesize: k.truesize,
        pacing_rate: k.pacing_rate,
        cap: k.cap,
        shift: k.shift,
        factor: k.factor,
        tx_delay_us: k.tx_delay_us,
    });
    answer(&json!({ "bytes": bytes }))
}

fn tsq_gate(request: Request) -> Answer {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Keys {
        outstanding: u64,
        limit: u64,
        rtx_queue: u64,
        outstanding_again: Option<u64>,
    }
    let k: Keys = request.parse()?;
    let again = k.outstanding_again.unwrap_or(k.outstanding);
    let gate = tsq::gate(k.outstanding, k.limit, k.rtx_queue, again);
    answer(&json!({ "blocked": gate.blocked, "throttled": gate.throttled }))
}

fn tsq_bql(request: Request) -> Answer {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Keys {
        bql_limit: u64,
        bql_inflight: u64,
        one_burst: u64,
    }
    let k: Keys = request.parse()?;
    let bytes = tsq::bql_room(k.bql_limit, k.bql_inflight, k.one_burst);
    answer(&json!({ "bytes": bytes }))
}

fn edt_step(request: Request) -> Answer {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Keys {
        len: u64,
        #[serde(default)]
        rate: Option<u64>,
        wstamp_ns: u64,
        now_ns: u64,
        segs_out: u64,
    }
    let k: Keys = request.parse()?;
    let step = pacing::edt_step(k.len, k.rate, k.wstamp_ns, k.now_ns, k.segs_out);
    answer(&json!({ "departure_ns": step.departure_ns, "wstamp_ns": step.wstamp_ns }))
}

fn dql(request: Request) -> Answer {
    #[derive(Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Event {
        /// Queued.
        Q,
        /// Completed.
        C,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Keys {
        hold: u64,
        #[serde(default)]
        min: u32,
        #[serde(default = "max_limit")]
        max: u32,
        #[serde(default)]
        now: u64,
        #[serde(default)]
        limit: u32,
        events: Vec<(Event, u32, u64)>,
    }
    const fn max_limit() -> u32 {
        MAX_LIMIT
    }
    let k: Keys = request.parse()?;
    let mut dql = Dql::new(k.limit, k.min, k.max, k.hold, k.now);
    let mut steps = Vec::with_capacity(k.events.len());
    for (i, (event, bytes, t)) in k.events.into_iter().enumerate() {
        match event {
            Event::Q => dql.queue(bytes),
            Event::C => dql.complete(bytes, t),
        }
        .map_err(|e| Failure::bad_input(format!("event {i}: {e}")))?;
        steps.push(json!({
            "limit": dql.limit(), "avail": dql.avail(), "inflight": dql.inflight(),
        }));
    }
    answer(&json!({ "steps": steps }))
}

/// Milliseconds as the cached queue counts them: modulo 2^32.
const fn wrapping_ms(ms: u64) -> u32 {
    ms as u32
}

fn xps(request: Request) -> Answer {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Event {
        t_ms: u64,
        cpu: u32,
        ooo_okay: bool,
        queues: Option<u16>,
        #[serde(default)]
        hash: u32,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Keys {
        queues: u16,
        cpus_per_queue: u32,
        reselection_ms: u32,
        /// Where the clock starts; no flow has chosen before, so nothing depends
        /// on it.
        #[serde(rename = "now_ms")]
        _now_ms: u64,
        events: Vec<Event>,
    }
    let k: Keys = request.parse()?;
    at_least_one("queues", u64::from(k.queues))?;
    at_least_one("cpus_per_queue", u64::from(k.cpus_per_queue))?;
    let map = XpsMap::Blocks {
        queues: k.queues,
        cores_per_queue: k.cpus_per_queue,
    };
    let mut cached = CachedQueue::new();
    let mut queues = Vec::with_capacity(k.events.len());
    for event in k.events {
        let real = event.queues.unwrap_or(k.queues);
        at_least_one("queues", u64::from(real))?;
        let now = wrapping_ms(event.t_ms);
        let (queue, _) = cached.pick(now, k.reselection_ms, event.ooo_okay, real, || {
            txq::select(&map, event.cpu, event.hash, real)
        });
        queues.push(queue);
    }
    answer(&json!({ "queues": queues }))
}

fn min_rtt(request: Request) -> Answer {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Keys {
        window_s: u64,
        samples: Vec<(u64, u64)>,
    }
    let k: Keys = request.parse()?;
    let mut filter = MinFilter::new(k.window_s);
    let min: Vec<u64> = k
        .samples
        .into_iter()
        .map(|(t, rtt)| filter.update(t, rtt))
        .collect();
    answer(&json!({ "min": min }))
}

fn rtt(request: Request) -> Answer {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Keys {
        #[serde(default = "rto_min")]
        rto_min_us: u64,
        #[serde(default = "rto_max")]
        rto_max_us: u64,
        samples_us: Vec<u64>,
    }
    const fn rto_min() -> u64 {
        200_000
    }
    const fn rto_max() -> u64 {
        120_000_000
    }
    let k: Keys = request.parse()?;
    let mut estimator = RttEstimator::new(k.rto_min_us, k.rto_max_us);
    let (mut srtt8, mut rto) = (Vec::new(), Vec::new());
    for sample in k.samples_us {
        estimator.sample(sample, true);
        srtt8.push(estimator.srtt8_us());
        rto.push(estimator.rto_us());
    }
    answer(&json!({ "srtt8": srtt8, "rto_us": rto }))
}

fn prr(request: Request) -> Answer {
    /// Segments newly lost, or just whether there are any.
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Lost {
        Any(bool),
        Count(u64),
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Ack {
        in_flight: u64,
        newly: u64,
        lost: Lost,
        una_advanced: bool,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Keys {
        ssthresh: u64,
        prior_cwnd: u64,
        acks: Vec<Ack>,
    }
    let k: Keys = request.parse()?;
    at_least_one("prior_cwnd", k.prior_cwnd)?;
    let mut prr = Prr::new(k.ssthresh, k.prior_cwnd);
    let steps: Vec<Value> = k
        .acks
        .into_iter()
        .map(|ack| {
            let step = prr.on_ack(PrrAck {
                in_flight: ack.in_flight,
                newly: ack.newly,
                lost: match ack.lost {
                    Lost::Any(any) => any,
                    Lost::Count(count) => count > 0,
                },
                una_advanced: ack.una_advanced,
            });
            // All that may go goes.
            prr.on_sent(step.sndcnt);
            json!({ "sndcnt": step.sndcnt, "cwnd": step.cwnd })
        })
        .collect();
    answer(&json!({ "steps": steps }))
}

fn dctcp(request: Request) -> Answer {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Keys {
        windows: Vec<(u64, u64)>,
    }
    let k: Keys = request.parse()?;
    let mut alpha = dctcp::ALPHA_ONE;
    let alphas: Vec<u64> = k
        .windows
        .into_iter()
        .map(|(delivered, ce)| {
            alpha = dctcp::update_alpha(alpha, delivered, ce);
            alpha
        })
        .collect();
    answer(&json!({ "alpha": alphas }))
}

fn paws(request: Request) -> Answer {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Keys {
        ts_recent: u32,
        tsval: u32,
        age_s: u64,
    }
    let k: Keys = request.parse()?;
    answer(&json!({ "accept": paws::accept(k.ts_recent, k.tsval, k.age_s) }))
}

/// Bytes of backlog that CoDel leaves alone: one Ethernet frame.
const CODEL_MTU: u64 = 1_514;

fn codel(request: Request) -> Answer {
    #[derive(Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Enqueue {
        E,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Dequeue {
        D,
    }
    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "an event is neither [\"e\",t,bytes] nor [\"d\",t]"
    )]
    enum Event {
        Enqueue(Enqueue, u64, u64),
        Dequeue(Dequeue, u64),
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Keys {
        target_ticks: u32,
        interval_ticks: u32,
        events: Vec<Event>,
    }
    let k: Keys = request.parse()?;
    let mut queue = CodelQueue::new(k.target_ticks, k.interval_ticks, CODEL_MTU);
    let mut deq = Vec::new();
    for event in k.events {
        match event {
            // CoDel's clock counts modulo 2^32.
            Event::Enqueue(Enqueue::E, t, bytes) => queue.enqueue(t as u32, bytes),
            Event::Dequeue(Dequeue::D, t) => {
                let d = queue.dequeue(t as u32);
                deq.push(json!({ "drop": d.dropped, "delay": d.delay }));
            }
        }
    }
    answer(&json!({ "deq": deq }))
}
