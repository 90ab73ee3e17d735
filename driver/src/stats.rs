// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of a queue, under names in the style of ethtool. The queue's number
//! is a label of its own and no part of a name.

macro_rules! counters {
    ($(#[$doc:meta])* $name:ident { $( #[doc = $fdoc:literal] $field:ident, )* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name { $( #[doc = $fdoc] pub $field: u64, )* }

        impl $name {
            /// Every counter with its name.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$( (stringify!($field), self.$field), )*].into_iter()
            }

            /// Every counter's name with what it counts.
            pub const HELP: &[(&str, &str)] = &[$( (stringify!($field), $fdoc), )*];
        }
    };
}

counters! {
    /// Counters of a transmit queue.
    TxStats {
        /// Frames that departed.
        tx_packets,
        /// Wire bytes that departed.
        tx_bytes,
        /// Bursts posted.
        tx_bursts,
        /// Bursts completed, with whatever status.
        tx_completions,
        /// Bursts completed with an error.
        tx_errors,
        /// Posts that found the ring or the burst table full.
        tx_busy,
        /// Posts that broke the contract.
        tx_refused,
        /// Doorbells rung.
        tx_doorbells,
        /// Bursts that joined a congested queue.
        tx_congested,
        /// Times a flow passed its byte limit in the device.
        tx_throttled,
        /// Times a flow fell below it again.
        tx_wakes,
        /// Completions whose cookie names no burst in the device.
        tx_unknown_completions,
        /// Completions with a queue or a head that cannot be.
        tx_malformed_completions,
        /// Errors of the queue itself (refused doorbells).
        tx_queue_errors,
    }
}

counters! {
    /// Counters of a receive queue.
    RxStats {
        /// Frames handed over.
        rx_packets,
        /// Bytes of those frames without FCS.
        rx_bytes,
        /// Frames with a wrong IPv4 or L4 checksum (handed over all the same).
        rx_csum_errors,
        /// Frames that the device completed with an error; not handed over.
        rx_errors,
        /// Frames in more than one buffer.
        rx_multi_buffer,
        /// Buffers posted.
        rx_buffers_posted,
        /// Doorbells rung.
        rx_doorbells,
        /// Completions whose cookie names no posted buffer.
        rx_unknown_completions,
        /// Completions that contradict themselves or the ones before; their frames are dropped.
        rx_malformed_completions,
        /// Errors of the queue itself (refused doorbells).
        rx_queue_errors,
    }
}

counters! {
    /// What a watchdog has done for a queue pair.
    WatchStats {
        /// Completions that were found late, with no interrupt to announce them.
        lost_interrupts,
        /// Times the transmit queue stood still and was reset.
        tx_timeouts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_valid_and_unique() {
        let mut names: Vec<&str> = TxStats::HELP
            .iter()
            .chain(RxStats::HELP)
            .chain(WatchStats::HELP)
            .map(|h| h.0)
            .collect();
        let valid = |n: &&str| n.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        assert!(names.iter().all(valid));
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        let s = TxStats {
            tx_bytes: 7,
            ..TxStats::default()
        };
        assert!(s.iter().any(|c| c == ("tx_bytes", 7)));
    }
}
