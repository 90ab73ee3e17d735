// SPDX-License-Identifier: MIT OR Apache-2.0
//! What software can get wrong, each with a code, a cause and a remedy.

macro_rules! codes {
    ($( $(#[$doc:meta])* $variant:ident = $code:literal, $name:literal, $cause:literal, $remedy:literal; )*) => {
        /// Status of a completion, and the code of an error line of the CLI.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Status { $( #[doc = $cause] $variant = $code, )* }

        impl Status {
            /// Every status, lowest code first.
            pub const ALL: &[Status] = &[$(Status::$variant),*];

            /// The status of a code; `None` for a code of another contract.
            pub const fn from_code(code: u8) -> Option<Status> {
                match code { $( $code => Some(Status::$variant), )* _ => None }
            }

            /// The code in the completion.
            pub const fn code(self) -> u8 { self as u8 }

            /// Upper-case name.
            pub const fn name(self) -> &'static str {
                match self { $( Status::$variant => $name, )* }
            }

            /// What went wrong.
            pub const fn cause(self) -> &'static str {
                match self { $( Status::$variant => $cause, )* }
            }

            /// What to do about it.
            pub const fn remedy(self) -> &'static str {
                match self { $( Status::$variant => $remedy, )* }
            }
        }
    };
}

codes! {
    Ok = 0, "OK", "done", "nothing to do";
    MssZero = 1, "MSS_ZERO", "a burst to be segmented has an mss of 0", "set mss to the payload bytes of one segment, at least 1";
    SegmentTooLarge = 2, "SEGMENT_TOO_LARGE", "one segment's payload exceeds the build's max_segment", "lower mss (or the payload of a checksum-only frame) to the MAX_SEGMENT register, or build with a larger one";
    BadHeaderLength = 3, "BAD_HEADER_LENGTH", "a header length is odd where it must be even, too short for its protocol, or the header exceeds 256 bytes", "give l2_len >= 14 and even, l3_len and l4_len as the headers have them, and a sum of at most 256";
    LengthMismatch = 4, "LENGTH_MISMATCH", "the fragments do not add up to payload_len", "make payload_len the sum of the fragment lengths, none of them 0";
    TooManyFragments = 5, "TOO_MANY_FRAGMENTS", "a burst has more than 17 fragments", "copy small fragments together, or split the burst";
    ReservedBits = 6, "RESERVED_BITS", "a reserved bit of a descriptor is set", "clear reserved bits; check that driver and device speak the same contract version";
    BadKind = 7, "BAD_KIND", "the descriptor's kind is none that this build knows", "use RAW, CSUM, TSO or USO as the FEATURES register allows";
    BadFlowSlot = 8, "BAD_FLOW_SLOT", "the flow slot is not below the FLOW_SLOTS register", "use a slot of the table, or slot 0 for an unpaced burst";
    AddressFault = 9, "ADDRESS_FAULT", "a read or write of the device met an address that is not mapped for it", "map the memory before posting it, and unmap only after its completion";
    DoorbellOutOfRange = 10, "DOORBELL_OUT_OF_RANGE", "a doorbell holds an index beyond the ring", "write the new tail modulo the ring size";
    QueueDisabled = 11, "QUEUE_DISABLED", "a doorbell was rung for a queue that is not enabled", "enable the queue first";
    QueueReset = 12, "QUEUE_RESET", "the queue was reset while the burst was in the device", "post the burst again if it is still wanted";
    BeyondHorizon = 13, "BEYOND_HORIZON", "the launch time lies beyond the pacer's horizon", "post it later, or let the device cap it";
    RxNoBuffer = 14, "RX_NO_BUFFER", "a received frame found no buffer in its ring", "post more receive buffers, or reap faster";
    RxTooLong = 15, "RX_TOO_LONG", "a received frame is longer than the device stores", "lower the peer's MTU";
    BadInput = 32, "BAD_INPUT", "a line of input is not what the command takes", "see the command's --help for keys, types and ranges";
    UnknownFunction = 33, "UNKNOWN_FUNCTION", "explain has no function of that name", "see tsonic explain --help for the list";
    NotSupported = 34, "NOT_SUPPORTED", "this build does not do that", "see the FEATURES register, or tsonic regs";
}

impl core::fmt::Display for Status {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}: {}; {}", self.name(), self.cause(), self.remedy())
    }
}

#[cfg(test)]
mod tests {
    use super::Status;

    #[test]
    fn codes_and_names_are_unique_and_told() {
        for (i, a) in Status::ALL.iter().enumerate() {
            assert_eq!(Status::from_code(a.code()), Some(*a));
            assert!(!a.remedy().is_empty() && !a.cause().is_empty());
            for b in &Status::ALL[i + 1..] {
                assert!(a.code() < b.code() && a.name() != b.name());
            }
        }
        assert_eq!(Status::from_code(255), None);
    }
}
