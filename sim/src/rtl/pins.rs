// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pins of the NIC's top module, by name, and what is driven on them.

use tsonic_verilate::{Error, Input, Model, Output};

macro_rules! pins {
    ($(#[$doc:meta])* $name:ident { in: $($input:ident),* ; out: $($output:ident),* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub(super) struct $name {
            $(pub(super) $input: Input,)*
            $(pub(super) $output: Output,)*
        }

        impl $name {
            /// Finds the pins.
            pub(super) fn find(model: &Model) -> Result<Self, Error> {
                Ok(Self {
                    $($input: model.input(stringify!($input))?,)*
                    $($output: model.output(stringify!($output))?,)*
                })
            }
        }
    };
}

pins! {
    /// Handles of the top module's pins. Streams and the two ports are described in the logic's
    /// own top module; `rd` is read data, `wr` write requests, `irq` interrupts behind them, `tx` and `rx` the MAC.
    Pins {
        in: clock, reg_wr_valid, reg_rd_valid, reg_addr, reg_wdata,
            ticks_load_valid, ticks_load_value,
            rd_req_ready, rd_valid, rd_data, rd_last, rd_err, wr_ready, irq_ready,
            tx_ready, rx_valid, rx_data, rx_bytes, rx_last, rx_bad;
        out: reg_rd_data, reg_rd_ack, idle, next_event_valid, next_event,
             rd_req_valid, rd_req_addr, rd_req_len, rd_ready,
             wr_valid, wr_addr, wr_data, wr_strb, wr_last, irq_valid, irq_vector,
             tx_valid, tx_data, tx_bytes, tx_last
    }
}
