// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every primitive's model against its Verilog.

mod support;

use rust_hdl::prelude::*;
use support::{RngExt, bits_of, lock_step, lock_step_comb};
use tsonic_hdl::primitives::*;

const CYCLES: u64 = 20_000;

#[test]
fn zext() {
    lock_step_comb(Zext::<7, 12>::default(), 2_000, 1, |b, rng| {
        b.data.next = bits_of(rng)
    });
    lock_step_comb(Zext::<40, 12>::default(), 2_000, 2, |b, rng| {
        b.data.next = bits_of(rng)
    });
    lock_step_comb(Zext::<1, 64>::default(), 200, 3, |b, rng| {
        b.data.next = bits_of(rng)
    });
    lock_step_comb(Zext::<8, 1>::default(), 200, 4, |b, rng| {
        b.data.next = bits_of(rng)
    });
    lock_step_comb(Zext::<9, 9>::default(), 200, 5, |b, rng| {
        b.data.next = bits_of(rng)
    });
}

#[test]
fn pack_and_unpack() {
    lock_step_comb(Pack3::<1, 7, 70, 78>::default(), 5_000, 1, |b, rng| {
        b.i0.next = bits_of(rng);
        b.i1.next = bits_of(rng);
        b.i2.next = bits_of(rng);
    });
    lock_step_comb(Unpack3::<1, 7, 70, 78>::default(), 5_000, 2, |b, rng| {
        b.data.next = bits_of(rng);
    });
    lock_step_comb(PackArray::<9, 5, 45>::default(), 5_000, 3, |b, rng| {
        b.i.iter_mut().for_each(|i| i.next = bits_of(rng));
    });
    lock_step_comb(UnpackArray::<8, 8, 64>::default(), 5_000, 4, |b, rng| {
        b.data.next = bits_of(rng);
    });
    lock_step_comb(UnpackArray::<1, 4, 4>::default(), 200, 5, |b, rng| {
        b.data.next = bits_of(rng);
    });
}

#[test]
#[should_panic(expected = "width of a pack")]
fn a_pack_of_the_wrong_width_is_refused() {
    let _ = Pack2::<3, 4, 8>::default();
}

#[test]
fn select() {
    lock_step_comb(Select::<80, 16, 3>::default(), 5_000, 1, |b, rng| {
        b.data.next = bits_of(rng);
        b.index.next = bits_of(rng);
    });
    lock_step_comb(Select::<32, 1, 5>::default(), 5_000, 2, |b, rng| {
        b.data.next = bits_of(rng);
        b.index.next = bits_of(rng);
    });
    lock_step_comb(Select::<64, 8, 2>::default(), 5_000, 3, |b, rng| {
        b.data.next = bits_of(rng);
        b.index.next = bits_of(rng);
    });
}

#[test]
fn byte_mask() {
    lock_step_comb(ByteMask::<4, 8, 64>::default(), 5_000, 1, |b, rng| {
        b.data.next = bits_of(rng);
        b.count.next = bits_of(rng);
    });
    lock_step_comb(ByteMask::<1, 1, 8>::default(), 200, 2, |b, rng| {
        b.data.next = bits_of(rng);
        b.count.next = bits_of(rng);
    });
}

#[test]
fn reg() {
    lock_step(
        Reg::<Bits<40>>::new(0xab_cdef_0123.into()),
        |b| &mut b.clock,
        CYCLES,
        1,
        |b, rng| {
            b.reset.next = rng.random_bool(0.1);
            b.enable.next = rng.random_bool(0.5);
            b.d.next = bits_of(rng);
        },
    );
    lock_step(
        Reg::<bool>::new(true),
        |b| &mut b.clock,
        2_000,
        2,
        |b, rng| {
            b.reset.next = rng.random_bool(0.1);
            b.enable.next = rng.random_bool(0.5);
            b.d.next = rng.random_bool(0.5);
        },
    );
}

