// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bursts by their share of the congestion window: `net.ipv4.tcp_tso_win_divisor` in the form
//! of 2004 and in today's.
//!
//! In 2004 the divisor was the size: a burst took a share of the congestion window, and left
//! when the window had room for all of it. Today the size follows the pacing rate, a burst takes half
//! of the window at most, and the divisor only says how much of the window must be open for a
//! burst that is cut short to leave at once.
//!
//! One connection sends as much as it can with a congestion window that is held at one size.
//! Nothing spaces what it sends, as in 2004, and nothing is lost. A small window does not fill the
//! wire, whatever the form; what a form costs beyond that is the time in which the wire waits for a
//! burst that waits for the window.

use crate::hosts::{Hosts, HostsError, Setting};
use serde::Serialize;
use std::time::Duration;
use tsonic_regs::limits::WIRE_OVERHEAD;
use tsonic_sim::nic::Nic;
use tsonic_sim::root_complex::RootComplexConfig;
use tsonic_sim::wire::PathConfig;
use tsonic_sim::world::LinkConfig;
use tsonic_tcp::arith::tso::win_divisor_2004;
use tsonic_types::{ByteRate, Nanos};

/// Payload of a segment with timestamps, its headers, and those of IP and TCP.
const MSS: u32 = 1448;
const HEADERS: u32 = 66;
const PACKET_HEADERS: u32 = 52;
/// Largest burst in payload bytes.
const GSO_MAX: u32 = 65_536;
/// Largest window that is asked for.
pub const CWND_MAX: u32 = 1_000;

/// How bursts are sized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// Every burst is one segment.
    Off,
    /// As in 2004.
    #[serde(rename = "2004")]
    Y2004,
    /// As today.
    Today,
}

/// What is run: each form with each divisor and window at each RTT. With segmentation off there
/// is nothing to divide, and one row for all divisors.
pub struct Settings<'a> {
    /// Makes a NIC.
    pub nic: &'a dyn Fn() -> Box<dyn Nic + Send>,
    /// The bus between it and the host.
    pub bus: RootComplexConfig,
    /// Speed of the wire.
    pub wire: ByteRate,
    /// Round trip times of the wire.
    pub rtts: &'a [Duration],
    /// Forms.
    pub forms: &'a [Form],
    /// Values of `tcp_tso_win_divisor`.
    pub divisors: &'a [u32],
    /// Congestion windows in segments, 1 to [`CWND_MAX`].
    pub cwnds: &'a [u32],
    /// Virtual time before the measurement.
    pub warm_up: Duration,
    /// Virtual time of the measurement.
    pub time: Duration,
    /// Seed.
    pub seed: u64,
}

/// A row of the result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Row {
    /// RTT of the wire, us.
    pub rtt_us: f64,
    /// How bursts are sized.
    pub form: Form,
    /// `tcp_tso_win_divisor`; `None`: it has no meaning.
    pub divisor: Option<u32>,
    /// Congestion window at the end, segments.
    pub cwnd: u32,
    /// Goodput in bits per second.
    pub goodput: f64,
    /// Share of the wire that its frames take.
    pub wire_share: f64,
    /// Segments in a burst, mean.
    pub segments_per_burst: f64,
    /// What the arithmetic says of them: the share of 2004; today the most, as small windows
    /// cut bursts short.
    pub arithmetic: u32,
    /// Bursts a second.
    pub bursts_per_s: f64,
    /// Times a second that a burst waited for more of the window.
    pub deferrals_per_s: f64,
    /// Smoothed RTT at the end, us.
    pub srtt_us: f64,
    /// Payload bytes sent again.
    pub retransmitted: u64,
}

/// Segments of a burst by a form's arithmetic.
fn arithmetic(form: Form, divisor: u32, cwnd: u32) -> u32 {
    let most = GSO_MAX / MSS;
    match form {
        Form::Off => 1,
        Form::Y2004 => {
            let [mss, cwnd, divisor, header] = [MSS, cwnd, divisor, PACKET_HEADERS].map(u64::from);
            most.min(win_divisor_2004(mss, cwnd, divisor, header) as u32)
        }
        Form::Today => most.min((cwnd / 2).max(1)),
    }
}

