// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters and state of a shard at one moment. What the device does not report is
//! null; nothing is made up.

use super::failure::Failure;
use super::protocol::{
    CONNECTIONS_MAX, ConnectionStats, EngineFacts, EngineStats, FqStats, Greeting, NicFacts,
    PROTOCOL, QueueBql, QueueStats, Stats, TcpCounters, TenantStats,
};
use crate::nic::{Nic, Pool};
use std::collections::BTreeMap;
use tsonic_driver::{DriverError, TxQueue};
use tsonic_pci::PciFunction;
use tsonic_tcp::{ChunkPool, ConnInfo, Engine, TxPort};
use tsonic_types::{Nanos, QueueId, TenantId, Ticks};

fn micros(t: Nanos) -> f64 {
    t.0 as f64 / 1e3
}

/// The first line to a client of a shard that does `role` with a NIC called `kind`.
pub(crate) fn greeting<F: PciFunction>(
    engine: &Engine<Pool>,
    nic: &mut Nic<F>,
    role: &str,
    kind: &str,
) -> Greeting {
    let config = engine.config();
    let interface = &config.interface;
    let info = *nic.device().info();
    let addresses = interface.addresses.iter();
    let mac: Vec<String> = interface.mac.0.iter().map(|b| format!("{b:02x}")).collect();
    Greeting {
        protocol: PROTOCOL,
        version: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        role: role.into(),
        engine: EngineFacts {
            addresses: addresses
                .map(|(a, prefix)| format!("{a}/{prefix}"))
                .collect(),
            mac: mac.join(":"),
            mtu: interface.mtu,
            connections_max: config.connections_max,
        },
        nic: NicFacts {
            kind: kind.into(),
            contract: format!(
                "{}.{}",
                info.contract_version >> 16,
                info.contract_version & 0xffff
            ),
            build: format!("{:08x}", info.build_hash),
            features: info.feature_names().map(Into::into).collect(),
            queues: nic.limits().queues,
            flow_slots: info.flow_slots,
            max_segment: info.max_segment,
            max_payload: info.max_payload,
            tick_hz: info.ticks.hz(),
        },
    }
}

/// Everything, with at most `most` connections.
pub(super) fn stats<F: PciFunction>(
    engine: &Engine<Pool>,
    nic: &mut Nic<F>,
    now: Nanos,
    most: u32,
) -> Result<Stats, Failure> {
    let c = engine.counters();
    let tenants = (0..engine.tenants()).filter_map(|tenant| {
        let counters = engine.tenant_counters(TenantId(tenant))?;
        Some(TenantStats {
            tenant,
            counters: TcpCounters::from(&counters),
        })
    });
    let listed = most.min(CONNECTIONS_MAX) as usize;
    let all = engine.ids().count();
    let infos = engine.ids().take(listed).filter_map(|id| engine.info(id));
    let queues = (0..nic.limits().queues).map(|q| queue(engine, nic, QueueId(q)));
    let queues = queues.collect::<Result<_, DriverError>>()?;
    let device = nic.device().counters()?;
    let flows = nic.flows();
    Ok(Stats {
        engine_time_ns: now.0,
        total: TcpCounters::from(&c.total),
        engine: EngineStats {
            connections: engine.connections() as u64,
            bursts_in_nic: engine.bursts_in_nic() as u64,
            chunks_free: engine.pool().available() as u64,
            reserves_left: engine.reserves_left() as u64,
            frames_in: c.frames_in,
            frames_ignored: c.frames_ignored,
            bad_checksums: c.bad_checksums,
            resets_out: c.resets_out,
            syn_drops: c.syn_drops,
            refused: c.refused,
            share_stops: c.share_stops,
            echoes: c.echoes,
            control_drops: c.control_drops,
            stale_completions: c.stale_completions,
        },
        tenants: tenants.collect(),
        connections: infos.map(|i| connection(&i)).collect(),
        connections_left_out: all.saturating_sub(listed) as u64,
        queues,
        fq: FqStats {
            flows: flows.in_use() as u64,
            flow_slots: flows.rows() as u64,
        },
        device: device
            .into_iter()
            .map(|(name, n)| (name.to_ascii_lowercase().replace('_', "-"), n))
            .collect(),
    })
}

fn connection(i: &ConnInfo) -> ConnectionStats {
    ConnectionStats {
        tenant: i.tenant.0,
        local: i.local.to_string(),
        remote: i.remote.to_string(),
        state: i.state.to_string(),
        mss: i.mss,
        cwnd: i.cwnd,
        ssthresh: i.ssthresh,
        in_flight: i.in_flight,
        srtt_us: (i.srtt != Nanos::ZERO).then(|| micros(i.srtt)),
        min_rtt_us: i.min_rtt.map(micros),
        rto_us: i.rto.map(micros),
        pacing_rate: i.pacing_rate.is_limited().then_some(i.pacing_rate.0),
        paced_by_nic: i.paced_by_nic,
        queue: i.queue,
        in_nic: i.in_nic,
        throttled: i.throttled,
        send_queue: i.send_queue,
        receive_queue: i.receive_queue,
        counters: TcpCounters::from(&i.counters),
    }
}

fn queue<F: PciFunction>(
    engine: &Engine<Pool>,
    nic: &mut Nic<F>,
    q: QueueId,
) -> Result<QueueStats, DriverError> {
    let budget = match budget(nic, q) {
        Ok(budget) => Some(budget),
        Err(DriverError::NotSupported(_)) => None,
        Err(e) => return Err(e),
    };
    let named = |(name, n): (&str, u64)| (name.replace('_', "-"), n);
    let tx = nic.tx_queues().get(q.index());
    let rx = nic.rx_queues().get(q.index());
    let bursts = engine.counters().bursts_by_queue.get(q.index());
    Ok(QueueStats {
        queue: q.0,
        bursts: bursts.copied().unwrap_or(0),
        outstanding: tx.map_or(0, |t| t.outstanding() as u64),
        room: tx.map_or(0, |t| t.room() as u64),
        tx: tx.map_or(BTreeMap::new(), |t| t.stats().iter().map(named).collect()),
        rx: rx.map_or(BTreeMap::new(), |r| r.stats().iter().map(named).collect()),
        byte_queue_limits: budget,
    })
}

/// Byte budget of a queue.
pub(super) fn budget<F: PciFunction>(
    nic: &mut Nic<F>,
    q: QueueId,
) -> Result<QueueBql, DriverError> {
    let set = nic.device().bql(q)?;
    let active = set.max != 0;
    let clock = nic.device().info().ticks;
    let tx = nic.tx_queues().get(q.index());
    let now = tx.and_then(TxQueue::bql_state).filter(|_| active);
    Ok(QueueBql {
        queue: q.0,
        active,
        limit: now.map(|b| b.limit.0),
        inflight: now.map(|b| b.inflight.0),
        limit_min: set.min,
        limit_max: set.max,
        hold_time: set.hold.as_millis(),
        stall_thrs: set.stall.as_millis(),
        stall_cnt: now.map(|b| b.stalls.into()),
        stall_max: now.map(|b| {
            let longest = Ticks(b.longest_stall.into());
            clock.to_nanos(longest).as_millis()
        }),
    })
}
