// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use proptest::prelude::*;

const BASE: Autosize = Autosize {
    pacing_rate: 20_000_000,
    mss: 4_096,
    gso_max: 65_536,
    min_rtt_us: Some(30),
    rtt_log: Some(9),
    min_segs: 2,
    max_segs: 65_535,
    shift: 10,
};

#[test]
fn sizes_near_the_peer() {
    for (mss, gso_max, want) in [
        (4_096, 65_536, 16),
        (4_096, 65_215, 15),
        (4_024, 65_215, 16),
        (4_044, 65_215, 16),
        (4_096, 167_936, 41),
        (4_096, 167_935, 40),
        (4_096, 184_679, 45),
    ] {
        assert_eq!(
            autosize(&Autosize {
                mss,
                gso_max,
                ..BASE
            }),
            want
        );
    }
    let off = Autosize {
        rtt_log: None,
        ..BASE
    };
    assert_eq!(autosize(&off), 4, "the rate term alone");
    let unsampled = Autosize {
        min_rtt_us: None,
        ..BASE
    };
    assert_eq!(autosize(&unsampled), 4);
    let all_ones = Autosize {
        min_rtt_us: Some(u64::from(u32::MAX)),
        ..BASE
    };
    assert_eq!(autosize(&all_ones), 4);
}

#[test]
fn sizes_fall_with_the_round_trip_time() {
    for (rtt, want) in [
        (0, 16),
        (1, 16),
        (511, 16),
        (512, 12),
        (1_023, 12),
        (1_024, 8),
        (1_535, 8),
        (1_536, 6),
        (2_048, 5),
        (2_560, 5),
        (3_071, 5),
        (3_072, 5),
        (3_584, 4),
        (4_096, 4),
        (8_191, 4),
        (8_192, 4),
        (15_871, 4),
        (15_872, 4),
        (16_383, 4),
        (16_384, 4),
    ] {
        assert_eq!(
            autosize(&Autosize {
                min_rtt_us: Some(rtt),
                ..BASE
            }),
            want,
            "{rtt} us"
        );
    }
    for (log, want) in [
        (7, 4),
        (8, 4),
        (9, 6),
        (10, 12),
        (11, 16),
        (12, 16),
        (31, 16),
    ] {
        let a = Autosize {
            min_rtt_us: Some(2_000),
            rtt_log: Some(log),
            ..BASE
        };
        assert_eq!(autosize(&a), want, "log {log}");
    }
}

#[test]
fn log_zero_is_not_off() {
    for (rtt, want) in [(1, 12), (3, 6), (5, 5), (10, 4), (16, 4), (31, 4), (32, 4)] {
        let a = Autosize {
            min_rtt_us: Some(rtt),
            rtt_log: Some(0),
            ..BASE
        };
        assert_eq!(autosize(&a), want, "{rtt} us");
    }
}

#[test]
fn floors_and_caps() {
    let far = Autosize {
        mss: 1_448,
        min_rtt_us: Some(40_000),
        ..BASE
    };
    let slow = Autosize {
        pacing_rate: 125_000,
        ..far
    };
    assert_eq!(autosize(&slow), 2);
    assert_eq!(
        autosize(&Autosize {
            min_segs: 1,
            ..slow
        }),
        1
    );
    for pacing_rate in [1_250_000_000, 12_500_000_000, u64::MAX] {
        assert_eq!(
            autosize(&Autosize {
                pacing_rate,
                gso_max: 65_215,
                ..far
            }),
            45
        );
    }
    let fast = Autosize {
        pacing_rate: 12_500_000_000,
        mss: 536,
        gso_max: 65_215,
        min_rtt_us: None,
        max_segs: 64,
        ..BASE
    };
    assert_eq!(autosize(&fast), 64);
    assert_eq!(
        autosize(&Autosize {
            mss: 1_448,
            max_segs: 1,
            ..fast
        }),
        1
    );
    let huge_mss = Autosize {
        mss: 65_483,
        gso_max: 65_215,
        min_rtt_us: Some(10),
        ..BASE
    };
    assert_eq!(autosize(&huge_mss), 2);
}

#[test]
fn quotas() {
    for (cwnd, in_flight, want) in [
        (10, 0, 5),
        (10, 4, 5),
        (10, 5, 5),
        (10, 9, 1),
        (10, 10, 0),
        (10, 12, 0),
        (1, 0, 1),
        (1, 1, 0),
        (2, 0, 1),
        (3, 0, 1),
        (3, 2, 1),
        (100, 30, 50),
    ] {
        assert_eq!(cwnd_quota(cwnd, in_flight), want, "{cwnd} {in_flight}");
    }
}

