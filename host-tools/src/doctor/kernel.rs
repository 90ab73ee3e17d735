// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel offers, and permits this user.

use super::Finding;
use rustix::process::{Resource, getrlimit};
use std::fs::{self, OpenOptions};
use std::path::Path;
use tsonic_host::PoolConfig;
use tsonic_host::control::Directory;
use tsonic_regs::pci::{DEVICE_ID, VENDOR_ID};
use tsonic_sim::netns::{Namespace, TapConfig};

const FOR_HARDWARE: &str = "only a NIC on the PCI bus needs it";

/// All of them.
pub fn findings() -> Vec<Finding> {
    vec![
        runtime_directory(),
        capabilities(),
        kernel_peer(),
        iommu(),
        vfio(),
        vfio_pci(),
        nics(),
        hugepages(),
        memlock(),
    ]
}

fn runtime_directory() -> Finding {
    const NAME: &str = "control sockets";
    let directory = Directory::of_user();
    match directory.create() {
        Ok(()) => Finding::ok(NAME, directory.path().display().to_string()),
        Err(e) => Finding::warn(
            NAME,
            e.to_string(),
            "until then a running process cannot be watched or tuned",
        ),
    }
}

/// Bits of the effective capabilities of this process.
fn effective() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

fn capabilities() -> Finding {
    const NAME: &str = "capabilities";
    const WANTED: [(&str, u32); 2] = [("CAP_NET_ADMIN", 12), ("CAP_SYS_ADMIN", 21)];
    let Some(bits) = effective() else {
        return Finding::warn(NAME, "/proc/self/status does not tell", "mount /proc");
    };
    let (has, lacks): (Vec<_>, Vec<_>) = WANTED.iter().partition(|(_, bit)| bits >> bit & 1 == 1);
    let names = |list: Vec<&(&str, u32)>| list.iter().map(|c| c.0).collect::<Vec<_>>().join(", ");
    if lacks.is_empty() {
        return Finding::ok(NAME, names(has));
    }
    Finding::warn(
        NAME,
        format!("without {}", names(lacks)),
        "run as root or under `unshare --user --map-root-user`, for a Linux kernel as the demo's receiver",
    )
}

/// Tried, as that is the only way to know; nothing of it stays.
fn kernel_peer() -> Finding {
    const NAME: &str = "kernel peer";
    match Namespace::create(&TapConfig::default()) {
        Ok(_) => Finding::ok(NAME, "a TAP interface in a network namespace can be made"),
        Err(e) => Finding::warn(
            NAME,
            e.to_string(),
            "until then the demo's receiver is our own engine (--peer sim), and echo needs a TAP that somebody made",
        ),
    }
}

fn entries(path: &str) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn iommu() -> Finding {
    let groups = entries("/sys/kernel/iommu_groups").len();
    match groups {
        0 => Finding::warn(
            "iommu",
            "no IOMMU groups",
            format!(
                "turn on VT-d or AMD-Vi in the firmware, and intel_iommu=on on the kernel's command line ({FOR_HARDWARE})"
            ),
        ),
        n => Finding::ok("iommu", format!("{n} groups")),
    }
}

fn vfio() -> Finding {
    const PATH: &str = "/dev/vfio/vfio";
    match OpenOptions::new().read(true).write(true).open(PATH) {
        Ok(_) => Finding::ok("vfio", format!("{PATH} can be opened")),
        Err(e) => Finding::warn(
            "vfio",
            format!("{PATH}: {e}"),
            format!("modprobe vfio, and give this user the device ({FOR_HARDWARE})"),
        ),
    }
}

fn vfio_pci() -> Finding {
    if Path::new("/sys/bus/pci/drivers/vfio-pci").exists() {
        return Finding::ok("vfio-pci", "the driver is there");
    }
    Finding::warn(
        "vfio-pci",
        "the driver is not loaded",
        format!("modprobe vfio-pci ({FOR_HARDWARE})"),
    )
}

/// Our NICs on the bus, with the driver that each has.
fn nics() -> Finding {
    const NAME: &str = "pci nics";
    const BUS: &str = "/sys/bus/pci/devices";
    let id = |address: &str, file: &str| {
        let text = fs::read_to_string(format!("{BUS}/{address}/{file}")).ok()?;
        u16::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
    };
    let ours =
        |a: &String| id(a, "vendor") == Some(VENDOR_ID) && id(a, "device") == Some(DEVICE_ID);
    let found: Vec<(String, Option<String>)> = entries(BUS)
        .into_iter()
        .filter(ours)
        .map(|a| {
            let link = fs::read_link(format!("{BUS}/{a}/driver")).ok();
            let driver = link.and_then(|l| Some(l.file_name()?.to_string_lossy().into_owned()));
            (a, driver)
        })
        .collect();
    let told: Vec<String> = found
        .iter()
        .map(|(a, d)| format!("{a} ({})", d.as_deref().unwrap_or("no driver")))
        .collect();
    if found.is_empty() {
        // The model and the compiled logic need none.
        return Finding::ok(NAME, "none; simulated ones need none");
    }
    if found.iter().all(|(_, d)| d.as_deref() == Some("vfio-pci")) {
        return Finding::ok(NAME, told.join(", "));
    }
    Finding::warn(
        NAME,
        told.join(", "),
        "bind it: driverctl set-override ADDRESS vfio-pci",
    )
}

fn hugepages() -> Finding {
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let value = |name: &str| {
        let line = memory.lines().find_map(|l| l.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let (total, free) = (value("HugePages_Total:"), value("HugePages_Free:"));
    let kib = value("Hugepagesize:").unwrap_or(0);
    match (total, free) {
        (Some(total), Some(free)) if total > 0 => Finding::ok(
            "hugepages",
            format!("{free} of {total} free, {kib} KiB each"),
        ),
        // The driver's memory is made of ordinary pages.
        (Some(_), _) => Finding::ok("hugepages", "none reserved; the driver needs none"),
        _ => Finding::ok("hugepages", "this kernel has none; the driver needs none"),
    }
}

/// What the driver pins for a device on the bus: the chunk pool, and about as much for
/// the rings of 8 queue pairs.
fn memlock() -> Finding {
    let pool = PoolConfig::default();
    let wanted = 2 * u64::from(pool.chunks) * u64::from(pool.chunk_bytes);
    let limit = getrlimit(Resource::Memlock).current;
    match limit {
        Some(bytes) if bytes < wanted => Finding::warn(
            "memlock",
            format!("{} KiB", bytes >> 10),
            format!(
                "raise it to {} MiB or more: ulimit -l, or /etc/security/limits.conf ({FOR_HARDWARE})",
                wanted >> 20
            ),
        ),
        Some(bytes) => Finding::ok("memlock", format!("{} KiB", bytes >> 10)),
        None => Finding::ok("memlock", "unlimited"),
    }
}
