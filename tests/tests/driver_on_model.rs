// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver on the NIC's model, with a far end that sends every frame back.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tsonic_driver::{
    ChecksumVerdict, ChunkPool, Device, FlowTable, Fragment, Kind, RSS_KEY_DEFAULT, RxConfig,
    RxQueue, Status, TxBurst, TxCompletion, TxConfig, TxQueue,
};
use tsonic_pci::Wake;
use tsonic_sim::inproc::InprocFunction;
use tsonic_sim::model::{Model, ModelConfig};
use tsonic_sim::root_complex::RootComplexConfig;
use tsonic_sim::world::{LinkConfig, Peer, World};
use tsonic_types::{ByteRate, FlowSlot, Nanos, QueueId, Ticks};

/// Sends every frame back as it is.
#[derive(Default)]
struct Echo {
    frames: VecDeque<Vec<u8>>,
    due: Ticks,
}

impl Peer for Echo {
    fn receive(&mut self, now: Ticks, frame: &[u8]) {
        self.frames.push_back(frame.to_vec());
        self.due = now;
    }

    fn next_event(&self) -> Option<Ticks> {
        (!self.frames.is_empty()).then_some(self.due)
    }

    fn poll(&mut self, _: Ticks, send: &mut dyn FnMut(&[u8])) {
        for f in self.frames.drain(..) {
            send(&f);
        }
    }

    fn real_time(&self) -> bool {
        false
    }

    fn wait(&mut self, _: Duration) {}
}

const CHUNK: u32 = 65_536;
const MSS: u16 = 1_448;
const HEADER: usize = 54;

struct Rig {
    device: Device<InprocFunction>,
    tx: Vec<TxQueue>,
    rx: Vec<RxQueue>,
    flows: FlowTable,
    pool: ChunkPool,
    done: Vec<TxCompletion>,
    frames: Vec<Vec<u8>>,
}

/// Two queue pairs with small rings, so that they wrap.
fn rig() -> Rig {
    let config = ModelConfig {
        queues: 2,
        flow_slots: 32,
        ..ModelConfig::default()
    };
    let world = World::new(
        Box::new(Model::new(config)),
        RootComplexConfig::default(),
        LinkConfig::default(),
        Some(Box::new(Echo::default())),
    );
    let mut device = Device::open(InprocFunction::new(world)).unwrap();
    let table = Device::<InprocFunction>::rss_round_robin(2);
    device.set_rss(&RSS_KEY_DEFAULT, &table).unwrap();
    let tx_config = TxConfig {
        ring_log2: 6,
        completion_log2: 7,
        ..TxConfig::default()
    };
    let queues = [QueueId(0), QueueId(1)];
    let tx = queues.map(|q| device.open_tx(q, tx_config).unwrap());
    let rx = queues.map(|q| device.open_rx(q, RxConfig::default()).unwrap());
    device.start().unwrap();
    let pool = device.chunk_pool(4, CHUNK).unwrap();
    Rig {
        flows: device.flow_table(),
        device,
        tx: tx.into(),
        rx: rx.into(),
        pool,
        done: Vec::new(),
        frames: Vec::new(),
    }
}

