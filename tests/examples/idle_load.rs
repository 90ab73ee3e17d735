// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an idle connection to a Linux socket behind a TAP costs: CPU time of this
//! process against wall time, for both NICs.
//!
//! `cargo run --release -p tsonic-tests --example idle_load` (as root: it makes a network
//! namespace)

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use tsonic_host::{NicConfig, PoolConfig, Shard};
use tsonic_sim::inproc::InprocFunction;
use tsonic_sim::model::{Model, ModelConfig};
use tsonic_sim::netns::TapConfig;
use tsonic_sim::nic::Nic;
use tsonic_sim::peer::KernelPeer;
use tsonic_sim::root_complex::RootComplexConfig;
use tsonic_sim::rtl;
use tsonic_sim::world::{LinkConfig, World};
use tsonic_tcp::wire::ethernet::Mac;
use tsonic_tcp::{Config, Interface};
use tsonic_types::{CoreId, TenantId};

const DATA: usize = 100_000;
/// Wall time watched.
const IDLE: Duration = Duration::from_secs(5);

/// CPU time of this process, user and system.
fn cpu_time() -> Result<Duration, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The fields after the name, which ends with the last bracket.
    let fields = stat.rsplit_once(')').ok_or("no name in /proc/self/stat")?.1;
    let mut times = fields.split_whitespace().skip(11);
    let mut next = || -> Result<u64, Box<dyn Error>> {
        Ok(times.next().ok_or("/proc/self/stat is short")?.parse()?)
    };
    // In hundredths of a second (USER_HZ).
    Ok(Duration::from_millis(10 * (next()? + next()?)))
}

fn measure(name: &str, nic: Box<dyn Nic + Send>) -> Result<(), Box<dyn Error>> {
    let address = |n| IpAddr::V4(Ipv4Addr::new(10, 9, 0, n));
    let tap = TapConfig {
        addresses: vec![(address(2), 24)],
        ..TapConfig::default()
    };
    let (kernel, port) = KernelPeer::start(&tap)?;
    let (_pending, to) = kernel.listen(SocketAddr::new(address(2), 5_001), 1, None)?;
    let world = World::new(
        nic,
        RootComplexConfig::default(),
        LinkConfig::default(),
        Some(Box::new(port)),
    );
    let config = Config::new(Interface::new(Mac([2, 0, 0, 0, 0, 1]), address(1), 24));
    let function = InprocFunction::new(world);
    let mut shard = Shard::start(
        function,
        config,
        &NicConfig::default(),
        PoolConfig::default(),
    )?;
    let now = shard.now();
    let conn = shard.engine().connect(now, TenantId(0), None, to)?;
    let data = vec![0x5a; DATA];
    let mut sent = 0;
    let mut idle = None;
    let (mut turns, mut before) = (0u64, Duration::ZERO);
    loop {
        shard.turn(|engine, _| {
            sent += engine.write(conn, CoreId(0), &data[sent..]).unwrap_or(0);
        })?;
        // Without a deadline of its own a caller sleeps until something happens.
        let deadline = shard.now() + tsonic_types::Nanos::from_millis(100);
        if idle.is_none() && kernel.bytes_received() == DATA as u64 {
            idle = Some(Instant::now());
            (turns, before) = (0, cpu_time()?);
        }
        if idle.is_some_and(|since| since.elapsed() >= IDLE) {
            break;
        }
        turns += 1;
        shard.wait(Some(deadline))?;
    }
    let used = cpu_time()?.saturating_sub(before);
    println!(
        "{name}: {:.1} % of a core over {} s, {turns} turns",
        used.as_secs_f64() / IDLE.as_secs_f64() * 100.0,
        IDLE.as_secs()
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    measure("model", Box::new(Model::new(ModelConfig::default())))?;
    measure("rtl", Box::new(rtl::build(4)?))
}