#[test]
fn split_points() {
    for (len, segs, window, tail, partial_blocked, want) in [
        (65_160, 45, 1_048_576, false, false, 65_160),
        (65_160, 20, 1_048_576, false, false, 28_960),
        (10_000, 45, 1_048_576, true, false, 10_000),
        (10_000, 45, 1_048_576, true, true, 8_688),
        (65_160, 45, 20_000, true, false, 20_000),
        (65_160, 45, 20_000, true, true, 18_824),
        (2_896, 2, 2_896, true, true, 2_896),
        (3_000, 2, 3_000, true, true, 2_896),
    ] {
        let s = Split {
            len,
            mss: 1_448,
            segs,
            window,
            tail,
            partial_blocked,
        };
        assert_eq!(split_point(&s), want, "{s:?}");
    }
}

const MS: u64 = 1_000_000;
const NOW: u64 = 1_000 * MS;

/// cwnd 10 with 8 in flight, 1 ms of srtt, and the next ACK due in 100 µs.
const OPEN_2_OF_10: DeferInput = DeferInput {
    in_recovery: false,
    now_ns: NOW,
    wstamp_ns: NOW,
    in_flight: 8,
    cwnd: 10,
    snd_wnd: 1 << 20,
    wnd_left: 1 << 20,
    mss: 1_448,
    segs: 45,
    len: 65_160,
    tail: true,
    win_divisor: 3,
    head_sent_ns: Some(NOW - 900_000),
    srtt8_us: 8_000,
    fin_or_eor: false,
};

fn verdict(d: DeferInput) -> (bool, bool, bool) {
    let r = should_defer(&d);
    (r.defer, r.cwnd_limited, r.rwnd_limited)
}

#[test]
fn deferral() {
    let d = OPEN_2_OF_10;
    let go = (false, false, false);
    let cwnd = (true, true, false);
    assert_eq!(verdict(d), cwnd);
    assert_eq!(
        verdict(DeferInput { in_flight: 6, ..d }),
        go,
        "share reached"
    );
    assert_eq!(
        verdict(DeferInput { in_flight: 7, ..d }),
        cwnd,
        "below a third"
    );
    let no_div = DeferInput {
        win_divisor: 0,
        ..d
    };
    assert_eq!(
        verdict(DeferInput {
            in_flight: 6,
            ..no_div
        }),
        go,
        "4 mss"
    );
    assert_eq!(
        verdict(DeferInput {
            in_flight: 7,
            ..no_div
        }),
        cwnd,
        "3 mss"
    );
    assert_eq!(
        verdict(DeferInput {
            in_recovery: true,
            ..d
        }),
        go
    );
    assert_eq!(
        verdict(DeferInput {
            wstamp_ns: NOW - 1_200_000,
            ..d
        }),
        go
    );
    assert_eq!(
        verdict(DeferInput {
            wstamp_ns: NOW - MS,
            ..d
        }),
        cwnd,
        "exactly 1 ms"
    );
    assert_eq!(
        verdict(DeferInput {
            wstamp_ns: NOW + 5 * MS,
            ..d
        }),
        cwnd,
        "future stamp"
    );
    let far_ack = DeferInput {
        head_sent_ns: Some(NOW - 100_000),
        ..d
    };
    assert_eq!(verdict(far_ack), go, "ack 900 us away");
    let slow = DeferInput {
        srtt8_us: 160_000,
        ..d
    };
    let sent = |in_us: u64| Some(NOW - 20 * MS + in_us * 1_000);
    assert_eq!(
        verdict(DeferInput {
            head_sent_ns: sent(900),
            ..slow
        }),
        cwnd
    );
    assert_eq!(
        verdict(DeferInput {
            head_sent_ns: sent(1_100),
            ..slow
        }),
        go
    );
    assert_eq!(
        verdict(DeferInput {
            head_sent_ns: None,
            ..no_div
        }),
        go
    );
    let rwnd = DeferInput {
        wnd_left: 2_000,
        ..d
    };
    assert_eq!(verdict(rwnd), (true, false, true));
    // A full burst, and a buffer that will not grow.
    assert_eq!(verdict(DeferInput { segs: 2, ..d }), go);
    assert_eq!(
        verdict(DeferInput {
            tail: false,
            len: 2_896,
            ..d
        }),
        go
    );
    let fin = DeferInput {
        len: 100,
        fin_or_eor: true,
        ..d
    };
    assert_eq!(verdict(fin), go);
    assert_eq!(
        verdict(DeferInput {
            fin_or_eor: false,
            ..fin
        }),
        (true, false, false)
    );
}

