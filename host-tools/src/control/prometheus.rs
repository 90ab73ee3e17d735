// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters in Prometheus's text format over HTTP.
//!
//! Only `GET /metrics` is served, on one connection each: what a request may use up is
//! bounded in bytes and time, and so is the number of requests at once.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thiserror::Error;
use tsonic_driver::stats::{RxStats, TxStats};
use tsonic_host::control::Mailbox;
use tsonic_host::control::protocol::{Greeting, Reply, Request, Stats, TcpCounters};
use tsonic_tcp::stats::Counters;

/// Longest head of a request.
const HEAD_MAX: usize = 8 * 1024;
/// Header lines of a request.
const HEADERS_MAX: usize = 64;
/// How long a request may take.
const WAIT: Duration = Duration::from_secs(3);
/// Requests at once.
const CLIENTS_MAX: usize = 8;
/// Pause after a failed accept.
const PAUSE: Duration = Duration::from_millis(250);
/// Upper bounds of the histogram of segments per burst.
const BOUNDS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// Why counters are not served.
#[derive(Debug, Error)]
pub enum PrometheusError {
    /// The address cannot be had.
    #[error("--prometheus {at}: {source}; choose another address or port")]
    Listen {
        /// The address.
        at: SocketAddr,
        /// The operating system's answer.
        source: io::Error,
    },
}

