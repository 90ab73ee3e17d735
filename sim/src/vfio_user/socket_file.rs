// SPDX-License-Identifier: MIT OR Apache-2.0
//! A socket in the file system: made for its owner only, never taken from a process that
//! serves it, and removed at the end.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use super::ServerError;

/// Longest path of a socket: `sun_path` with the zero at its end.
const PATH_MAX: usize = 107;

/// See the module.
#[derive(Debug)]
pub struct SocketFile {
    listener: UnixListener,
    path: PathBuf,
    /// Which file it is, so that another one is not removed.
    inode: u64,
}

impl SocketFile {
    pub fn bind(path: &Path) -> Result<SocketFile, ServerError> {
        let failed = |source| ServerError::Socket {
            path: path.into(),
            source,
        };
        if path.as_os_str().len() > PATH_MAX {
            return Err(ServerError::TooLong {
                path: path.into(),
                most: PATH_MAX,
            });
        }
        let folder = match path.parent() {
            Some(p) if !p.as_os_str().is_empty() => p,
            _ => Path::new("."),
        };
        if !folder.is_dir() {
            return Err(ServerError::NoFolder {
                path: folder.into(),
            });
        }
        match fs::symlink_metadata(path) {
            Ok(m) if !m.file_type().is_socket() => {
                return Err(ServerError::NotASocket { path: path.into() });
            }
            Ok(_) => match UnixStream::connect(path) {
                Ok(_) => return Err(ServerError::InUse { path: path.into() }),
                // Its process has gone.
                Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
                    fs::remove_file(path).map_err(failed)?;
                }
                Err(e) => return Err(failed(e)),
            },
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(failed(e)),
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let inode = fs::symlink_metadata(path).map_err(failed)?.ino();
        Ok(SocketFile {
            listener,
            path: path.into(),
            inode,
        })
    }

    pub fn listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path).is_ok_and(|m| m.ino() == self.inode);
        if ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(%error, path = %self.path.display(), "the socket stays");
        }
    }
}
