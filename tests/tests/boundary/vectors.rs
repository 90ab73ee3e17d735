// SPDX-License-Identifier: MIT OR Apache-2.0
//! 33 vectors, masked, pending and unmasked, on both kinds of function.

use super::rig::*;
use tsonic_pci::config::{COMMAND, COMMAND_MASTER, COMMAND_MEMORY};
use tsonic_regs::pci::{MSIX_BAR, MSIX_PBA_OFFSET};
use tsonic_sim::inproc::InprocFunction;

const QUEUES: u16 = 32;
const VECTORS: u16 = 33;

/// What has fired, sorted.
fn fired(f: &mut impl PciFunction) -> Vec<u16> {
    let mut out = Vec::new();
    f.take_fired(&mut out);
    out.sort_unstable();
    out
}

fn pending(f: &mut impl PciFunction) -> u64 {
    let at = MSIX_PBA_OFFSET as u64;
    let low = f.read32(MSIX_BAR, at).unwrap();
    let high = f.read32(MSIX_BAR, at + 4).unwrap();
    u64::from(high) << 32 | u64::from(low)
}

/// `fire` has the device signal a vector, and returns when it has.
fn masks_and_pending<F: PciFunction>(mut f: F, fire: impl Fn(&mut F, u16)) {
    assert_eq!(f.vectors(), VECTORS);
    let more = f.enable_vectors(VECTORS + 1);
    assert!(matches!(more, Err(BusError::TooFewVectors { .. })));
    f.set_bus_master(true).unwrap();
    // Grows, as drivers of Linux do it.
    f.enable_vectors(1).unwrap();
    fire(&mut f, 0);
    assert_eq!(fired(&mut f), [0]);
    f.enable_vectors(VECTORS).unwrap();
    for v in 0..VECTORS {
        fire(&mut f, v);
    }
    assert_eq!(fired(&mut f), (0..VECTORS).collect::<Vec<_>>());
    // Its own mask.
    for v in [7, 32] {
        f.mask_vector(v, true).unwrap();
        fire(&mut f, v);
        fire(&mut f, v);
    }
    fire(&mut f, 8);
    assert_eq!(fired(&mut f), [8]);
    assert_eq!(pending(&mut f), 1 << 32 | 1 << 7);
    f.mask_vector(7, false).unwrap();
    assert_eq!((fired(&mut f), pending(&mut f)), (vec![7], 1 << 32));
    // The function's mask.
    f.mask_all(true).unwrap();
    f.mask_vector(32, false).unwrap();
    fire(&mut f, 0);
    assert_eq!((fired(&mut f), pending(&mut f)), (vec![], 1 << 32 | 1));
    f.mask_all(false).unwrap();
    assert_eq!((pending(&mut f), fired(&mut f)), (0, vec![0, 32]));
    // No bus master, no message.
    f.config_write(COMMAND, &COMMAND_MEMORY.to_le_bytes())
        .unwrap();
    fire(&mut f, 5);
    assert_eq!((fired(&mut f), pending(&mut f)), (vec![], 1 << 5));
    let both = COMMAND_MEMORY | COMMAND_MASTER;
    f.config_write(COMMAND, &both.to_le_bytes()).unwrap();
    assert_eq!((pending(&mut f), fired(&mut f)), (0, vec![5]));
    // A reset keeps what is enabled, and nothing that was pending.
    f.mask_vector(3, true).unwrap();
    fire(&mut f, 3);
    f.reset().unwrap();
    assert_eq!((pending(&mut f), fired(&mut f)), (0, vec![]));
    fire(&mut f, 3);
    assert_eq!(fired(&mut f), [3]);
    f.disable_vectors().unwrap();
    fire(&mut f, 4);
    assert_eq!((fired(&mut f), pending(&mut f)), (vec![], 0));
    assert!(f.mask_vector(4, true).is_err());
}

#[test]
fn of_a_function_in_this_process() {
    masks_and_pending(InprocFunction::new(world(QUEUES)), |f, v| {
        f.world().with_function(0, |f| f.interrupt(v));
    });
}

#[test]
fn of_a_function_over_vfio_user() {
    for map in [false, true] {
        let (server, paths) = serve(world(QUEUES), map);
        let f = connect(&paths[0], map);
        assert_eq!(f.maps_doorbells(), map);
        masks_and_pending(f, |f, v| f.trigger(v).unwrap());
        server.stop().unwrap();
    }
}

/// Each queue's completion comes with its vector.
fn queues_announce<F: PciFunction>(f: F) {
    let mut s = Sender::open(f, QUEUES);
    let mut seen = Vec::new();
    for q in 0..QUEUES {
        s.burst(q.into(), 3_000);
    }
    s.flush().unwrap();
    let end = s.device.now() + Nanos::from_secs(20);
    while seen.len() < QUEUES.into() {
        assert_eq!(
            s.device.wait(Some(end)).unwrap(),
            Wake::Completion,
            "{seen:?}"
        );
        s.device.take_fired(&mut seen);
        seen.sort_unstable();
        seen.dedup();
    }
    assert_eq!(seen, (0..QUEUES).collect::<Vec<_>>());
    s.reap();
    assert_eq!(s.with(Status::Ok), u64::from(QUEUES));
}

#[test]
fn each_queue_has_its_own() {
    queues_announce(InprocFunction::new(world(QUEUES)));
    let (server, paths) = serve(world(QUEUES), true);
    queues_announce(connect(&paths[0], true));
    assert!(server.stop().unwrap().interrupts >= u64::from(QUEUES));
}