/// The server. Dropping it ends it.
#[derive(Debug)]
pub struct Prometheus {
    at: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Prometheus {
    /// Listens at `at`; statistics come through `mailbox`.
    ///
    /// # Errors
    /// [`PrometheusError`].
    pub fn start(
        at: SocketAddr,
        mailbox: Mailbox,
        greeting: Greeting,
    ) -> Result<Prometheus, PrometheusError> {
        let failed = |source| PrometheusError::Listen { at, source };
        let listener = TcpListener::bind(at).map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        let stop = Arc::new(AtomicBool::new(false));
        let own = Arc::clone(&stop);
        let page = Arc::new((mailbox, greeting));
        let thread = std::thread::Builder::new()
            .name("tsonic-metrics".into())
            .spawn(move || accept(&listener, &page, &own))
            .map_err(failed)?;
        Ok(Prometheus {
            at: bound,
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let mut own = self.at;
        if own.ip().is_unspecified() {
            own.set_ip(match own {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        // Wakes the thread from its wait for a client.
        if TcpStream::connect_timeout(&own, WAIT).is_ok()
            && let Some(thread) = self.thread.take()
        {
            // It holds nothing that could be lost.
            let _ = thread.join();
        }
    }
}

fn accept(listener: &TcpListener, page: &Arc<(Mailbox, Greeting)>, stop: &AtomicBool) {
    let clients = Arc::new(AtomicUsize::new(0));
    loop {
        let client = listener.accept();
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let stream = match client {
            Ok((stream, _)) => stream,
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Err(_) => {
                std::thread::sleep(PAUSE);
                continue;
            }
        };
        if clients.fetch_add(1, Ordering::Relaxed) >= CLIENTS_MAX {
            clients.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (own, page) = (Arc::clone(&clients), Arc::clone(page));
        let started = std::thread::Builder::new()
            .name("tsonic-scrape".into())
            .spawn(move || {
                if let Err(error) = serve(stream, &page.0, &page.1) {
                    tracing::debug!(%error, "a scrape failed");
                }
                own.fetch_sub(1, Ordering::Relaxed);
            });
        if started.is_err() {
            clients.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// What a request asks for.
enum Asked {
    Metrics { head_only: bool },
    Status(&'static str),
}

fn serve(mut stream: TcpStream, mailbox: &Mailbox, greeting: &Greeting) -> io::Result<()> {
    stream.set_write_timeout(Some(WAIT))?;
    let asked = read_head(&mut stream)?;
    let (status, body, head_only) = match asked {
        Asked::Status(status) => (status, format!("{status}\n"), false),
        Asked::Metrics { head_only } => match mailbox.ask(Request::Stats { connections: 0 }) {
            Ok((_, Ok(Reply::Stats(stats)))) => ("200 OK", page(&stats, greeting), head_only),
            Ok((_, Err(e))) | Err(e) => ("503 Service Unavailable", format!("{e}\n"), head_only),
            Ok(_) => ("500 Internal Server Error", String::new(), head_only),
        },
    };
    let mut answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    if !head_only {
        answer += &body;
    }
    stream.write_all(answer.as_bytes())
}

fn read_head(stream: &mut TcpStream) -> io::Result<Asked> {
    let started = Instant::now();
    let mut head = Vec::new();
    let mut block = [0; 1024];
    loop {
        let left = WAIT.saturating_sub(started.elapsed());
        if left.is_zero() {
            return Ok(Asked::Status("408 Request Timeout"));
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut block) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => head.extend_from_slice(&block[..n]),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        }
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&head) {
            Ok(httparse::Status::Complete(_)) => return Ok(asked(&request)),
            Ok(httparse::Status::Partial) if head.len() <= HEAD_MAX => {}
            Ok(httparse::Status::Partial) => {
                return Ok(Asked::Status("431 Request Header Fields Too Large"));
            }
            Err(_) => return Ok(Asked::Status("400 Bad Request")),
        }
    }
}

fn asked(request: &httparse::Request<'_, '_>) -> Asked {
    let path = request.path.unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default();
    match (request.method, path) {
        (Some(method @ ("GET" | "HEAD")), "/metrics") => Asked::Metrics {
            head_only: method == "HEAD",
        },
        (Some("GET" | "HEAD"), _) => Asked::Status("404 Not Found"),
        _ => Asked::Status("405 Method Not Allowed"),
    }
}

/// Families of samples, one after the other.
#[derive(Default)]
struct Page(String);

impl Page {
    /// Begins a family; `name` without `tsonic_`.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let help = help.trim().replace('\\', "\\\\").replace('\n', "\\n");
        // A string takes everything, here and below.
        let _ = writeln!(self.0, "# HELP tsonic_{name} {help}");
        let _ = writeln!(self.0, "# TYPE tsonic_{name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let _ = write!(self.0, "tsonic_{name}");
        for (i, (label, text)) in labels.iter().enumerate() {
            let open = if i == 0 { '{' } else { ',' };
            let text = text
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            let _ = write!(self.0, "{open}{label}=\"{text}\"");
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{close} {value}");
    }

    /// A family of one sample.
    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }
}

/// A name as Prometheus takes it.
fn name(text: &str) -> String {
    text.to_ascii_lowercase().replace('-', "_")
}

/// All counters.
fn page(s: &Stats, greeting: &Greeting) -> String {
    let mut p = Page::default();
    p.family("info", "gauge", "What runs: always 1.");
    let nic = &greeting.nic;
    let labels = [
        ("version", greeting.version.as_str()),
        ("role", greeting.role.as_str()),
        ("nic", nic.kind.as_str()),
        ("contract", nic.contract.as_str()),
    ];
    p.sample("info", &labels, 1);
    p.one(
        "engine_time_seconds",
        "gauge",
        "The engine's time: the NIC's clock.",
        s.engine_time_ns as f64 / 1e9,
    );
    tcp(&mut p, s);
    engine(&mut p, s);
    queues(&mut p, s);
    p.one(
        "fq_flows",
        "gauge",
        "Flows that have a row of the NIC's flow table.",
        s.fq.flows,
    );
    p.one(
        "fq_flow_slots",
        "gauge",
        "Rows of the NIC's flow table that flows can have.",
        s.fq.flow_slots,
    );
    for (counter, n) in &s.device {
        let help = format!(
            "Register {} of the NIC.",
            name(counter).to_ascii_uppercase()
        );
        p.one(
            &format!("device_{}_total", name(counter)),
            "counter",
            &help,
            n,
        );
    }
    p.0
}

fn tcp(p: &mut Page, s: &Stats) {
    let tenants: Vec<(String, &TcpCounters)> = s
        .tenants
        .iter()
        .map(|t| (t.tenant.to_string(), &t.counters))
        .collect();
    for (i, (counter, help)) in Counters::HELP.iter().enumerate() {
        let family = format!("tcp_{counter}_total");
        p.family(&family, "counter", help);
        for (tenant, counters) in &tenants {
            let value = counters.iter().nth(i).map_or(0, |(_, n)| n);
            p.sample(&family, &[("tenant", tenant)], value);
        }
    }
    let family = "tcp_burst_segments";
    p.family(family, "histogram", "Segments of bursts with payload.");
    for (tenant, c) in &tenants {
        let bins = &c.segments_per_burst_histogram;
        for bound in BOUNDS {
            let n: u64 = bins.range(..=bound).map(|(_, n)| n).sum();
            let le = bound.to_string();
            let labels = [("tenant", tenant.as_str()), ("le", &le)];
            p.sample("tcp_burst_segments_bucket", &labels, n);
        }
        let labels = [("tenant", tenant.as_str()), ("le", "+Inf")];
        p.sample("tcp_burst_segments_bucket", &labels, c.bursts);
        p.sample("tcp_burst_segments_sum", &labels[..1], c.segments);
        p.sample("tcp_burst_segments_count", &labels[..1], c.bursts);
    }
}

fn engine(p: &mut Page, s: &Stats) {
    let e = &s.engine;
    for (gauge, help, value) in [
        (
            "connections",
            "Connections, closing ones included.",
            e.connections,
        ),
        ("bursts_in_nic", "Bursts in the NIC.", e.bursts_in_nic),
        (
            "chunks_free",
            "Chunks of payload memory that are free.",
            e.chunks_free,
        ),
        (
            "reserves_left",
            "Connections that could still be opened before all send memory is promised.",
            e.reserves_left,
        ),
    ] {
        p.one(&format!("engine_{gauge}"), "gauge", help, value);
    }
    for (counter, help, value) in [
        ("frames_in", "Frames received.", e.frames_in),
        (
            "frames_ignored",
            "Frames that were for nobody here, or no valid frames.",
            e.frames_ignored,
        ),
        (
            "bad_checksums",
            "Frames with a bad checksum.",
            e.bad_checksums,
        ),
        (
            "resets_out",
            "Resets sent to segments without a connection.",
            e.resets_out,
        ),
        (
            "syn_drops",
            "SYNs dropped as a backlog or the connection table was full.",
            e.syn_drops,
        ),
        (
            "refused",
            "Connections refused with a reset: all send memory was promised to others.",
            e.refused,
        ),
        (
            "share_stops",
            "Writes cut short by the connection's share of the send memory.",
            e.share_stops,
        ),
        ("echoes", "Echo requests answered.", e.echoes),
        (
            "control_drops",
            "Frames of the engine itself dropped for lack of room.",
            e.control_drops,
        ),
        (
            "stale_completions",
            "Completions that named no burst.",
            e.stale_completions,
        ),
    ] {
        p.one(&format!("engine_{counter}_total"), "counter", help, value);
    }
}

fn queues(p: &mut Page, s: &Stats) {
    let labelled = |side: &str, q: u16| format!("{side}-{q}");
    for (side, all) in [("tx", TxStats::HELP), ("rx", RxStats::HELP)] {
        for (counter, help) in all {
            let family = format!("{counter}_total");
            p.family(&family, "counter", help);
            for q in &s.queues {
                let of = if side == "tx" { &q.tx } else { &q.rx };
                let n = of.get(&counter.replace('_', "-")).copied().unwrap_or(0);
                p.sample(&family, &[("queue", &labelled(side, q.queue))], n);
            }
        }
    }
    p.family(
        "queue_bursts_total",
        "counter",
        "Bursts with payload that the engine gave the queue.",
    );
    for q in &s.queues {
        p.sample(
            "queue_bursts_total",
            &[("queue", &labelled("tx", q.queue))],
            q.bursts,
        );
    }
    p.family(
        "queue_outstanding",
        "gauge",
        "Bursts of the queue in the device.",
    );
    for q in &s.queues {
        p.sample(
            "queue_outstanding",
            &[("queue", &labelled("tx", q.queue))],
            q.outstanding,
        );
    }
    type Word = fn(&tsonic_host::control::protocol::QueueBql) -> Option<u64>;
    let words: [(&str, &str, &str, Word); 4] = [
        (
            "bql_limit_bytes",
            "gauge",
            "Limit of the queue's byte budget.",
            |b| b.limit,
        ),
        (
            "bql_inflight_bytes",
            "gauge",
            "Bytes charged to the queue's byte budget.",
            |b| b.inflight,
        ),
        ("bql_stalls_total", "counter", "Stalls of the queue.", |b| {
            b.stall_cnt
        }),
        (
            "bql_stall_max_milliseconds",
            "gauge",
            "Longest stall of the queue.",
            |b| b.stall_max,
        ),
    ];
    for (family, kind, help, word) in words {
        let told = |q: &tsonic_host::control::protocol::QueueStats| {
            let budget = q.byte_queue_limits.as_ref().filter(|b| b.active)?;
            Some((q.queue, word(budget)?))
        };
        let values: Vec<(u16, u64)> = s.queues.iter().filter_map(told).collect();
        // What the NIC does not report has no family.
        if values.is_empty() {
            continue;
        }
        p.family(family, kind, help);
        for (q, value) in values {
            p.sample(family, &[("queue", &labelled("tx", q))], value);
        }
    }
}