#[test]
fn delay() {
    lock_step(
        Delay::<Bits<33>, 3>::default(),
        |b| &mut b.clock,
        CYCLES,
        1,
        |b, rng| {
            b.enable.next = rng.random_bool(0.7);
            b.d.next = bits_of(rng);
        },
    );
    lock_step(
        Delay::<bool, 1>::default(),
        |b| &mut b.clock,
        2_000,
        2,
        |b, rng| {
            b.enable.next = rng.random_bool(0.7);
            b.d.next = rng.random_bool(0.5);
        },
    );
}

#[test]
fn ram() {
    lock_step(
        Ram::<Bits<72>, 6>::default(),
        |b| &mut b.clock,
        CYCLES,
        1,
        |b, rng| {
            let (write, read): (Bits<6>, Bits<6>) = (bits_of(rng), bits_of(rng));
            let writes = rng.random_bool(0.5);
            b.write_enable.next = writes;
            b.write_address.next = write;
            b.write_data.next = bits_of(rng);
            b.read_enable.next = rng.random_bool(0.7) && !(writes && write == read);
            b.read_address.next = read;
        },
    );
}

#[test]
#[should_panic(expected = "a read hits the write of word 5")]
fn ram_refuses_a_read_that_hits_a_write() {
    let mut ram = Ram::<Bits<8>, 4>::default();
    ram.connect_all();
    ram.write_enable.next = true;
    ram.read_enable.next = true;
    ram.write_address.next = 5.into();
    ram.read_address.next = 5.into();
    simulate(&mut ram, 10);
    ram.clock.next = true.into();
    simulate(&mut ram, 10);
}

#[test]
fn pair_ram() {
    lock_step(
        PairRam::<Bits<64>, 5>::default(),
        |b| &mut b.clock,
        CYCLES,
        1,
        |b, rng| {
            let (write, read): (Bits<5>, Bits<5>) = (bits_of(rng), bits_of(rng));
            let (second, read_second) = (rng.random_bool(0.5), rng.random_bool(0.5));
            let writes = rng.random_bool(0.5);
            b.write_enable.next = writes;
            b.write_address.next = write;
            b.write_second.next = second;
            b.write_data.next = bits_of(rng);
            let hit = writes && (write, second) == (read, read_second);
            b.read_enable.next = rng.random_bool(0.7) && !hit;
            b.read_address.next = read;
            b.read_second.next = read_second;
        },
    );
}

#[test]
#[should_panic(expected = "a read hits the write of word 21")]
fn pair_ram_refuses_a_read_that_hits_a_write() {
    let mut ram = PairRam::<Bits<8>, 4>::default();
    ram.connect_all();
    ram.write_enable.next = true;
    ram.read_enable.next = true;
    ram.write_address.next = 5.into();
    ram.write_second.next = true;
    ram.read_address.next = 5.into();
    ram.read_second.next = true;
    simulate(&mut ram, 10);
    ram.clock.next = true.into();
    simulate(&mut ram, 10);
}

#[test]
fn ram_with_byte_enables() {
    lock_step(
        RamBe::<5, 64, 8>::default(),
        |b| &mut b.clock,
        CYCLES,
        1,
        |b, rng| {
            let (write, read): (Bits<5>, Bits<5>) = (bits_of(rng), bits_of(rng));
            let strobe: Bits<8> = bits_of(rng);
            b.write_strobe.next = strobe;
            b.write_address.next = write;
            b.write_data.next = bits_of(rng);
            b.read_enable.next = rng.random_bool(0.7) && !(strobe.any() && write == read);
            b.read_address.next = read;
        },
    );
}

#[test]
fn lut_ram() {
    lock_step(
        LutRam::<Bits<34>, 5>::default(),
        |b| &mut b.clock,
        CYCLES,
        1,
        |b, rng| {
            b.write_enable.next = rng.random_bool(0.5);
            b.write_address.next = bits_of(rng);
            b.write_data.next = bits_of(rng);
            b.read_address.next = bits_of(rng);
        },
    );
    lock_step(
        LutRam2::<bool, 3>::default(),
        |b| &mut b.clock,
        CYCLES,
        2,
        |b, rng| {
            b.write_enable.next = rng.random_bool(0.5);
            b.write_address.next = bits_of(rng);
            b.write_data.next = rng.random_bool(0.5);
            b.read_address0.next = bits_of(rng);
            b.read_address1.next = bits_of(rng);
        },
    );
}

