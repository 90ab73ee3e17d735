// SPDX-License-Identifier: MIT OR Apache-2.0
//! Masks of CPUs as `/sys/class/net/*/queues/tx-*/xps_cpus` has them: hexadecimal,
//! a comma between words of 32 CPUs, the highest word first.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// CPUs that a mask can name.
pub const CPUS_MAX: usize = 1024;
const WORDS: usize = CPUS_MAX / 32;

/// Why a text is no mask.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MaskError {
    /// Not hexadecimal words.
    #[error(
        "'{0}' is no mask of CPUs: write up to 8 hexadecimal digits, and a comma between words of 32 CPUs (3, ff, 1,00000000)"
    )]
    Malformed(String),
    /// A CPU beyond the last.
    #[error("'{0}' names a CPU beyond {last}", last = CPUS_MAX - 1)]
    TooWide(String),
}

/// A set of CPUs. Prints and parses, also in JSON, as sysfs does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuMask {
    /// The lowest word first; the last one is not 0.
    words: Vec<u32>,
}

impl CpuMask {
    /// Adds a CPU; one beyond [`CPUS_MAX`] is left out.
    pub fn insert(&mut self, cpu: usize) {
        let word = cpu / 32;
        if word >= WORDS {
            return;
        }
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (cpu % 32);
    }

    /// Whether it names a CPU.
    pub fn contains(&self, cpu: usize) -> bool {
        let word = self.words.get(cpu / 32);
        word.is_some_and(|w| w >> (cpu % 32) & 1 == 1)
    }

    /// One more than the highest CPU that it names.
    pub fn len(&self) -> usize {
        let full = self.words.len().saturating_sub(1) * 32;
        let top = self.words.last().map_or(0, |w| 32 - w.leading_zeros());
        full + top as usize
    }

    /// Whether it names none.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }
}

impl FromStr for CpuMask {
    type Err = MaskError;

    fn from_str(text: &str) -> Result<CpuMask, MaskError> {
        let malformed = || MaskError::Malformed(text.chars().take(80).collect());
        let digits = text.trim();
        let digits = digits.strip_prefix("0x").unwrap_or(digits);
        let mut words = Vec::new();
        for word in digits.rsplit(',') {
            let hexadecimal = word.bytes().all(|b| b.is_ascii_hexdigit());
            if !hexadecimal || !(1..=8).contains(&word.len()) {
                return Err(malformed());
            }
            words.push(u32::from_str_radix(word, 16).map_err(|_| malformed())?);
        }
        while words.last() == Some(&0) {
            words.pop();
        }
        if words.len() > WORDS {
            return Err(MaskError::TooWide(text.chars().take(80).collect()));
        }
        Ok(CpuMask { words })
    }
}

impl fmt::Display for CpuMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((top, rest)) = self.words.split_last() else {
            return write!(f, "0");
        };
        write!(f, "{top:x}")?;
        for word in rest.iter().rev() {
            write!(f, ",{word:08x}")?;
        }
        Ok(())
    }
}

impl TryFrom<String> for CpuMask {
    type Error = MaskError;
    fn try_from(text: String) -> Result<CpuMask, MaskError> {
        text.parse()
    }
}

impl From<CpuMask> for String {
    fn from(mask: CpuMask) -> String {
        mask.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_read_and_print_as_in_sysfs() {
        for (text, printed, cpus) in [
            ("0", "0", vec![]),
            ("3", "3", vec![0, 1]),
            ("0xff00", "ff00", (8..16).collect()),
            ("00000000,00000001", "1", vec![0]),
            ("1,00000000", "1,00000000", vec![32]),
            (
                "80000000,00000000,00000001\n",
                "80000000,00000000,00000001",
                vec![0, 95],
            ),
        ] {
            let mask: CpuMask = text.parse().unwrap();
            assert_eq!(mask.to_string(), printed);
            let named: Vec<usize> = (0..CPUS_MAX).filter(|c| mask.contains(*c)).collect();
            assert_eq!(named, cpus);
            assert_eq!(mask.len(), cpus.last().map_or(0, |c| c + 1));
            let mut again = CpuMask::default();
            cpus.iter().for_each(|c| again.insert(*c));
            assert_eq!(mask, again);
        }
        for bad in ["", ",", "1,", "x", "123456789", "-1", "+1", "1 2"] {
            assert!(bad.parse::<CpuMask>().is_err(), "{bad}");
        }
        let wide = format!("1{}", ",00000000".repeat(WORDS));
        assert!(matches!(
            wide.parse::<CpuMask>(),
            Err(MaskError::TooWide(_))
        ));
        let json = serde_json::to_string(&"f0".parse::<CpuMask>().unwrap()).unwrap();
        assert_eq!(json, "\"f0\"");
        assert!(serde_json::from_str::<CpuMask>("\"g\"").is_err());
    }
}
