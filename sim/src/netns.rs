// SPDX-License-Identifier: MIT OR Apache-2.0
//! A network namespace for one run, with a TAP interface in it.
//!
//! A thread of its own moves into a fresh namespace, makes and configures the
//! interface, and stays: threads that it starts, and the sockets they open, live
//! in the namespace. Nothing is left behind however the process ends: the
//! interface goes with its file descriptor, the namespace with its last thread and
//! socket.
//!
//! Needed: CAP_SYS_ADMIN and CAP_NET_ADMIN (root has them, also the root of a user
//! namespace: `unshare --user --map-root-user COMMAND`), and /dev/net/tun.

use std::ffi::c_ulong;
use std::fs::OpenOptions;
use std::io;
use std::mem::size_of;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use thiserror::Error;

const TUN_DEVICE: &str = "/dev/net/tun";
/// Packets that the interface holds for us before it drops.
const QUEUE_LENGTH: i32 = 10_000;
/// Longest interface name.
const NAME_MAX: usize = libc::IFNAMSIZ - 1;

/// Why there is no namespace, or no socket in it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TapError {
    /// The system does not permit it.
    #[error(
        "{what}: {source}; run as root, in a container with CAP_SYS_ADMIN, CAP_NET_ADMIN and /dev/net/tun, or under `unshare --user --map-root-user`"
    )]
    NotPermitted {
        /// What was tried.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// There is no TUN/TAP driver.
    #[error("{TUN_DEVICE}: {0}; load the module `tun`, or give the container that device")]
    NoTun(io::Error),
    /// There is no interface of that name.
    #[error(
        "no interface of that name; make it first: ip tuntap add dev NAME mode tap user $USER, then give it an address and set it up"
    )]
    NoInterface,
    /// The interface is none of ours to open.
    #[error(
        "the interface is no TAP of a single queue: make one with ip tuntap add dev NAME mode tap"
    )]
    NoTap,
    /// Another process has it.
    #[error("another process has the interface open: end that, or use another interface")]
    Busy,
    /// Another failure of the system.
    #[error("{what}: {source}")]
    Os {
        /// What was tried.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// A value of the configuration is out of range.
    #[error("{0}")]
    Config(&'static str),
    /// A helper thread died.
    #[error("a helper thread of the kernel peer is gone: {0}")]
    Gone(&'static str),
    /// The peer did not finish in time.
    #[error("the kernel peer did not finish within {0} ms")]
    TimedOut(u64),
}

impl TapError {
    pub(crate) fn os(what: &'static str) -> impl FnOnce(io::Error) -> TapError {
        move |source| match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => TapError::NotPermitted { what, source },
            _ => TapError::Os { what, source },
        }
    }
}

/// What the interface in the namespace is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapConfig {
    /// Name of the interface, up to 15 bytes.
    pub name: String,
    /// Its addresses, with prefix lengths.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Its MTU in bytes, 68 to 65,521.
    pub mtu: u16,
    /// Files under /proc/sys to write in the namespace, with their values, e.g.
    /// `net/ipv4/tcp_ecn` = `1`.
    pub sysctls: Vec<(String, String)>,
    /// The interface stays in the namespace when its descriptor is closed, so that it
    /// can be opened by name ([`open_existing_tap`]).
    pub persistent: bool,
}

impl Default for TapConfig {
    fn default() -> Self {
        TapConfig {
            name: "tsonic0".into(),
            addresses: vec![(IpAddr::from([10, 9, 0, 2]), 24)],
            mac: [0x02, 0, 0, 0, 0, 0x02],
            mtu: 1500,
            sysctls: Vec::new(),
            persistent: false,
        }
    }
}

type Task = Box<dyn FnOnce() + Send>;

/// A namespace. Dropping it ends its thread; what that thread started may go on.
pub struct Namespace {
    tasks: Option<Sender<Task>>,
    thread: Option<JoinHandle<()>>,
}

impl Namespace {
    /// Makes a namespace and the interface in it; the second is the interface's
    /// descriptor: non-blocking, a frame a read or write.
    ///
    /// # Errors
    /// [`TapError`], with the remedy.
    pub fn create(config: &TapConfig) -> Result<(Namespace, OwnedFd), TapError> {
        check_name(&config.name)?;
        if !(68..=65_521).contains(&config.mtu) {
            return Err(TapError::Config("an MTU is 68 to 65,521 bytes"));
        }
        let (tasks, queue) = channel::<Task>();
        let (ready, made) = channel();
        let config = config.clone();
        let thread = std::thread::Builder::new()
            .name("tsonic-netns".into())
            .spawn(move || {
                if ready.send(enter(&config)).is_ok() {
                    serve(&queue);
                }
            })
            .map_err(TapError::os("start a thread"))?;
        let fd = made
            .recv()
            .map_err(|_| TapError::Gone("it could not enter the namespace"))??;
        let namespace = Namespace {
            tasks: Some(tasks),
            thread: Some(thread),
        };
        Ok((namespace, fd))
    }