fn fifo<const A: usize>(margin: usize, seed: u64) {
    // Phases of filling and of draining, so that both ends are reached.
    let mut cycle = 0;
    lock_step(
        Fifo::<Bits<37>, A>::new(margin),
        |b| &mut b.clock,
        CYCLES,
        seed,
        |b, rng| {
            let filling = cycle / 200 % 2 == 0;
            cycle += 1;
            b.flush.next = rng.random_bool(0.005);
            b.write_valid.next = rng.random_bool(if filling { 0.9 } else { 0.3 });
            b.write_data.next = bits_of(rng);
            b.read_ready.next = rng.random_bool(if filling { 0.3 } else { 0.9 });
        },
    );
}

#[test]
fn fifo_of_distributed_ram() {
    fifo::<4>(3, 1);
    fifo::<1>(0, 2);
}

#[test]
fn fifo_of_a_number_of_words() {
    for (words, seed) in [(2_usize, 1), (5, 2), (32, 3), (33, 4), (256, 5)] {
        let mut cycle = 0;
        let (mut inside, mut most) = (0, 0);
        lock_step(
            Fifo::<Bits<9>, 8>::of(words),
            |b| &mut b.clock,
            CYCLES,
            seed,
            |b, rng| {
                let filling = cycle / 600 % 2 == 0;
                cycle += 1;
                // In the first cycle nothing has been evaluated yet.
                b.write_valid.next = cycle > 1 && rng.random_bool(if filling { 0.9 } else { 0.3 });
                b.write_data.next = bits_of(rng);
                b.read_ready.next = rng.random_bool(if filling { 0.3 } else { 0.9 });
                inside += usize::from(b.write_valid.next && b.write_ready.val());
                inside -= usize::from(b.read_ready.next && b.read_valid.val());
                most = inside.max(most);
            },
        );
        // One more place in the output register of a block RAM.
        let places = words.next_power_of_two();
        assert_eq!(most, places + usize::from(places > 32));
    }
}

#[test]
#[should_panic(expected = "size of a FIFO")]
fn a_fifo_of_more_words_than_its_type_numbers_is_refused() {
    let _ = Fifo::<Bits<9>, 3>::of(9);
}

#[test]
fn fifo_of_block_ram() {
    fifo::<6>(9, 1);
}

#[test]
fn fifo_keeps_order_and_loses_nothing() {
    fn run<const A: usize>() {
        let mut fifo = support::LockStep::new(Fifo::<Bits<16>, A>::default(), |b| &mut b.clock);
        let mut rng = <support::Pcg64Mcg as support::SeedableRng>::seed_from_u64(7);
        let (mut written, mut read) = (0u64, 0u64);
        for _ in 0..5_000 {
            let (mut pushed, mut popped) = (false, false);
            fifo.step(|b| {
                b.write_valid.next = rng.random_bool(0.6);
                b.write_data.next = (written & 0xffff).into();
                b.read_ready.next = rng.random_bool(0.6);
                pushed = b.write_valid.next && b.write_ready.val();
                popped = b.read_ready.next && b.read_valid.val();
                if popped {
                    assert_eq!(b.read_data.val().to_u64(), read & 0xffff);
                }
            });
            written += u64::from(pushed);
            read += u64::from(popped);
        }
        assert!(read > 2_000 && written - read <= (1 << A) + 1);
    }
    run::<3>();
    run::<6>();
}

#[test]
fn skid() {
    lock_step(
        Skid::<Bits<35>>::default(),
        |b| &mut b.clock,
        CYCLES,
        1,
        |b, rng| {
            b.flush.next = rng.random_bool(0.01);
            b.in_valid.next = rng.random_bool(0.6);
            b.in_data.next = bits_of(rng);
            b.out_ready.next = rng.random_bool(0.6);
        },
    );
}

