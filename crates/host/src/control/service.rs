// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests, as the shard does them between two turns.

use super::failure::{Code, Failure};
use super::mask::{CPUS_MAX, CpuMask};
use super::protocol::{
    BqlSetting, Feature, QueueCoalesce, QueueCpus, QueueRate, Reply, Request, Tunable,
};
use super::snapshot;
use crate::nic::{Nic, Pool};
use tsonic_driver::{BQL_MAX_LIMIT, BqlConfig, COALESCE_COUNT_MAX, DriverError, slowest_rate};
use tsonic_pci::PciFunction;
use tsonic_tcp::arith::txq::XpsMap;
use tsonic_tcp::tunables::TunableError;
use tsonic_tcp::{Engine, TxPort};
use tsonic_types::{ByteRate, Nanos, QueueId, TenantId};

/// Hold time of a budget that is started without one.
const BQL_HOLD: Nanos = Nanos::from_secs(1);
/// Longest wait of moderation.
const USECS_MAX: u32 = 1_000_000;

const TSO: &str = "tcp-segmentation-offload";

/// Does what is asked.
///
/// # Errors
/// What was wrong, and what to do; nothing has changed then, unless the device failed
/// half-way.
pub(crate) fn serve<F: PciFunction>(
    engine: &mut Engine<Pool>,
    nic: &mut Nic<F>,
    now: Nanos,
    request: Request,
) -> Result<Reply, Failure> {
    match request {
        Request::TunableList { tenant } => tunables(engine, tenant, None),
        Request::TunableGet { tenant, name } => tunables(engine, tenant, Some(&name)),
        Request::TunableSet {
            tenant,
            name,
            value,
        } => {
            let all = engine.tunables_mut(TenantId(tenant));
            let count = all.map(|t| t.set(&name, &value));
            count.ok_or_else(|| no_tenant(engine, tenant))??;
            tunables(engine, tenant, Some(&name))
        }
        Request::Stats { connections } => {
            snapshot::stats(engine, nic, now, connections).map(|s| Reply::Stats(Box::new(s)))
        }
        Request::XpsShow {} => Ok(Reply::Xps(xps(engine, nic))),
        Request::XpsSet { queue, cpus } => set_xps(engine, nic, queue, cpus),
        Request::BqlShow {} => bql(nic),
        Request::BqlSet {
            queue,
            setting,
            value,
        } => set_bql(nic, queue, setting, value),
        Request::RateShow {} => Ok(rates(nic)),
        Request::RateSet { queue, rate } => set_rate(nic, queue, rate),
        Request::CoalesceShow {} => coalesce(nic),
        Request::CoalesceSet {
            queue,
            tx_usecs,
            tx_frames,
        } => set_coalesce(nic, queue, tx_usecs, tx_frames),
        Request::FeaturesShow {} => Ok(Reply::Features(features(engine, nic))),
        Request::FeaturesSet { name, on } => set_feature(engine, nic, &name, on),
        Request::QueueReset { queue } => {
            let mut bursts = 0;
            nic.reset_queue(QueueId(queue), |c| {
                bursts += 1;
                engine.on_tx_completion(now, c);
            })?;
            Ok(Reply::QueueReset { queue, bursts })
        }
    }
}

fn no_tenant(engine: &Engine<Pool>, tenant: u16) -> Failure {
    let last = engine.tenants() - 1;
    let remedy = format!("there is no tenant {tenant}: choose 0 to {last}");
    Failure::new(Code::NoSuchTenant, remedy)
}

fn out_of_range(
    what: &str,
    value: impl std::fmt::Display,
    range: impl std::fmt::Display,
) -> Failure {
    Failure::new(
        Code::OutOfRange,
        format!("{what} takes {range}, not {value}"),
    )
}

fn tunables(engine: &Engine<Pool>, tenant: u16, name: Option<&str>) -> Result<Reply, Failure> {
    let all = engine.tunables(TenantId(tenant));
    let all = all.ok_or_else(|| no_tenant(engine, tenant))?.describe();
    let wanted = all.into_iter().filter(|d| name.is_none_or(|n| n == d.name));
    let list: Vec<Tunable> = wanted
        .map(|d| Tunable {
            name: d.name.to_owned(),
            value: d.value,
            range: d.range,
            help: d.help.to_owned(),
        })
        .collect();
    match name {
        Some(name) if list.is_empty() => Err(TunableError::Unknown(name.to_owned()).into()),
        _ => Ok(Reply::Tunables(list)),
    }
}