    /// Runs `f` in a new thread in the namespace.
    ///
    /// # Errors
    /// [`TapError::Gone`], or the system's refusal of a thread.
    pub fn spawn<T: Send + 'static>(
        &self,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, TapError> {
        let gone = TapError::Gone("that of the namespace");
        let (started, handle) = channel();
        let task: Task = Box::new(move || {
            let thread = std::thread::Builder::new().name("tsonic-peer".into());
            // The asker may have gone; then nobody wants the thread's result.
            let _ = started.send(thread.spawn(f));
        });
        match &self.tasks {
            Some(tasks) if tasks.send(task).is_ok() => {}
            _ => return Err(gone),
        }
        match handle.recv() {
            Ok(thread) => thread.map_err(TapError::os("start a thread")),
            Err(_) => Err(gone),
        }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            // It only waits for tasks, and there will be none.
            let _ = thread.join();
        }
    }
}

fn serve(queue: &Receiver<Task>) {
    while let Ok(task) = queue.recv() {
        task();
    }
}

/// Moves the calling thread into a fresh namespace and makes the interface.
fn enter(config: &TapConfig) -> Result<OwnedFd, TapError> {
    // SAFETY: no memory is involved; only this thread moves.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map_err(TapError::os(
        "make a network namespace (unshare CLONE_NEWNET)",
    ))?;
    // Before the interface exists: duplicate address detection would keep an
    // IPv6 address unusable for a second. Where /proc/sys cannot be written, it does.
    if let Err(error) = std::fs::write("/proc/sys/net/ipv6/conf/default/accept_dad", "0") {
        tracing::debug!(%error, "IPv6 addresses will take a second to come up");
    }
    let tun = open_tap(&config.name)?;
    if config.persistent {
        // SAFETY: the request takes an integer; no memory is involved.
        check(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETPERSIST as _, 1) })
            .map_err(TapError::os("keep the TAP interface (TUNSETPERSIST)"))?;
    }
    for (path, value) in &config.sysctls {
        std::fs::write(format!("/proc/sys/{path}"), value)
            .map_err(TapError::os("write a sysctl of the namespace"))?;
    }
    configure(config)?;
    Ok(tun)
}

/// Opens a TAP interface that exists, in this thread's namespace. Non-blocking, a frame
/// a read or write.
///
/// # Errors
/// [`TapError`], with the remedy.
pub fn open_existing_tap(name: &str) -> Result<OwnedFd, TapError> {
    check_name(name)?;
    // Attaching to a name that is free would make an interface.
    let mut request = named(name);
    let fd = socket(libc::AF_INET)?;
    ioctl(fd.as_raw_fd(), libc::SIOCGIFINDEX as c_ulong, &mut request)
        .map_err(|_| TapError::NoInterface)?;
    open_tap(name)
}

/// The TAP interface of that name in this thread's namespace; it is made if there is
/// none. Non-blocking, a frame a read or write.
///
/// # Errors
/// [`TapError`], with the remedy.
fn open_tap(name: &str) -> Result<OwnedFd, TapError> {
    check_name(name)?;
    let tun = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(TUN_DEVICE)
        .map_err(|e| match e.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => TapError::NotPermitted {
                what: "open /dev/net/tun",
                source: e,
            },
            _ => TapError::NoTun(e),
        })?;
    let mut request = named(name);
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    ioctl(tun.as_raw_fd(), libc::TUNSETIFF as c_ulong, &mut request).map_err(|e| {
        match e.raw_os_error() {
            Some(libc::EBUSY) => TapError::Busy,
            Some(libc::EINVAL) => TapError::NoTap,
            _ => TapError::os("attach to the TAP interface (TUNSETIFF)")(e),
        }
    })?;
    Ok(tun.into())
}

fn check_name(name: &str) -> Result<(), TapError> {
    if name.is_empty() || name.len() > NAME_MAX || name.bytes().any(|b| b == 0 || b == b'/') {
        return Err(TapError::Config("an interface name has 1 to 15 bytes"));
    }
    Ok(())
}

