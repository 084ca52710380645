//! A file that is looked at again and again, and read when it is another than before.
//!
//! Consulted by the parts of a node that follow a file: the keyring, and what each agent may do.

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use parking_lot::Mutex;

/// What changes when a file is replaced or written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    inode: (u64, u64),
    changed_at: (i64, i64),
    modified_at: (i64, i64),
    bytes: u64,
}

impl Stamp {
    /// `None` if it is not there. To be taken before the file is read, so that a change in between is
    /// seen as one.
    pub(crate) fn of(path: &Path) -> Option<Stamp> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Stamp {
            inode: (metadata.dev(), metadata.ino()),
            changed_at: (metadata.ctime(), metadata.ctime_nsec()),
            modified_at: (metadata.mtime(), metadata.mtime_nsec()),
            bytes: metadata.len(),
        })
    }
}

/// The file, which need not be there.
#[derive(Debug)]
pub(crate) struct Watched {
    path: PathBuf,
    seen: Mutex<Seen>,
}

/// The last look at the file.
#[derive(Debug)]
struct Seen {
    stamp: Option<Stamp>,
    /// What was wrong with it, and has been told.
    problem: Option<String>,
}

impl Watched {
    /// A file that looked so just before it was read.
    pub(crate) fn new(path: PathBuf, stamp: Option<Stamp>) -> Self {
        Watched {
            path,
            seen: Mutex::new(Seen {
                stamp,
                problem: None,
            }),
        }
    }

    /// Reads the file if it is another than at the last look, or could not be read then. A problem is
    /// given once, until another takes its place.
    pub(crate) fn look_again<T>(
        &self,
        read: impl FnOnce(&Path) -> Result<T, String>,
    ) -> Option<Result<T, String>> {
        let stamp = Stamp::of(&self.path);
        let mut seen = self.seen.lock();
        if stamp == seen.stamp && seen.problem.is_none() {
            return None;
        }
        seen.stamp = stamp;
        let outcome = read(&self.path);
        let problem = outcome.as_ref().err().cloned();
        let is_told = problem.is_some() && problem == seen.problem;
        seen.problem = problem;
        (!is_told).then_some(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length(path: &Path) -> Result<usize, String> {
        let text = std::fs::read_to_string(path).map_err(|_| "not there".to_owned())?;
        text.len().checked_sub(1).ok_or_else(|| "empty".to_owned())
    }

    #[test]
    fn each_change_is_given_once_and_each_problem_too() {
        let folder = std::env::temp_dir().join(format!("watched-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("file");
        let watched = Watched::new(path.clone(), Stamp::of(&path));
        assert_eq!(watched.look_again(length), None, "it was never there");
        std::fs::write(&path, "abc").unwrap();
        assert_eq!(watched.look_again(length), Some(Ok(2)));
        assert_eq!(watched.look_again(length), None);
        std::fs::write(&path, "").unwrap();
        assert_eq!(watched.look_again(length), Some(Err("empty".to_owned())));
        assert_eq!(watched.look_again(length), None, "told");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(
            watched.look_again(length),
            Some(Err("not there".to_owned()))
        );
        std::fs::write(&path, "a").unwrap();
        assert_eq!(watched.look_again(length), Some(Ok(0)));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
