// SPDX-License-Identifier: MIT OR Apache-2.0
//! What makes a burst descriptor acceptable, and which code an unacceptable one
//! gets. The order of the rules is part of the contract: driver, model and logic
//! answer a descriptor with several faults with the same code.

use crate::Status;
use crate::descriptor::{FragmentEntry, Kind, TxDescriptor, tx_control};
use crate::limits::{FRAGMENTS_MAX, HEADER_MAX, INLINE_FRAGMENTS, L2_LEN_MIN};
use crate::registers::Features;

/// Bytes of a UDP header; an `l4_len` of this says that the protocol is UDP,
/// any other that it is TCP.
pub const UDP_HEADER: usize = 8;
/// Shortest TCP header in bytes.
pub const TCP_HEADER_MIN: usize = 20;
/// Longest TCP header in bytes.
pub const TCP_HEADER_MAX: usize = 60;
/// Shortest IPv4 header in bytes.
pub const IPV4_HEADER_MIN: usize = 20;
/// Longest IPv4 header in bytes.
pub const IPV4_HEADER_MAX: usize = 60;
/// Bytes of an IPv6 header without extension headers.
pub const IPV6_HEADER: usize = 40;

/// What of a build the check depends on.
#[derive(Clone, Copy, Debug)]
pub struct BuildLimits {
    /// FEATURES register.
    pub features: Features,
    /// FLOW_SLOTS register.
    pub flow_slots: u32,
    /// MAX_SEGMENT register.
    pub max_segment: u32,
}

/// The status of a descriptor by the first rule it breaks; [`Status::Ok`] when
/// the device takes it. What a continuation list holds is checked when the
/// device reads it ([`check_list`]).
#[inline]
pub fn check(d: &TxDescriptor, build: &BuildLimits) -> Status {
    let words = d.to_words();
    if TxDescriptor::RESERVED
        .iter()
        .any(|(word, mask)| words[*word] & mask != 0)
    {
        return Status::ReservedBits;
    }
    let kind = match Kind::from_code(d.control.kind()) {
        Some(Kind::Tso) if build.features.tso() == 0 => return Status::BadKind,
        Some(Kind::Uso) if build.features.uso() == 0 => return Status::BadKind,
        None => return Status::BadKind,
        Some(kind) => kind,
    };
    if u32::from(d.burst.flow_slot()) >= build.flow_slots {
        return Status::BadFlowSlot;
    }
    let fragments = usize::from(d.control.fragments());
    if fragments > FRAGMENTS_MAX {
        return Status::TooManyFragments;
    }
    if !header_ok(d, kind) {
        return Status::BadHeaderLength;
    }
    if !lengths_ok(d, fragments) {
        return Status::LengthMismatch;
    }
    let segmented = matches!(kind, Kind::Tso | Kind::Uso);
    if segmented && d.control.mss() == 0 {
        return Status::MssZero;
    }
    let segment = if segmented {
        d.burst.payload_len().min(u32::from(d.control.mss()))
    } else {
        d.burst.payload_len()
    };
    if segment > build.max_segment {
        return Status::SegmentTooLarge;
    }
    Status::Ok
}

/// Even lengths keep the checksum's halfwords in place; the rest are the bounds
/// of the protocols.
#[inline]
fn header_ok(d: &TxDescriptor, kind: Kind) -> bool {
    let l2 = usize::from(d.control.l2_len());
    let l3 = usize::from(d.control.l3_len());
    let l4 = usize::from(d.control.l4_len());
    if l2 < L2_LEN_MIN || !l2.is_multiple_of(2) || d.header_len() > HEADER_MAX {
        return false;
    }
    let l3_ok = if d.control.ipv6() == 1 {
        l3 >= IPV6_HEADER && l3.is_multiple_of(8)
    } else {
        (IPV4_HEADER_MIN..=IPV4_HEADER_MAX).contains(&l3) && l3.is_multiple_of(4)
    };
    let tcp_ok = (TCP_HEADER_MIN..=TCP_HEADER_MAX).contains(&l4) && l4.is_multiple_of(4);
    match kind {
        Kind::Raw => l3.is_multiple_of(2) && l4.is_multiple_of(2),
        Kind::Csum => l3_ok && (tcp_ok || l4 == UDP_HEADER),
        Kind::Tso => l3_ok && tcp_ok,
        Kind::Uso => l3_ok && l4 == UDP_HEADER,
    }
}