fn configure(config: &TapConfig) -> Result<(), TapError> {
    let v4 = socket(libc::AF_INET)?;
    let ask = |fd: RawFd, what, code: c_ulong, request: &mut libc::ifreq| {
        ioctl(fd, code, request).map_err(TapError::os(what))
    };
    let fd = v4.as_raw_fd();
    let mut r = named(&config.name);
    r.ifr_ifru.ifru_hwaddr = libc::sockaddr {
        sa_family: libc::ARPHRD_ETHER,
        sa_data: [0; 14],
    };
    // SAFETY: the field was just written.
    let hw = unsafe { &mut r.ifr_ifru.ifru_hwaddr };
    for (to, from) in hw.sa_data.iter_mut().zip(config.mac) {
        *to = from as libc::c_char;
    }
    ask(
        fd,
        "set the interface's MAC",
        libc::SIOCSIFHWADDR as c_ulong,
        &mut r,
    )?;
    let mut r = named(&config.name);
    r.ifr_ifru.ifru_mtu = config.mtu.into();
    ask(
        fd,
        "set the interface's MTU",
        libc::SIOCSIFMTU as c_ulong,
        &mut r,
    )?;
    let mut r = named(&config.name);
    r.ifr_ifru.ifru_metric = QUEUE_LENGTH;
    ask(
        fd,
        "set the interface's queue length",
        libc::SIOCSIFTXQLEN as c_ulong,
        &mut r,
    )?;
    for name in ["lo", &config.name] {
        let mut r = named(name);
        r.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        ask(
            fd,
            "bring up an interface",
            libc::SIOCSIFFLAGS as c_ulong,
            &mut r,
        )?;
    }
    for (address, prefix) in &config.addresses {
        match address {
            IpAddr::V4(ip) => {
                if *prefix > 32 {
                    return Err(TapError::Config("an IPv4 prefix has at most 32 bits"));
                }
                let mask = u32::MAX.checked_shl(32 - u32::from(*prefix)).unwrap_or(0);
                let mut r = named(&config.name);
                r.ifr_ifru.ifru_addr = sockaddr_v4(ip.octets());
                ask(fd, "set an address", libc::SIOCSIFADDR as c_ulong, &mut r)?;
                let mut r = named(&config.name);
                r.ifr_ifru.ifru_netmask = sockaddr_v4(mask.to_be_bytes());
                ask(fd, "set a netmask", libc::SIOCSIFNETMASK as c_ulong, &mut r)?;
            }
            IpAddr::V6(ip) => {
                if *prefix > 128 {
                    return Err(TapError::Config("an IPv6 prefix has at most 128 bits"));
                }
                let mut r = named(&config.name);
                ask(
                    fd,
                    "find the interface",
                    libc::SIOCGIFINDEX as c_ulong,
                    &mut r,
                )?;
                let mut request = libc::in6_ifreq {
                    ifr6_addr: libc::in6_addr {
                        s6_addr: ip.octets(),
                    },
                    ifr6_prefixlen: u32::from(*prefix),
                    // SAFETY: the ioctl has written the field.
                    ifr6_ifindex: unsafe { r.ifr_ifru.ifru_ifindex },
                };
                let v6 = socket(libc::AF_INET6)?;
                ioctl(v6.as_raw_fd(), libc::SIOCSIFADDR as c_ulong, &mut request)
                    .map_err(TapError::os("set an IPv6 address"))?;
            }
        }
    }
    Ok(())
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// An ioctl whose argument is the request structure that its code names.
fn ioctl<T>(fd: RawFd, code: c_ulong, request: &mut T) -> io::Result<()> {
    debug_assert!(size_of::<T>() >= size_of::<libc::in6_ifreq>());
    // SAFETY: `request` is a live structure of the type that `code` takes (each
    // caller pairs the two), and the kernel keeps no pointer to it.
    check(unsafe { libc::ioctl(fd, code as _, std::ptr::from_mut(request)) })
}

fn socket(family: libc::c_int) -> Result<OwnedFd, TapError> {
    // SAFETY: no memory is involved.
    let fd = unsafe { libc::socket(family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    check(fd).map_err(TapError::os("open a socket in the namespace"))?;
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A request for the interface of that name; the rest is zero.
fn named(name: &str) -> libc::ifreq {
    // SAFETY: all zeros is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(NAME_MAX)) {
        *to = from as libc::c_char;
    }
    request
}

fn sockaddr_v4(octets: [u8; 4]) -> libc::sockaddr {
    // `sockaddr_in`: two bytes of port, four of address.
    let mut sa_data = [0 as libc::c_char; 14];
    for (to, from) in sa_data[2..].iter_mut().zip(octets) {
        *to = from as libc::c_char;
    }
    libc::sockaddr {
        sa_family: libc::AF_INET as libc::sa_family_t,
        sa_data,
    }
}
