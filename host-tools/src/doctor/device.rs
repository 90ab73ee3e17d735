// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a NIC can be opened, and what contract it speaks.

use super::Finding;
use std::path::{Path, PathBuf};
use tsonic_driver::{Device, DriverError, VfioUserConfig, VfioUserFunction};
use tsonic_pci::{BusError, PciFunction};
use tsonic_sim::inproc::InprocFunction;
use tsonic_sim::model::{Model, ModelConfig};
use tsonic_sim::root_complex::RootComplexConfig;
use tsonic_sim::world::{LinkConfig, World};

/// A NIC in one line.
fn describe<F: PciFunction>(function: F) -> Result<String, DriverError> {
    let device = Device::open(function)?;
    let info = device.info();
    let features: Vec<&str> = info.feature_names().collect();
    Ok(format!(
        "contract {}.{}, build {:08x}, {} queue pairs, {} flow slots, {}",
        info.contract_version >> 16,
        info.contract_version & 0xffff,
        info.build_hash,
        info.queues,
        info.flow_slots,
        features.join(" ")
    ))
}

/// The path in `vfio-user:PATH`.
///
/// # Errors
/// A sentence that says what is taken.
pub fn place(text: &str) -> Result<PathBuf, String> {
    match text.strip_prefix("vfio-user:") {
        Some(path) if !path.is_empty() => Ok(path.into()),
        _ => Err(format!(
            "'{text}' is no place of a NIC: write vfio-user:PATH"
        )),
    }
}

/// The NIC that another process serves at a socket. Whoever names it wants it, so
/// without it all is not well.
pub fn behind(path: &Path) -> Finding {
    const NAME: &str = "device";
    let remedy = |e: &DriverError| match e {
        DriverError::Bus(BusError::Busy) => "end its client, or start another `tsonic device`",
        _ => "start it with `tsonic device`, and let no other driver have it",
    };
    let described = VfioUserFunction::connect(path, VfioUserConfig::default())
        .map_err(DriverError::from)
        .and_then(describe);
    match described {
        Ok(found) => Finding::ok(NAME, found),
        Err(e) => Finding::fail(NAME, format!("{}: {e}", path.display()), remedy(&e)),
    }
}

/// The NIC model of this program: what the demo runs on.
pub fn in_process() -> Finding {
    let world = World::new(
        Box::new(Model::new(ModelConfig::default())),
        RootComplexConfig::default(),
        LinkConfig::default(),
        None,
    );
    match describe(InprocFunction::new(world)) {
        Ok(found) => Finding::ok("model", found),
        Err(e) => Finding::fail(
            "model",
            e.to_string(),
            "build tsonic again, whole, from one commit",
        ),
    }
}
