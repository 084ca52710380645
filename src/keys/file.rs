//! Changing a file of keys: one at a time, whole or not at all.
//!
//! Beside a frame's way: the only place where such a file is written. The new text goes into `FILE.lock`,
//! which is locked while somebody is about to change `FILE` (`flock`, so it ends with its process), and
//! which then takes the place of `FILE`. Whoever reads takes no lock: the file is always whole.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, ErrorKind, Write},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown},
    path::{Path, PathBuf},
};

use zeroize::Zeroizing;

use super::{KeyError, KeySet, Keyring};

impl KeySet {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// As [`KeySet::from_json`], and [`KeyError::System`].
    pub fn from_file(path: &Path) -> Result<KeySet, KeyError> {
        KeySet::from_json(&Zeroizing::new(fs::read_to_string(path)?))
    }

    /// Writes a new file (mode 600). One that is there stays as it is.
    ///
    /// # Errors
    ///
    /// [`KeyError::System`], of kind `AlreadyExists` when there is one.
    pub fn write_new(&self, path: &Path) -> Result<(), KeyError> {
        let text = self.to_json()?;
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        let written = file
            .write_all(text.as_bytes())
            .and_then(|()| file.sync_all());
        if written.is_err() {
            let _ = fs::remove_file(path);
        }
        written?;
        Ok(sync_folder_of(path)?)
    }

    /// Changes a file, which is made (mode 600) if it is not there. Others who change it wait, so
    /// that nothing is lost; owner and mode stay, except that others than the owner get nothing.
    ///
    /// # Errors
    ///
    /// What `change` says, or what is wrong with the file or the set it would become. The file is
    /// then as it was.
    pub fn edit<T, E: From<KeyError>>(
        path: &Path,
        change: impl FnOnce(&mut KeySet) -> Result<T, E>,
    ) -> Result<T, E> {
        let next = Next::of(path)?;
        let mut set = match KeySet::from_file(&next.target) {
            Err(KeyError::System(error)) if error.kind() == ErrorKind::NotFound => {
                KeySet::default()
            }
            read => read?,
        };
        let changed = change(&mut set)?;
        set.ring()?;
        next.put(&set.to_json()?)?;
        Ok(changed)
    }
}

impl Keyring {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// As [`Keyring::from_json`], and [`KeyError::System`].
    pub fn from_file(path: &Path) -> Result<Keyring, KeyError> {
        KeySet::from_file(path)?.ring()
    }

    /// Writes the file anew, as [`KeySet::edit`] does.
    ///
    /// # Errors
    ///
    /// [`KeyError::System`].
    pub fn write(&self, path: &Path) -> Result<(), KeyError> {
        Next::of(path)?.put(&self.to_json()?)
    }
}

/// What a file will be, and the lock on it.
struct Next {
    target: PathBuf,
    path: PathBuf,
    file: File,
    is_put: bool,
}

impl Next {
    /// Waits until nobody else is about to change the file.
    fn of(path: &Path) -> Result<Next, KeyError> {
        // A link stays one.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let mut name = target.clone().into_os_string();
        name.push(".lock");
        let path = PathBuf::from(name);
        let named = |error| named(&path, &error);
        loop {
            let mut options = OpenOptions::new();
            let options = options.write(true).create(true).truncate(false).mode(0o600);
            let file = options.open(&path).map_err(named)?;
            file.lock().map_err(named)?;
            // Whoever had it may have put it in the place of the target, or removed it.
            let (ours, there) = (file.metadata().map_err(named)?, fs::metadata(&path));
            if there.is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
                return Ok(Next {
                    target,
                    path,
                    file,
                    is_put: false,
                });
            }
        }
    }

    fn put(mut self, text: &str) -> Result<(), KeyError> {
        // What a process that was killed had begun to write.
        self.file.set_len(0)?;
        if let Ok(before) = fs::metadata(&self.target) {
            let own = self.file.metadata()?;
            if (own.uid(), own.gid()) != (before.uid(), before.gid()) {
                fchown(&self.file, Some(before.uid()), Some(before.gid()))?;
            }
            let mode = Permissions::from_mode(before.mode() & 0o700);
            self.file.set_permissions(mode)?;
        }
        self.file.write_all(text.as_bytes())?;
        self.file.sync_all()?;
        fs::rename(&self.path, &self.target)?;
        self.is_put = true;
        Ok(sync_folder_of(&self.target)?)
    }
}

impl Drop for Next {
    fn drop(&mut self) {
        if !self.is_put {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Makes sure that a name in a folder outlives a crash of the machine.
fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
