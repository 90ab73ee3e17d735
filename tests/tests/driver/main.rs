// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver on both NICs: the model, and the logic compiled by Verilator.

mod faults;
mod resets;
mod rig;
mod transfers;

/// Each case on the model and on the logic.
macro_rules! on_both {
    ($($module:ident :: $case:ident,)*) => {
        mod model {
            $(#[test]
            fn $case() {
                crate::$module::$case(crate::rig::rig(crate::rig::On::Model));
            })*
        }
        mod rtl {
            $(#[test]
            fn $case() {
                crate::$module::$case(crate::rig::rig(crate::rig::On::Rtl));
            })*
        }
    };
}

on_both! {
    transfers::a_burst_of_many_fragments_comes_back_byte_for_byte,
    transfers::thousands_of_bursts_wrap_every_ring,
    transfers::a_flow_leaves_at_its_rate,
    transfers::a_launch_time_is_kept,
    faults::an_address_fault_ends_its_burst_and_no_other,
    faults::a_burst_that_breaks_the_contract_is_not_posted,
    faults::a_descriptor_spoilt_in_memory_ends_its_burst_and_no_other,
    faults::a_doorbell_beyond_the_ring_is_refused,
    faults::another_contract_is_refused,
    resets::a_queue_full_of_slow_flows_is_reset_alone_and_works_again,
    resets::the_whole_device_is_reset_and_works_again,
    resets::a_closed_device_leaves_no_mapping,
}