fn xps<F: PciFunction>(engine: &Engine<Pool>, nic: &Nic<F>) -> Vec<QueueCpus> {
    let queues = nic.limits().queues;
    let mut masks = vec![CpuMask::default(); usize::from(queues)];
    let mut map = |cpu: usize, queue: u16| {
        if let Some(mask) = masks.get_mut(usize::from(queue)) {
            mask.insert(cpu);
        }
    };
    match &engine.config().xps {
        Some(XpsMap::Blocks {
            queues,
            cores_per_queue,
        }) => {
            let cores = usize::from(*queues) * *cores_per_queue as usize;
            for cpu in 0..cores.min(CPUS_MAX) {
                // Below `queues`.
                map(cpu, (cpu / *cores_per_queue as usize) as u16);
            }
        }
        Some(XpsMap::Table(cores)) => {
            for (cpu, list) in cores.iter().enumerate() {
                for queue in list {
                    map(cpu, *queue);
                }
            }
        }
        None => {}
    }
    (0..queues)
        .zip(masks)
        .map(|(queue, cpus)| QueueCpus { queue, cpus })
        .collect()
}

fn set_xps<F: PciFunction>(
    engine: &mut Engine<Pool>,
    nic: &Nic<F>,
    queue: u16,
    cpus: CpuMask,
) -> Result<Reply, Failure> {
    nic.check_queue(QueueId(queue))?;
    let mut masks = xps(engine, nic);
    for row in masks.iter_mut().filter(|r| r.queue == queue) {
        row.cpus = cpus.clone();
    }
    let cores = masks.iter().map(|r| r.cpus.len()).max().unwrap_or(0);
    let of = |cpu| {
        let mine = masks.iter().filter(|r| r.cpus.contains(cpu));
        mine.map(|r| r.queue).collect()
    };
    engine.set_xps(Some(XpsMap::Table((0..cores).map(of).collect())));
    Ok(Reply::Xps(masks))
}

fn bql<F: PciFunction>(nic: &mut Nic<F>) -> Result<Reply, Failure> {
    let all = (0..nic.limits().queues).map(|q| snapshot::budget(nic, QueueId(q)));
    Ok(Reply::Bql(all.collect::<Result<_, DriverError>>()?))
}

fn set_bql<F: PciFunction>(
    nic: &mut Nic<F>,
    queue: u16,
    setting: BqlSetting,
    value: u32,
) -> Result<Reply, Failure> {
    let q = QueueId(queue);
    nic.check_queue(q)?;
    let set = nic.device().bql(q)?;
    let now = nic.queue_state(q).bql;
    let mut new = if set.max == 0 {
        BqlConfig {
            limit: 0,
            min: 0,
            max: BQL_MAX_LIMIT,
            hold: BQL_HOLD,
            stall: Nanos::ZERO,
        }
    } else {
        // The budget starts again from where it is.
        let limit = now.map_or(set.limit, |(limit, _)| {
            limit.0.min(u64::from(BQL_MAX_LIMIT)) as u32
        });
        BqlConfig { limit, ..set }
    };
    let bytes = |name, least: u32| {
        if (least..=BQL_MAX_LIMIT).contains(&value) {
            Ok(value)
        } else {
            Err(out_of_range(
                name,
                value,
                format!("bytes {least}..={BQL_MAX_LIMIT}"),
            ))
        }
    };
    match setting {
        BqlSetting::Limit => new.limit = bytes("limit", 0)?,
        BqlSetting::LimitMin => new.min = bytes("limit_min", 0)?,
        BqlSetting::LimitMax => new.max = bytes("limit_max", 0)?,
        BqlSetting::HoldTime => {
            let hz = u64::from(nic.device().info().ticks.hz());
            let longest = u64::from(u32::MAX) * 1000 / hz;
            if u64::from(value) > longest {
                let range = format!("milliseconds 0..={longest}");
                return Err(out_of_range("hold_time", value, range));
            }
            new.hold = Nanos::from_millis(value.into());
        }
    }
    if new.max != 0 && new.min > new.max {
        let range = format!(
            "a value that leaves limit_min ({}) at most limit_max ({})",
            new.min, new.max
        );
        return Err(out_of_range("a byte budget", value, range));
    }
    if new.max != 0 {
        new.limit = new.limit.clamp(new.min, new.max);
    }
    nic.retune(q, |c| c.bql = Some(new))?;
    bql(nic)
}

fn rates<F: PciFunction>(nic: &Nic<F>) -> Reply {
    let all = nic.tx_queues().iter().map(|tx| QueueRate {
        queue: tx.id().0,
        rate: tx.config().rate.filter(|r| r.is_limited()).map(|r| r.0),
    });
    Reply::Rate(all.collect())
}

