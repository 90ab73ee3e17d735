// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cache folder, and objects that are built at most once.

use crate::Error;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// tsonic's cache folder: `$TSONIC_CACHE`, else `$XDG_CACHE_HOME/tsonic`, else
/// `~/.cache/tsonic`.
///
/// # Errors
/// [`Error::NoCache`] when none of the variables is set.
pub fn cache_dir() -> Result<PathBuf, Error> {
    let var = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    var("TSONIC_CACHE")
        .or_else(|| var("XDG_CACHE_HOME").map(|dir| dir.join("tsonic")))
        .or_else(|| var("HOME").map(|dir| dir.join(".cache/tsonic")))
        .ok_or(Error::NoCache)
}

/// The file `name` in `dir`; when it is missing, `build` makes it, in a
/// scratch folder of its own, and it appears under its name whole.
///
/// A lock file next to it makes other builders of the same object wait, in
/// this process and in others.
pub(crate) fn once(
    dir: &Path,
    name: &str,
    build: impl FnOnce(&Path) -> Result<PathBuf, Error>,
) -> Result<PathBuf, Error> {
    let object = dir.join(name);
    if object.exists() {
        return Ok(object);
    }
    fs::create_dir_all(dir).map_err(Error::io("cannot create the folder", dir))?;
    let lock_path = dir.join(format!("{name}.lock"));
    let lock = File::create(&lock_path).map_err(Error::io("cannot create", &lock_path))?;
    lock.lock().map_err(Error::io("cannot lock", &lock_path))?;
    if object.exists() {
        return Ok(object);
    }
    // Ours alone while the lock is held; a failed or killed build left the last one.
    let scratch = dir.join(format!("{name}.build"));
    if scratch.exists() {
        fs::remove_dir_all(&scratch).map_err(Error::io("cannot remove", &scratch))?;
    }
    fs::create_dir_all(&scratch).map_err(Error::io("cannot create the folder", &scratch))?;
    // On error the scratch folder stays: it holds the log that the error names.
    let built = build(&scratch)?;
    fs::rename(&built, &object).map_err(Error::io("cannot move into place", &object))?;
    fs::remove_dir_all(&scratch).map_err(Error::io("cannot remove", &scratch))?;
    Ok(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn many_builders_build_once() {
        let dir = std::env::temp_dir().join(format!("tsonic-once-{}", std::process::id()));
        let built = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let path = once(&dir, "object", |scratch| {
                        built.fetch_add(1, Ordering::Relaxed);
                        let file = scratch.join("x");
                        fs::write(&file, "whole").map_err(Error::io("write", &file))?;
                        Ok(file)
                    })
                    .unwrap();
                    assert_eq!(fs::read_to_string(path).unwrap(), "whole");
                });
            }
        });
        assert_eq!(built.load(Ordering::Relaxed), 1);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_failed_build_leaves_no_object() {
        let dir = std::env::temp_dir().join(format!("tsonic-once-failed-{}", std::process::id()));
        assert!(once(&dir, "object", |_| Err(Error::NoCache)).is_err());
        assert!(!dir.join("object").exists());
        fs::remove_dir_all(dir).unwrap();
    }
}