/// Ethernet, IPv4, TCP; checksums and lengths hold rubbish.
fn header(seq: u32, port: u16) -> [u8; HEADER] {
    let mut h = [0u8; HEADER];
    h[12..14].copy_from_slice(&[8, 0]);
    h[14] = 0x45;
    h[20] = 0x40;
    h[22..24].copy_from_slice(&[64, 6]);
    h[24..26].copy_from_slice(&[0xde, 0xad]);
    h[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    h[34..36].copy_from_slice(&port.to_be_bytes());
    h[36..38].copy_from_slice(&443u16.to_be_bytes());
    h[38..42].copy_from_slice(&seq.to_be_bytes());
    h[46..48].copy_from_slice(&[0x50, 0x10]);
    h[50..52].copy_from_slice(&[0xbe, 0xef]);
    h
}

fn burst<'a>(token: u64, header: &'a [u8], fragments: &'a [Fragment]) -> TxBurst<'a> {
    TxBurst {
        kind: Kind::Tso,
        ipv6: false,
        ip_id_fixed: false,
        cwr_all: false,
        complete_now: false,
        l2_len: 14,
        l3_len: 20,
        l4_len: 20,
        mss: MSS,
        header,
        fragments,
        flow: FlowSlot::UNPACED,
        rate: None,
        launch: None,
        token,
    }
}

/// The byte at position `i` of a stream.
fn payload(i: usize) -> u8 {
    (i * 31 + (i >> 8) * 7) as u8
}

impl Rig {
    /// Fills a chunk with the stream from `at` on.
    fn fill(&mut self, at: usize) -> u32 {
        let chunk = self.pool.allocate().unwrap();
        let bytes: Vec<u8> = (at..at + CHUNK as usize).map(payload).collect();
        self.pool.write(chunk, 0, &bytes);
        chunk
    }

    fn flush(&mut self) {
        for q in &mut self.tx {
            q.flush(self.device.function()).unwrap();
        }
        for q in &mut self.rx {
            q.flush(self.device.function()).unwrap();
        }
    }

    fn reap(&mut self) {
        for q in &mut self.tx {
            q.reap(&mut self.flows, usize::MAX, |c| self.done.push(*c));
        }
        for q in &mut self.rx {
            q.receive(usize::MAX, |f, meta| {
                assert_eq!(meta.ip_checksum, ChecksumVerdict::Ok);
                assert_eq!(meta.l4_checksum, ChecksumVerdict::Ok);
                self.frames.push(f.to_vec());
            });
        }
    }

    /// Runs until nothing is under way.
    fn settle(&mut self) {
        self.flush();
        loop {
            self.reap();
            self.flush();
            if self.device.wait(None).unwrap() == Wake::Idle {
                self.reap();
                return;
            }
        }
    }
}

#[test]
fn a_burst_of_many_fragments_comes_back_byte_for_byte() {
    let mut r = rig();
    let chunk = r.fill(0);
    let map = r.pool.map();
    // 17 fragments of odd sizes, back to back.
    let mut at = 0;
    let fragments: Vec<Fragment> = (0..17)
        .map(|i| {
            let len = 1_001 + 97 * i;
            at += len;
            map.fragment(chunk, at - len, len).unwrap()
        })
        .collect();
    let h = header(1_000, 5_000);
    let b = burst(42, &h, &fragments);
    r.tx[0].post(&mut r.flows, &b).unwrap();
    r.settle();

    let done = &r.done[0];
    assert_eq!(
        (r.done.len(), done.token, done.status()),
        (1, 42, Some(Status::Ok))
    );
    let segments = at.div_ceil(u32::from(MSS));
    assert_eq!(
        (done.segments, r.frames.len()),
        (segments, segments as usize)
    );
    let bytes: usize = r.frames.iter().map(Vec::len).sum();
    assert_eq!(done.wire_bytes.0, bytes as u64);
    assert_eq!(bytes, at as usize + HEADER * segments as usize);
    assert!(done.first_departure < done.last_departure);
    let mut stream = BTreeMap::new();
    for f in &r.frames {
        let seq = u32::from_be_bytes(f[38..42].try_into().unwrap());
        stream.insert(seq - 1_000, f[HEADER..].to_vec());
    }
    let got: Vec<u8> = stream.into_values().flatten().collect();
    assert_eq!(got.len(), at as usize);
    assert!(got.iter().enumerate().all(|(i, b)| *b == payload(i)));
}

#[test]
fn thousands_of_bursts_wrap_every_ring() {
    let mut r = rig();
    let chunk = r.fill(0);
    let map = r.pool.map();
    let flows: Vec<FlowSlot> = (0..8).map(|_| r.flows.allocate().unwrap()).collect();
    let (mut next, total) = (0u64, 3_000);
    let mut payload_bytes = 0;
    while (r.done.len() as u64) < total {
        for q in 0..2 {
            for _ in 0..r.tx[q].room().min(40) {
                if next == total {
                    break;
                }
                let len = 1 + (next as u32 * 37) % 4_000;
                let f = [map.fragment(chunk, (next % 64) as u32, len).unwrap()];
                let h = header(0, 5_000 + (next % 100) as u16);
                let b = TxBurst {
                    flow: flows[next as usize % flows.len()],
                    rate: Some(ByteRate(400_000_000)),
                    ..burst(next, &h, &f)
                };
                r.tx[q].post(&mut r.flows, &b).unwrap();
                payload_bytes += len as usize;
                next += 1;
            }
        }
        r.settle();
    }
    let mut tokens: Vec<u64> = r.done.iter().map(|c| c.token).collect();
    tokens.sort_unstable();
    assert_eq!(tokens, (0..total).collect::<Vec<_>>());
    assert!(r.done.iter().all(|c| c.status() == Some(Status::Ok)));
    // By the IP header: the wire pads short frames.
    let ip_payload = |f: &Vec<u8>| usize::from(u16::from_be_bytes([f[16], f[17]])) - 40;
    let got: usize = r.frames.iter().map(ip_payload).sum();
    assert_eq!(got, payload_bytes);
    for q in 0..2 {
        let (tx, rx) = (r.tx[q].stats(), r.rx[q].stats());
        assert_eq!(
            (tx.tx_unknown_completions, tx.tx_malformed_completions),
            (0, 0)
        );
        assert_eq!(
            (rx.rx_unknown_completions, rx.rx_malformed_completions),
            (0, 0)
        );
        assert!(rx.rx_packets > 0, "RSS reaches queue {q}");
    }
    let counters: BTreeMap<_, _> = r.device.counters().unwrap().into_iter().collect();
    assert_eq!(counters["TX_FRAMES"], r.frames.len() as u64);
    assert_eq!(counters["RX_NO_BUFFER"], 0);
    for f in flows {
        assert_eq!(r.flows.outstanding(f), 0);
        assert!(r.flows.release(f));
    }
}

#[test]
fn a_flow_leaves_at_its_rate() {
    let mut r = rig();
    let chunk = r.fill(0);
    let f = [r.pool.map().fragment(chunk, 0, 14_480).unwrap()];
    let h = header(0, 5_000);
    let flow = r.flows.allocate().unwrap();
    let b = TxBurst {
        flow,
        rate: Some(ByteRate(1_502_000)),
        ..burst(1, &h, &f)
    };
    r.tx[0].post(&mut r.flows, &b).unwrap();
    r.settle();
    let span = r.done[0].last_departure.since(r.done[0].first_departure);
    // Nine gaps of 1,502 wire bytes at as many kB/s: 9 ms.
    assert!(span.0.abs_diff(9_000_000) < 9_000, "{span}");
}

#[test]
fn a_launch_time_is_kept() {
    let mut r = rig();
    let chunk = r.fill(0);
    let f = [r.pool.map().fragment(chunk, 0, 1_000).unwrap()];
    let h = header(0, 5_000);
    let launch = r.device.now() + Nanos::from_millis(2);
    let b = TxBurst {
        flow: r.flows.allocate().unwrap(),
        launch: Some(launch),
        ..burst(1, &h, &f)
    };
    r.tx[0].post(&mut r.flows, &b).unwrap();
    r.settle();
    let left = r.done[0].first_departure;
    assert!(
        left >= launch && left.since(launch) < Nanos(10_000),
        "{left}"
    );
}

#[test]
fn an_address_fault_ends_its_burst_and_no_other() {
    let mut r = rig();
    let chunk = r.fill(0);
    let good = [r.pool.map().fragment(chunk, 0, 3_000).unwrap()];
    let bad = [Fragment {
        iova: 0x7000_0000_0000,
        len: 3_000,
    }];
    let h = header(0, 5_000);
    for (token, f) in [(1, &good), (2, &bad), (3, &good)] {
        r.tx[0].post(&mut r.flows, &burst(token, &h, f)).unwrap();
    }
    r.settle();
    let got: Vec<_> = r.done.iter().map(|c| (c.token, c.status())).collect();
    let want = [
        (1, Some(Status::Ok)),
        (2, Some(Status::AddressFault)),
        (3, Some(Status::Ok)),
    ];
    assert_eq!(got, want);
    assert_eq!(r.frames.len(), 6);
}

#[test]
fn a_queue_full_of_slow_flows_is_reset_alone_and_works_again() {
    let mut r = rig();
    let chunk = r.fill(0);
    let f = [r.pool.map().fragment(chunk, 0, 14_480).unwrap()];
    let h = header(0, 5_000);
    let slow = r.flows.allocate().unwrap();
    for token in 0..50 {
        let b = TxBurst {
            flow: slow,
            rate: Some(ByteRate(1_000)),
            ..burst(token, &h, &f)
        };
        r.tx[0].post(&mut r.flows, &b).unwrap();
    }
    r.tx[1].post(&mut r.flows, &burst(100, &h, &f)).unwrap();
    r.flush();
    let soon = r.device.now() + Nanos::from_millis(1);
    while r.device.wait(Some(soon)).unwrap() != Wake::Deadline {}
    r.flows.release(slow);
    let mut got = Vec::new();
    r.device
        .reset_tx(&mut r.tx[0], &mut r.flows, |c| {
            got.push((c.token, c.status()))
        })
        .unwrap();
    got.sort_unstable();
    let want: Vec<_> = (0..50).map(|t| (t, Some(Status::QueueReset))).collect();
    assert_eq!(got, want);
    assert_eq!(r.flows.outstanding(slow), 0);
    r.tx[0].post(&mut r.flows, &burst(101, &h, &f)).unwrap();
    r.settle();
    let tokens: Vec<_> = r.done.iter().map(|c| (c.token, c.status())).collect();
    assert_eq!(tokens.len(), 2, "{tokens:?}");
    assert!(tokens.contains(&(100, Some(Status::Ok))));
    assert!(tokens.contains(&(101, Some(Status::Ok))));
}

#[test]
fn the_whole_device_is_reset_and_works_again() {
    let mut r = rig();
    let chunk = r.fill(0);
    let f = [r.pool.map().fragment(chunk, 0, 60_000).unwrap()];
    let h = header(0, 5_000);
    for token in 0..20 {
        r.tx[0].post(&mut r.flows, &burst(token, &h, &f)).unwrap();
    }
    r.flush();
    let soon = r.device.now() + Nanos(30_000);
    r.device.wait(Some(soon)).unwrap();
    let mut given_up = Vec::new();
    r.device
        .reset(&mut r.tx, &mut r.rx, &mut r.flows, |c| {
            given_up.push(c.token)
        })
        .unwrap();
    given_up.sort_unstable();
    assert_eq!(given_up, (0..20).collect::<Vec<_>>(), "each burst once");
    let table = Device::<InprocFunction>::rss_round_robin(2);
    r.device.set_rss(&RSS_KEY_DEFAULT, &table).unwrap();
    r.device.start().unwrap();
    r.tx[1].post(&mut r.flows, &burst(7, &h, &f)).unwrap();
    r.settle();
    assert_eq!(r.done.iter().map(|c| c.token).collect::<Vec<_>>(), [7]);
}

#[test]
fn a_closed_device_leaves_no_mapping() {
    let r = rig();
    let Rig { mut device, .. } = r;
    let function = device.function().clone();
    let mapped = || function.world().memory(0).unwrap().memory().mapped_bytes();
    assert!(mapped() > 0);
    drop(device);
    assert_eq!(mapped(), 0);
}
