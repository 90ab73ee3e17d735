// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files below one folder. A path that leads out of it, also by a link, is not found.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

/// What a folder is asked for by its own name.
const INDEX: &str = "index.html";

/// A folder whose files are served.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Opens a folder.
    ///
    /// # Errors
    /// The operating system's; `NotADirectory` for anything else.
    pub fn open(path: &Path) -> io::Result<Folder> {
        let root = path.canonicalize()?;
        std::fs::read_dir(&root)?;
        Ok(Folder(root))
    }

    /// The regular file of a decoded path that begins with `/`, and its length;
    /// `None` when there is none that may be read.
    pub fn file(&self, path: &str) -> Option<(File, u64)> {
        let relative = Path::new(path.trim_start_matches('/'));
        // Backslashes and control characters are no part of a name that anybody links to.
        let plain = !path.bytes().any(|b| b == b'\\' || b.is_ascii_control());
        let inside = relative
            .components()
            .all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
        if !plain || !inside {
            return None;
        }
        let mut full = self.0.join(relative).canonicalize().ok()?;
        if full.is_dir() {
            full = full.join(INDEX).canonicalize().ok()?;
        }
        // Links were followed above.
        if !full.starts_with(&self.0) {
            return None;
        }
        let file = OpenOptions::new()
            .read(true)
            // Opening a FIFO must not wait for a writer.
            .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW)
            .open(full)
            .ok()?;
        let found = file.metadata().ok()?;
        found.is_file().then_some((file, found.len()))
    }
}

/// The media type of a name, for the few that a browser shows.
pub fn media_type(path: &str) -> &'static str {
    let extension = path.rsplit_once('.').map_or("", |(_, e)| e);
    match extension.to_ascii_lowercase().as_str() {
        "html" | "htm" => "text/html; charset=utf-8",
        "txt" | "md" => "text/plain; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "json" => "application/json",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "svg" => "image/svg+xml",
        "" if path.ends_with('/') => "text/html; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn nothing_outside_is_served() {
        let place = std::env::temp_dir().join(format!("tsonic-files-{}", std::process::id()));
        let _ = fs::remove_dir_all(&place);
        let root = place.join("root");
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::write(place.join("secret"), "secret").unwrap();
        fs::write(root.join("a.txt"), "12345").unwrap();
        fs::write(root.join("sub/index.html"), "hello").unwrap();
        symlink(place.join("secret"), root.join("link")).unwrap();
        symlink(&place, root.join("up")).unwrap();
        symlink("a.txt", root.join("inner")).unwrap();
        let folder = Folder::open(&root).unwrap();
        for (path, len) in [
            ("/a.txt", 5),
            ("//a.txt", 5),
            ("/./a.txt", 5),
            ("/sub", 5),
            ("/sub/", 5),
            ("/inner", 5),
        ] {
            assert_eq!(folder.file(path).map(|f| f.1), Some(len), "{path}");
        }
        for path in [
            "/../secret",
            "/sub/../../secret",
            "/link",
            "/up/secret",
            "/missing",
            "/",
            "/a.txt/",
            "/a.txt\0",
            "/sub\\..\\a.txt",
            "/..",
            "/sub/../a.txt",
        ] {
            assert!(folder.file(path).is_none(), "{path}");
        }
        assert!(Folder::open(&root.join("a.txt")).is_err());
        fs::remove_dir_all(&place).unwrap();
    }
}
