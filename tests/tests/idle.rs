// SPDX-License-Identifier: MIT OR Apache-2.0
//! An idle connection on an idle NIC: nothing is left to wake up for, so virtual time
//! may pass without a turn of any loop.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tsonic_host::{NicConfig, Pool, PoolConfig, Shard};
use tsonic_pci::Wake;
use tsonic_sim::inproc::InprocFunction;
use tsonic_sim::model::{Model, ModelConfig};
use tsonic_sim::nic::Nic;
use tsonic_sim::root_complex::RootComplexConfig;
use tsonic_sim::rtl;
use tsonic_sim::world::{LinkConfig, World};
use tsonic_tcp::wire::ethernet::Mac;
use tsonic_tcp::{Config, ConnId, Engine, Interface, State};
use tsonic_types::{CoreId, Nanos, TenantId};

const PORT: u16 = 5_001;
const DATA: usize = 100_000;
/// Turns in which a transfer of that size must be over, many times what it needs.
const TURNS: usize = 10_000;

fn shard(function: InprocFunction, n: u8) -> Shard<InprocFunction> {
    let address = IpAddr::V4(Ipv4Addr::new(10, 9, 0, n));
    let config = Config::new(Interface::new(Mac([2, 0, 0, 0, 0, n]), address, 24));
    Shard::start(
        function,
        config,
        &NicConfig::default(),
        PoolConfig::default(),
    )
    .unwrap()
}

/// Reads what has come.
fn read(engine: &mut Engine<Pool>, conn: ConnId) -> usize {
    let mut buffer = [0; 4_096];
    let mut bytes = 0;
    while let Ok(n @ 1..) = engine.read(conn, &mut buffer) {
        bytes += n;
    }
    bytes
}

/// Moves some data, then lets nothing happen for an hour of virtual time.
fn idle(nics: [Box<dyn Nic + Send>; 2]) {
    let memory = RootComplexConfig::default();
    let world = World::pair(nics, memory, LinkConfig::default()).unwrap();
    let function = InprocFunction::new(world);
    let other = function.other().unwrap();
    let mut here = shard(function, 1);
    let mut there = shard(other, 2);
    let to = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 9, 0, 2)), PORT);
    let listener = there.engine().listen(TenantId(0), to, 8).unwrap();
    let now = here.now();
    let conn = here.engine().connect(now, TenantId(0), None, to).unwrap();
    let (mut sent, mut received, mut accepted) = (0, 0, None);
    let data = [0x5a; DATA];
    let mut turns = 0;
    loop {
        turns += 1;
        assert!(turns < TURNS, "{received} bytes after {turns} turns");
        let writer = here.turn(|engine, _| {
            sent += engine.write(conn, CoreId(0), &data[sent..]).unwrap_or(0);
        });
        let reader = there.turn(|engine, _| {
            accepted = accepted.or_else(|| engine.accept(listener));
            received += accepted.map_or(0, |c| read(engine, c));
        });
        if writer.unwrap() | reader.unwrap() {
            continue;
        }
        let timer = there.engine().next_timer();
        if here.wait(timer).unwrap() == Wake::Idle {
            break;
        }
    }
    assert_eq!((sent, received), (DATA, DATA));
    assert_eq!(here.engine().state(conn), Some(State::Established));
    // The last acknowledgment has come: no timer is armed at either end, and the
    // clock jumps to the end of the hour in one step.
    assert_eq!(here.engine().next_timer(), None);
    assert_eq!(there.engine().next_timer(), None);
    let hour = here.now() + Nanos::from_secs(3_600);
    assert_eq!(here.wait(Some(hour)).unwrap(), Wake::Deadline);
    assert!(here.now() >= hour);
}

#[test]
fn an_idle_model_sleeps() {
    let nic = || Box::new(Model::new(ModelConfig::default())) as Box<dyn Nic + Send>;
    idle([nic(), nic()]);
}

#[test]
fn idle_logic_sleeps() {
    let nic = || Box::new(rtl::build(4).unwrap_or_else(|e| panic!("{e}"))) as Box<dyn Nic + Send>;
    idle([nic(), nic()]);
}