/// One row.
///
/// # Errors
/// [`HostsError`].
pub fn measure(
    settings: &Settings<'_>,
    rtt: Duration,
    form: Form,
    divisor: u32,
    cwnd: u32,
) -> Result<Row, HostsError> {
    let nanos = |d: Duration| Nanos(d.as_nanos() as u64);
    let path = PathConfig {
        delay: nanos(rtt / 2),
        seed: settings.seed,
        ..PathConfig::default()
    };
    let link = LinkConfig {
        line_rate: 8 * settings.wire.0,
        out: path,
        back: path,
    };
    let sizing = if form == Form::Y2004 {
        "window"
    } else {
        "rate"
    };
    let sysctl = [
        ("net.ipv4.tcp_tso_win_divisor", divisor.to_string()),
        ("tsonic.tso_sizing", sizing.into()),
        ("tsonic.initial_cwnd", cwnd.to_string()),
        ("tsonic.cwnd_clamp", cwnd.to_string()),
        ("tsonic.pacing", "0".into()),
    ];
    let mut hosts = Hosts::start(&Setting {
        sysctl: &sysctl,
        gso_max: GSO_MAX,
        tso: form != Form::Off,
        seed: settings.seed,
        ..Setting::new(settings.nic, settings.bus, link)
    })?;
    let start = hosts.now() + nanos(settings.warm_up);
    hosts.run(start, |_, _| {})?;
    let (start, before) = (hosts.now(), hosts.look());
    hosts.run(start + nanos(settings.time), |_, _| {})?;
    let seconds = hosts.now().since(start).0 as f64 / 1e9;
    let after = hosts.look();
    let bytes = (after.received - before.received) as f64;
    let on_wire = f64::from(MSS + HEADERS) + WIRE_OVERHEAD as f64;
    let bursts = (after.bursts - before.bursts) as f64;
    Ok(Row {
        rtt_us: rtt.as_secs_f64() * 1e6,
        form,
        divisor: (form != Form::Off).then_some(divisor),
        cwnd: after.cwnd,
        goodput: 8.0 * bytes / seconds,
        wire_share: bytes / f64::from(MSS) * on_wire / seconds / settings.wire.0 as f64,
        segments_per_burst: (after.segments - before.segments) as f64 / bursts.max(1.0),
        arithmetic: arithmetic(form, divisor, cwnd),
        bursts_per_s: bursts / seconds,
        deferrals_per_s: (after.deferred - before.deferred) as f64 / seconds,
        srtt_us: after.srtt.0 as f64 / 1e3,
        retransmitted: after.retransmitted - before.retransmitted,
    })
}

/// Runs all combinations; `row` gets each row as it is there.
///
/// # Errors
/// [`HostsError`].
pub fn run(settings: &Settings<'_>, mut row: impl FnMut(Row)) -> Result<(), HostsError> {
    for &rtt in settings.rtts {
        for &form in settings.forms {
            let divisors = match form {
                Form::Off => &settings.divisors[..settings.divisors.len().min(1)],
                _ => settings.divisors,
            };
            for &divisor in divisors {
                for &cwnd in settings.cwnds {
                    row(measure(settings, rtt, form, divisor, cwnd)?);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig;
    use tsonic_sim::model::{Model, ModelConfig};

    fn rows(forms: &[Form], divisors: &[u32], cwnds: &[u32]) -> Vec<Row> {
        let nic = || -> Box<dyn Nic + Send> {
            Box::new(Model::new(ModelConfig {
                queues: 4,
                ..rig::fast_model()
            }))
        };
        let settings = Settings {
            nic: &nic,
            bus: rig::fast_bus(),
            wire: ByteRate(125_000_000),
            rtts: &[Duration::from_millis(1)],
            forms,
            divisors,
            cwnds,
            warm_up: Duration::from_millis(50),
            time: Duration::from_millis(100),
            seed: 1,
        };
        let mut rows = Vec::new();
        run(&settings, |row| rows.push(row)).unwrap();
        rows
    }

    #[test]
    fn in_2004_a_burst_is_the_share_of_the_window() {
        let all = rows(&[Form::Y2004], &[1, 3, 8], &[8, 32, 128]);
        for row in &all {
            let want = f64::from(row.arithmetic);
            assert!(
                (row.segments_per_burst / want - 1.0).abs() < 0.03,
                "{row:?}"
            );
            assert_eq!(row.retransmitted, 0, "{row:?}");
        }
        for of_divisor in all.chunks(3) {
            let cwnds: Vec<u32> = of_divisor.iter().map(|r| r.cwnd).collect();
            assert_eq!(cwnds, [8, 32, 128]);
            let mut pairs = of_divisor.windows(2);
            assert!(
                pairs.all(|p| p[0].goodput <= p[1].goodput),
                "{of_divisor:?}"
            );
        }
        // And again, bit by bit.
        assert_eq!(rows(&[Form::Y2004], &[3], &[32]), [all[4]]);
    }

    #[test]
    fn today_the_divisor_changes_the_bursts_and_hardly_the_goodput() {
        let all = rows(&[Form::Off, Form::Today], &[1, 8], &[32, 128]);
        let [off_small, off, whole_small, whole, eighth_small, eighth] = all[..] else {
            panic!("{all:?}")
        };
        for row in [whole_small, whole, eighth_small, eighth] {
            assert!(
                row.segments_per_burst <= f64::from(row.arithmetic),
                "{row:?}"
            );
        }
        // What half a window waits for is missed only where the window does not fill the wire.
        for (row, of, least) in [
            (whole_small, off_small, 0.8),
            (eighth_small, off_small, 0.95),
            (whole, off, 0.995),
            (eighth, off, 0.995),
        ] {
            assert!(row.goodput / of.goodput > least, "{row:?} {of:?}");
        }
        assert!((whole_small.segments_per_burst / 16.0 - 1.0).abs() < 0.03);
        assert!((eighth_small.segments_per_burst / 4.0 - 1.0).abs() < 0.03);
    }
}