#[test]
fn rotator() {
    lock_step_comb(Rotator::<64, 3>::right(), CYCLES, 1, |b, rng| {
        b.data.next = bits_of(rng);
        b.amount.next = bits_of(rng);
    });
    lock_step_comb(Rotator::<64, 3>::left(), CYCLES, 2, |b, rng| {
        b.data.next = bits_of(rng);
        b.amount.next = bits_of(rng);
    });
    lock_step_comb(Rotator::<16, 1>::left(), 200, 3, |b, rng| {
        b.data.next = bits_of(rng);
        b.amount.next = bits_of(rng);
    });
}

/// Bits of which few or many are set.
fn sparse<const N: usize>(rng: &mut support::Pcg64Mcg) -> Bits<N> {
    let density = [0.02, 0.2, 0.8][rng.random_range(0..3)];
    let mut bits = Bits::<N>::default();
    for n in 0..N {
        bits = bits.replace_bit(n, rng.random_bool(density));
    }
    bits
}

#[test]
fn first_one() {
    lock_step_comb(FirstOne::<32, 5>::lowest(), CYCLES, 1, |b, rng| {
        b.data.next = sparse(rng)
    });
    lock_step_comb(FirstOne::<37, 6>::highest(), CYCLES, 2, |b, rng| {
        b.data.next = sparse(rng)
    });
    lock_step_comb(FirstOne::<2, 1>::highest(), 200, 3, |b, rng| {
        b.data.next = sparse(rng)
    });
}

#[test]
fn round_robin() {
    lock_step_comb(RoundRobin::<32, 5>::default(), CYCLES, 1, |b, rng| {
        b.requests.next = sparse(rng);
        b.last.next = bits_of(rng);
    });
    lock_step_comb(RoundRobin::<5, 3>::default(), CYCLES, 2, |b, rng| {
        b.requests.next = sparse(rng);
        b.last.next = u64::to_bits(rng.random_range(0..5));
    });
}

#[test]
fn one_hot() {
    lock_step_comb(OneHot::<4, 13>::default(), 5_000, 1, |b, rng| {
        b.index.next = bits_of(rng);
        b.enable.next = rng.random_bool(0.8);
    });
    lock_step_comb(OneHot::<2, 6>::default(), 500, 2, |b, rng| {
        b.index.next = bits_of(rng);
        b.enable.next = rng.random_bool(0.8);
    });
}

fn multiplier<const A: usize, const B: usize, const P: usize>(latency: usize, seed: u64) {
    assert_eq!(Multiplier::<A, B, P>::LATENCY, latency);
    lock_step(
        Multiplier::<A, B, P>::default(),
        |b| &mut b.clock,
        CYCLES,
        seed,
        |b, rng| {
            // All ones now and then: the longest carries.
            b.a.next = if rng.random_bool(0.05) {
                Bits::mask()
            } else {
                bits_of(rng)
            };
            b.b.next = if rng.random_bool(0.05) {
                Bits::mask()
            } else {
                bits_of(rng)
            };
        },
    );
}

#[test]
fn multipliers() {
    multiplier::<16, 18, 34>(2, 1);
    multiplier::<17, 48, 65>(4, 2);
    multiplier::<48, 34, 82>(5, 3);
    multiplier::<1, 20, 21>(3, 4);
}

fn queue_ram<const Q: usize, const L: usize>(seed: u64) {
    // Addresses beyond the queues too, and reads that hit writes.
    lock_step(
        QueueRam::<Bits<33>, Q, L>::default(),
        |b| &mut b.clock,
        CYCLES,
        seed,
        |b, rng| {
            let write: Bits<L> = bits_of(rng);
            b.write_enable.next = rng.random_bool(0.5);
            b.write_address.next = write;
            b.write_data.next = bits_of(rng);
            b.read_address.next = if rng.random_bool(0.2) {
                write
            } else {
                bits_of(rng)
            };
        },
    );
}

#[test]
fn queue_rams() {
    queue_ram::<2, 8>(1);
    queue_ram::<5, 9>(2);
    queue_ram::<32, 8>(3);
    queue_ram::<32, 9>(4);
    queue_ram::<256, 8>(5);
}

#[test]
fn byte_merge() {
    lock_step_comb(ByteMerge::<8, 64>::default(), 5_000, 1, |b, rng| {
        b.take_a.next = bits_of(rng);
        b.a.next = bits_of(rng);
        b.b.next = bits_of(rng);
    });
}