fn set_rate<F: PciFunction>(
    nic: &mut Nic<F>,
    queue: u16,
    rate: Option<u64>,
) -> Result<Reply, Failure> {
    let q = QueueId(queue);
    nic.check_queue(q)?;
    let least = slowest_rate(nic.device().info().ticks).0;
    let rate = match rate {
        None => ByteRate::UNLIMITED,
        Some(r) if r < least || r == u64::MAX => {
            let range = format!("wire bytes a second from {least} on, or none");
            return Err(out_of_range("the rate of a queue", r, range));
        }
        Some(r) => ByteRate(r),
    };
    nic.retune(q, |c| c.rate = Some(rate))?;
    Ok(rates(nic))
}

fn coalesce<F: PciFunction>(nic: &mut Nic<F>) -> Result<Reply, Failure> {
    let queues = nic.limits().queues;
    let one = |q: u16| {
        let (tx_frames, wait) = nic.device().moderation(QueueId(q))?;
        Ok(QueueCoalesce {
            queue: q,
            tx_usecs: wait.as_micros(),
            tx_frames,
        })
    };
    let all: Result<_, DriverError> = (0..queues).map(one).collect();
    Ok(Reply::Coalesce(all?))
}

fn set_coalesce<F: PciFunction>(
    nic: &mut Nic<F>,
    queue: u16,
    usecs: Option<u32>,
    frames: Option<u32>,
) -> Result<Reply, Failure> {
    let q = QueueId(queue);
    nic.check_queue(q)?;
    if nic.device().info().features.msix() == 0 {
        return Err(DriverError::NotSupported("interrupt to moderate (MSIX)").into());
    }
    if let Some(n) = usecs.filter(|n| *n > USECS_MAX) {
        let range = format!("microseconds 0..={USECS_MAX}");
        return Err(out_of_range("tx-usecs", n, range));
    }
    if let Some(n) = frames.filter(|n| *n > COALESCE_COUNT_MAX) {
        let range = format!("completions 0..={COALESCE_COUNT_MAX}");
        return Err(out_of_range("tx-frames", n, range));
    }
    let (count, wait) = nic.device().moderation(q)?;
    let wait = usecs.map_or(wait, |us| Nanos::from_micros(us.into()));
    nic.device()
        .set_moderation(q, frames.unwrap_or(count), wait)?;
    coalesce(nic)
}

fn features<F: PciFunction>(engine: &Engine<Pool>, nic: &Nic<F>) -> Vec<Feature> {
    let built = nic.limits().tso;
    let tso = engine.config().tso && built;
    let feature = |name: &str, on, fixed, part_of: Option<&str>| Feature {
        name: name.into(),
        on,
        fixed,
        part_of: part_of.map(Into::into),
    };
    vec![
        // The engine leaves checksums to the NIC, both ways.
        feature("rx-checksumming", true, true, None),
        feature("tx-checksumming", true, true, None),
        feature(TSO, tso, !built, None),
        feature("tx-tcp-segmentation", tso, true, Some(TSO)),
        feature("tx-tcp-ecn-segmentation", tso, true, Some(TSO)),
        feature("tx-tcp6-segmentation", tso, true, Some(TSO)),
        feature("receive-hashing", nic.receive_hashing(), true, None),
    ]
}

fn set_feature<F: PciFunction>(
    engine: &mut Engine<Pool>,
    nic: &Nic<F>,
    name: &str,
    on: bool,
) -> Result<Reply, Failure> {
    // The short names of `ethtool -K`.
    let name = match name {
        "tso" => TSO,
        "tx" => "tx-checksumming",
        "rx" => "rx-checksumming",
        "rxhash" => "receive-hashing",
        other => other,
    };
    let all = features(engine, nic);
    let Some(feature) = all.iter().find(|f| f.name == name) else {
        let names: Vec<&str> = all.iter().map(|f| f.name.as_str()).collect();
        let remedy = format!(
            "no feature is called {name}; there are {}",
            names.join(", ")
        );
        return Err(Failure::new(Code::UnknownFeature, remedy));
    };
    if feature.on == on {
        return Ok(Reply::Features(all));
    }
    if feature.fixed {
        let why = match &feature.part_of {
            Some(whole) => format!("{name} follows {whole}: set that"),
            None => format!("{name} cannot be changed in this engine and NIC"),
        };
        return Err(Failure::new(Code::FixedFeature, why));
    }
    let gso_max = engine.config().gso_max;
    engine.set_gso(gso_max, on);
    Ok(Reply::Features(features(engine, nic)))
}
