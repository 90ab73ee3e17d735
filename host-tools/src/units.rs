// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sizes, rates, shares and spans as people type them.

use bytesize::ByteSize;
use std::time::Duration;
use tsonic_types::ByteRate;

/// Bytes: `64MiB`, `1500`, `10kB`.
///
/// # Errors
/// A sentence that says what is taken.
pub fn size(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "'{text}' is no size: write bytes, or a number with kB, MB, GB, KiB, MiB, GiB (64MiB)"
        )
    };
    match text.parse::<ByteSize>() {
        // The parser stops at the largest number there is.
        Ok(size) if size.as_u64() < u64::MAX => Ok(size.as_u64()),
        _ => Err(wrong()),
    }
}

/// Longest span that is taken: more than any link's delay or anyone's patience.
const SPAN_MAX: Duration = Duration::from_hours(24);

/// Bytes per second: `20MB/s`, `1MiB/s`, or in bits as `tc` writes them: `1Gbit`, `800kbit`.
///
/// # Errors
/// A sentence that says what is taken.
pub fn rate(text: &str) -> Result<ByteRate, String> {
    let wrong = || {
        format!(
            "'{text}' is no rate: write bytes a second (20MB/s) or bits a second (1Gbit), above 0"
        )
    };
    let lower = text.trim().to_ascii_lowercase();
    if lower.parse::<f64>().is_ok_and(|n| n > 0.0 && n.is_finite()) {
        return Err(format!(
            "'{text}' has no unit: write {text}MB/s for bytes a second, or {text}Mbit for bits a second"
        ));
    }
    let bytes = if let Some(per_second) = lower.strip_suffix("/s") {
        size(per_second).map_err(|_| wrong())?
    } else if let Some(bits) = lower.strip_suffix("bit") {
        let (number, scale) = match bits.chars().last() {
            Some('k') => (&bits[..bits.len() - 1], 1e3),
            Some('m') => (&bits[..bits.len() - 1], 1e6),
            Some('g') => (&bits[..bits.len() - 1], 1e9),
            _ => (bits, 1.0),
        };
        let number: f64 = number.trim().parse().map_err(|_| wrong())?;
        if !(number.is_finite() && number > 0.0) {
            return Err(wrong());
        }
        (number * scale / 8.0) as u64
    } else {
        return Err(wrong());
    };
    if bytes == 0 {
        Err(wrong())
    } else {
        Ok(ByteRate(bytes))
    }
}

/// A share: `0.01` or `1%`.
///
/// # Errors
/// A sentence that says what is taken.
pub fn share(text: &str) -> Result<f64, String> {
    let wrong =
        || format!("'{text}' is no share: write a number from 0 to 1 (0.01) or a percentage (1%)");
    let (number, scale) = match text.trim().strip_suffix('%') {
        Some(percent) => (percent, 100.0),
        None => (text.trim(), 1.0),
    };
    let value = number.trim().parse::<f64>().map_err(|_| wrong())? / scale;
    if (0.0..=1.0).contains(&value) {
        Ok(value)
    } else {
        Err(wrong())
    }
}

/// A span: `1ms`, `200us`, `5s`, `10ns`; a bare number is seconds.
///
/// # Errors
/// A sentence that says what is taken.
pub fn span(text: &str) -> Result<Duration, String> {
    let wrong = || {
        format!("'{text}' is no span: write a number with ns, us, ms or s (200us), a day at most")
    };
    let lower = text.trim();
    let (number, scale) = [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)]
        .iter()
        .find_map(|(unit, scale)| lower.strip_suffix(unit).map(|n| (n, *scale)))
        .unwrap_or((lower, 1.0));
    let seconds = number.trim().parse::<f64>().map_err(|_| wrong())? * scale;
    let span = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
    match span <= SPAN_MAX {
        true => Ok(span),
        false => Err(wrong()),
    }
}

/// Longest delay of a wire, one way. With more nobody finds a neighbour: a request is given
/// up before its answer can be there.
const DELAY_MAX: Duration = Duration::from_secs(1);

/// A delay of a wire: a span that connections survive.
///
/// # Errors
/// A sentence that says what is taken.
pub fn delay(text: &str) -> Result<Duration, String> {
    match span(text)? {
        delay if delay <= DELAY_MAX => Ok(delay),
        delay => Err(format!(
            "a delay of {} s is longer than a neighbour is waited for: choose 1s at most (a number without unit is seconds)",
            delay.as_secs_f64()
        )),
    }
}

/// A span of time in which something is measured: 1 us at least.
///
/// # Errors
/// A sentence that says what is taken.
pub fn measured(text: &str) -> Result<Duration, String> {
    match span(text)? {
        time if time >= Duration::from_micros(1) => Ok(time),
        _ => Err(format!("'{text}' is too short to measure in: 1us at least")),
    }
}

/// An assignment: `NAME=VALUE`.
///
/// # Errors
/// A sentence that says what is taken.
pub fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(format!("'{text}' is no assignment: write NAME=VALUE")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_type_is_understood_or_refused() {
        assert_eq!(size("64MiB"), Ok(64 << 20));
        assert_eq!(size("1500"), Ok(1500));
        assert!(size("much").is_err() && size("-1").is_err());
        assert_eq!(rate("20MB/s"), Ok(ByteRate(20_000_000)));
        assert_eq!(rate("1Gbit"), Ok(ByteRate(125_000_000)));
        assert_eq!(rate("800kbit"), Ok(ByteRate(100_000)));
        for bad in ["0MB/s", "fast", "-1Gbit", "NaNbit", "1Gbit/s", ""] {
            assert!(rate(bad).is_err(), "{bad}");
        }
        for (bare, unit) in [("20", "20MB/s"), ("1.5", "1.5Mbit")] {
            assert!(rate(bare).unwrap_err().contains(unit), "{bare}");
        }
        assert_eq!(delay("1s"), Ok(Duration::from_secs(1)));
        assert!(delay("5").unwrap_err().contains("a delay of 5 s"));
        assert_eq!(share("1%"), Ok(0.01));
        assert_eq!(share("0.5"), Ok(0.5));
        assert!(share("101%").is_err() && share("-0.1").is_err() && share("NaN").is_err());
        assert_eq!(span("200us"), Ok(Duration::from_micros(200)));
        assert_eq!(span("1.5"), Ok(Duration::from_millis(1500)));
        assert!(span("-1s").is_err() && span("soon").is_err());
    }
}