#[test]
fn share_of_the_window_2004() {
    for (cwnd, divisor, want) in [
        (80, 8, 10),
        (16, 8, 2),
        (7, 8, 1),
        (4, 8, 1),
        (80, 0, 45),
        (100, 4, 25),
    ] {
        assert_eq!(win_divisor_2004(1_448, cwnd, divisor, 52), want);
    }
}

proptest! {
    #[test]
    fn size_is_bounded_and_monotone(
        pacing_rate: u64, mss: u64, gso_max: u64, min_rtt: Option<u64>, rtt_log: Option<u8>,
        min_segs: u64, max_segs: u64, shift: u32,
    ) {
        let a = Autosize {
            pacing_rate, mss, gso_max, min_rtt_us: min_rtt, rtt_log, min_segs, max_segs, shift,
        };
        let n = autosize(&a);
        prop_assert!(n >= 1 && n <= max_segs.max(1));
        let faster = Autosize { pacing_rate: pacing_rate.saturating_add(1 << 20), ..a };
        prop_assert!(autosize(&faster) >= n);
        let farther = Autosize { min_rtt_us: min_rtt.map(|r| r.saturating_add(600)), ..a };
        prop_assert!(autosize(&farther) <= n);
    }

    #[test]
    fn size_realistic_is_monotone(
        rate in 0u64..20_000_000_000, mss in 88u64..9_000, gso_max in 1_000u64..300_000,
        rtt in 0u64..20_000, log in 0u8..=31,
    ) {
        let a = Autosize {
            pacing_rate: rate, mss, gso_max, min_rtt_us: Some(rtt), rtt_log: Some(log), ..BASE
        };
        let n = autosize(&a);
        prop_assert!(n == 2 || n * mss <= gso_max);
        let faster = autosize(&Autosize { pacing_rate: rate + 100_000, ..a });
        let farther = autosize(&Autosize { min_rtt_us: Some(rtt + 1), ..a });
        prop_assert!(faster >= n && farther <= n);
    }

    #[test]
    fn quota_leaves_room_for_a_second_burst(cwnd: u64, in_flight: u64) {
        let q = cwnd_quota(cwnd, in_flight);
        prop_assert!(q <= cwnd.saturating_sub(in_flight));
        prop_assert!(q <= (cwnd / 2).max(1));
        prop_assert_eq!(q == 0, in_flight >= cwnd);
    }

    #[test]
    fn split_stays_inside(
        len: u64, mss: u64, segs: u64, window: u64, tail: bool, partial_blocked: bool,
    ) {
        let b = split_point(&Split { len, mss, segs, window, tail, partial_blocked });
        prop_assert!(b <= len && b <= window.max(segs.saturating_mul(mss.max(1))));
        prop_assert!(b <= segs.saturating_mul(mss.max(1)));
        if partial_blocked && tail {
            prop_assert_eq!(b % mss.max(1), 0);
        }
    }

    #[test]
    fn tags_imply_deferral(
        in_recovery: bool, now_ns: u64, wstamp_ns: u64, in_flight: u64, cwnd: u64, snd_wnd: u64,
        wnd_left: u64, mss: u64, segs: u64, len: u64, flags in any::<(bool, bool)>(),
    ) {
        for (win_divisor, head_sent_ns, srtt8_us) in
            [(0, None, 0), (3, Some(now_ns / 2), u64::MAX), (u64::MAX, Some(u64::MAX), 1)]
        {
            let r = should_defer(&DeferInput {
                in_recovery, now_ns, wstamp_ns, in_flight, cwnd, snd_wnd, wnd_left, mss, segs, len,
                tail: flags.0, win_divisor, head_sent_ns, srtt8_us, fin_or_eor: flags.1,
            });
            prop_assert!(r.defer || !(r.cwnd_limited || r.rwnd_limited));
            prop_assert!(!(r.cwnd_limited && r.rwnd_limited));
            prop_assert!(!(r.defer && (in_recovery || head_sent_ns.is_none())));
        }
    }

    #[test]
    fn share_2004_is_bounded(mss: u64, cwnd: u64, divisor: u64, header: u64) {
        let n = win_divisor_2004(mss, cwnd, divisor, header);
        prop_assert!(n <= cwnd.max(1) && n.saturating_mul(mss) <= 65_535);
    }
}
