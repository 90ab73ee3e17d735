// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where control sockets are: one directory a user, `PID.sock` in it.
//!
//! `$XDG_RUNTIME_DIR/tsonic`, else `/run/user/UID/tsonic`, else `tsonic-UID` in
//! `$TMPDIR` or `/tmp`: the first whose parent exists. In the last anybody may have made
//! that name before us, so a directory is used only if it is ours and closed to others.

use rustix::process::{Pid, geteuid, getpid, test_kill_process};
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why there is no directory for sockets.
#[derive(Debug, Error)]
pub enum DirectoryError {
    /// It cannot be made or read.
    #[error("{}: {source}; set XDG_RUNTIME_DIR to a directory of your own", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// It is another user's, or open to others, or a link.
    #[error(
        "{} is not a directory of this user alone (mode 0700): remove it, or set XDG_RUNTIME_DIR",
        path.display()
    )]
    NotPrivate {
        /// Which.
        path: PathBuf,
    },
}

/// The directory of this user's control sockets.
#[derive(Clone, Debug)]
pub struct Directory(PathBuf);

/// A process that listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its socket.
    pub socket: PathBuf,
}

fn candidates() -> impl Iterator<Item = PathBuf> {
    let uid = geteuid().as_raw();
    let of = |name| std::env::var_os(name).map(PathBuf::from);
    let absolute = |p: &PathBuf| p.is_absolute();
    let tmp = of("TMPDIR").filter(absolute);
    [
        of("XDG_RUNTIME_DIR")
            .filter(absolute)
            .map(|d| d.join("tsonic")),
        Some(PathBuf::from(format!("/run/user/{uid}/tsonic"))),
        Some(
            tmp.unwrap_or_else(|| "/tmp".into())
                .join(format!("tsonic-{uid}")),
        ),
    ]
    .into_iter()
    .flatten()
}

impl Directory {
    /// The directory by the rule above, which need not exist yet.
    pub fn of_user() -> Directory {
        let mut all = candidates();
        let usable = |d: &PathBuf| d.parent().is_some_and(Path::is_dir);
        let found = all.find(usable);
        Directory(found.unwrap_or_else(|| "/tmp/tsonic".into()))
    }

    /// A directory by its path.
    pub fn at(path: impl Into<PathBuf>) -> Directory {
        Directory(path.into())
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The socket of a process.
    pub fn socket(&self, pid: u32) -> PathBuf {
        self.0.join(format!("{pid}.sock"))
    }

    fn io(&self, source: io::Error) -> DirectoryError {
        DirectoryError::Io {
            path: self.0.clone(),
            source,
        }
    }

    /// Makes it where it is missing, and checks that it is this user's alone.
    ///
    /// # Errors
    /// [`DirectoryError`].
    pub fn create(&self) -> Result<(), DirectoryError> {
        match DirBuilder::new().mode(0o700).create(&self.0) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(self.io(e)),
        }
        self.check()
    }

    /// Whether it may be trusted.
    fn check(&self) -> Result<(), DirectoryError> {
        // Not through a link: that could be pointed elsewhere later.
        let found = fs::symlink_metadata(&self.0).map_err(|e| self.io(e))?;
        let ours = found.uid() == geteuid().as_raw();
        if found.is_dir() && ours && found.mode() & 0o077 == 0 {
            return Ok(());
        }
        Err(DirectoryError::NotPrivate {
            path: self.0.clone(),
        })
    }

    /// Processes that listen, lowest number first. Sockets that dead ones left are
    /// removed.
    ///
    /// # Errors
    /// [`DirectoryError`]; a directory that is missing holds none.
    pub fn processes(&self) -> Result<Vec<Process>, DirectoryError> {
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(self.io(e)),
        };
        self.check()?;
        let mut found = Vec::new();
        for entry in entries.flatten() {
            let name = entry.file_name();
            let number = name.to_str().and_then(|n| n.strip_suffix(".sock"));
            let Some(pid) = number.and_then(|n| n.parse::<u32>().ok()) else {
                continue;
            };
            let socket = entry.path();
            if UnixStream::connect(&socket).is_ok() {
                found.push(Process { pid, socket });
            } else if !is_alive(pid) {
                // Whoever is quicker removes it.
                let _ = fs::remove_file(&socket);
            }
        }
        found.sort();
        Ok(found)
    }
}

/// Whether there is a process of that number, our own aside: a socket of ours that
/// nobody listens on was left by another one before us.
fn is_alive(pid: u32) -> bool {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    number.is_some_and(|n| n != getpid() && test_kill_process(n) != Err(rustix::io::Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("tsonic-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn only_a_private_directory_is_used() {
        let path = scratch("private");
        let d = Directory::at(&path);
        assert_eq!(d.processes().unwrap(), []);
        d.create().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        d.create().unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(matches!(d.create(), Err(DirectoryError::NotPrivate { .. })));
        assert!(d.processes().is_err());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        let link = scratch("link");
        let _ = fs::remove_file(&link);
        symlink(&path, &link).unwrap();
        let through = Directory::at(&link).create();
        assert!(matches!(through, Err(DirectoryError::NotPrivate { .. })));
        fs::remove_file(&link).unwrap();
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn sockets_of_the_dead_go_and_others_stay() {
        let path = scratch("stale");
        let d = Directory::at(&path);
        d.create().unwrap();
        // Above the highest number that Linux gives.
        let dead = d.socket(i32::MAX as u32);
        drop(UnixListener::bind(&dead).unwrap());
        let own = d.socket(std::process::id());
        let listener = UnixListener::bind(&own).unwrap();
        // Process 1 lives, though it does not listen.
        drop(UnixListener::bind(d.socket(1)).unwrap());
        fs::write(path.join("note.txt"), "not a socket").unwrap();
        let listed = d.processes().unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].pid, std::process::id());
        assert!(!dead.exists() && d.socket(1).exists() && path.join("note.txt").exists());
        drop(listener);
        assert_eq!(d.processes().unwrap(), []);
        assert!(!own.exists());
        fs::remove_dir_all(&path).unwrap();
    }
}