#[inline]
fn lengths_ok(d: &TxDescriptor, fragments: usize) -> bool {
    let (f0, f1) = (d.lengths.frag0_len(), d.lengths.frag1_len());
    let payload = d.burst.payload_len();
    match fragments {
        0 => f0 == 0 && f1 == 0 && payload == 0,
        1 => f0 != 0 && f1 == 0 && f0 == payload,
        2 => f0 != 0 && f1 != 0 && f0 + f1 == payload,
        _ => {
            f0 != 0
                && f1 == 0
                && f0 < payload
                && d.frag1_addr.is_multiple_of(FragmentEntry::BYTES as u64)
        }
    }
}

/// Entries of the continuation list of a burst of `fragments` fragments.
pub const fn list_entries(fragments: usize) -> usize {
    if fragments > INLINE_FRAGMENTS {
        fragments - 1
    } else {
        0
    }
}

/// Whether a continuation list completes `payload_len` after `frag0_len` bytes:
/// no entry of length 0, no reserved bit, and the sum exact.
pub fn check_list(d: &TxDescriptor, list: &[FragmentEntry]) -> Status {
    let mut sum = u64::from(d.lengths.frag0_len());
    for entry in list {
        if entry.length.0 & !crate::descriptor::fragment_length::BYTES.mask() != 0 {
            return Status::ReservedBits;
        }
        if entry.length.bytes() == 0 {
            return Status::LengthMismatch;
        }
        sum += u64::from(entry.length.bytes());
    }
    if sum == u64::from(d.burst.payload_len()) {
        Status::Ok
    } else {
        Status::LengthMismatch
    }
}

const _: () = assert!(FRAGMENTS_MAX <= tx_control::FRAGMENTS.max() as usize);

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> (TxDescriptor, BuildLimits) {
        let mut d = TxDescriptor::default();
        d.control.set_kind(Kind::Tso as u8);
        d.control.set_l2_len(14);
        d.control.set_l3_len(20);
        d.control.set_l4_len(32);
        d.control.set_fragments(1);
        d.control.set_mss(1448);
        d.burst.set_payload_len(65_160);
        d.lengths.set_frag0_len(65_160);
        let mut features = Features(0);
        features.set_tso(1);
        (
            d,
            BuildLimits {
                features,
                flow_slots: 64,
                max_segment: 16_000,
            },
        )
    }

    #[test]
    fn each_fault_has_its_code() {
        let (d, b) = good();
        assert_eq!(check(&d, &b), Status::Ok);
        type Fault = fn(&mut TxDescriptor);
        let faults: &[(Status, Fault)] = &[
            (Status::ReservedBits, |d| d.control.0 |= 1 << 46),
            (Status::BadKind, |d| d.control.set_kind(9)),
            (Status::BadKind, |d| d.control.set_kind(Kind::Uso as u8)),
            (Status::BadFlowSlot, |d| d.burst.set_flow_slot(64)),
            (Status::TooManyFragments, |d| d.control.set_fragments(18)),
            (Status::BadHeaderLength, |d| d.control.set_l2_len(13)),
            (Status::BadHeaderLength, |d| d.control.set_l4_len(18)),
            (Status::BadHeaderLength, |d| d.control.set_l3_len(400)),
            (Status::LengthMismatch, |d| d.burst.set_payload_len(65_161)),
            (Status::LengthMismatch, |d| d.control.set_fragments(2)),
            (Status::MssZero, |d| d.control.set_mss(0)),
            (Status::SegmentTooLarge, |d| d.control.set_mss(16_001)),
        ];
        for (status, fault) in faults {
            let mut bad = d;
            fault(&mut bad);
            assert_eq!(check(&bad, &b), *status);
        }
        // Several faults: the first rule of the order answers.
        let mut bad = d;
        bad.control.set_mss(0);
        bad.burst.set_flow_slot(64);
        assert_eq!(check(&bad, &b), Status::BadFlowSlot);
        // An mss above the limit is fine when the payload fits one segment.
        let mut one = d;
        one.control.set_mss(65_000);
        one.burst.set_payload_len(100);
        one.lengths.set_frag0_len(100);
        assert_eq!(check(&one, &b), Status::Ok);
    }

    #[test]
    fn lists_must_add_up() {
        let (mut d, _) = good();
        d.control.set_fragments(3);
        d.lengths.set_frag0_len(65_000);
        let mut e = [FragmentEntry::default(); 2];
        e[0].length.set_bytes(100);
        e[1].length.set_bytes(60);
        assert_eq!(list_entries(3), 2);
        assert_eq!(check_list(&d, &e), Status::Ok);
        e[1].length.set_bytes(61);
        assert_eq!(check_list(&d, &e), Status::LengthMismatch);
        e[1].length.set_bytes(0);
        assert_eq!(check_list(&d, &e), Status::LengthMismatch);
        e[1].length.0 = 1 << 40 | 60;
        assert_eq!(check_list(&d, &e), Status::ReservedBits);
    }
}
