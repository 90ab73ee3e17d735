// SPDX-License-Identifier: MIT OR Apache-2.0
//! Both sides of the boundary: the driver on a NIC in this process and on one that is
//! served over vfio-user, interrupts, deaths, the watchdog.

mod deaths;
mod rig;
mod transfers;
mod vectors;
mod watchdog;
