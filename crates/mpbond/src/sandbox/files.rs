//! Files that a daemon can still access, enforced by Landlock (landlock(7)).
//!
//! A rule is about the file that is at a path now. A file that programs replace (all of ours, and
//! `resolv.conf` when the network changes) is accessible only through a rule about its folder.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath,
    PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope, make_bitflags,
};
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{AccessFlags, faccessat, geteuid};
use rustix::thread::{CapabilitySet, capabilities};

/// Newest Landlock version whose rights are restricted, as far as the kernel knows them. Later
/// versions also block sockets of name services (/run/nscd/socket and others).
const ABI_KNOWN: ABI = ABI::V7;

/// Files that name look-ups read (nsswitch.conf(5), resolver(3), gai.conf(5)).
const NAMES: [&str; 11] = [
    "/etc/resolv.conf",
    "/etc/nsswitch.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/protocols",
    "/etc/ld.so.cache",
    "/run/systemd/resolve",
    "/run/NetworkManager",
    "/run/resolvconf",
];

/// Folders of the libraries that nsswitch.conf may name.
const LIBRARIES: [&str; 6] = [
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/nix/store",
];

/// Access to a file, or to everything in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading.
    Read,
    /// Reading and replacing.
    Change,
    /// Removing files from the folder.
    Remove,
}

impl Access {
    fn rights(self, folder: bool) -> BitFlags<AccessFs> {
        match self {
            Self::Read if folder => make_bitflags!(AccessFs::{ReadFile | ReadDir}),
            Self::Read => AccessFs::ReadFile.into(),
            Self::Change if folder => make_bitflags!(
                AccessFs::{ReadFile | ReadDir | WriteFile | Truncate | MakeReg | RemoveFile}
            ),
            Self::Change => make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate}),
            Self::Remove => AccessFs::RemoveFile.into(),
        }
    }
}

/// File or folder that a daemon still uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    path: PathBuf,
    access: Access,
}

impl Place {
    /// This file, or everything in this folder. A missing one stays inaccessible if it is made
    /// later.
    pub fn new(path: &Path, access: Access) -> Self {
        let path = match path.as_os_str().is_empty() {
            true => PathBuf::from("."),
            false => path.to_owned(),
        };
        Self { path, access }
    }

    /// A file that programs replace, with the folders in which the next one may be: its own and,
    /// for a link, that of its target.
    pub fn around(file: &Path, access: Access) -> Vec<Self> {
        let target = std::fs::canonicalize(file).ok();
        let files = [Some(file), target.as_deref()].into_iter().flatten();
        files
            .flat_map(|file| [file.parent(), Some(file)])
            .flatten()
            .map(|path| Self::new(path, access))
            .collect()
    }

    /// Whether this thread, with its present capabilities, has the access that it will need: by the
    /// permissions of the file and its folders, and because a replaced file keeps its owner.
    pub(super) fn in_reach(&self) -> bool {
        let Ok(meta) = std::fs::metadata(&self.path) else {
            // Missing, or in a folder that cannot be entered.
            return self.path.parent().is_none_or(may_enter);
        };
        let search = match meta.is_dir() {
            true => AccessFlags::X_OK,
            false => AccessFlags::empty(),
        };
        let (how, owned) = match self.access {
            Access::Read => (AccessFlags::R_OK, false),
            Access::Change => (AccessFlags::R_OK | AccessFlags::W_OK, true),
            Access::Remove => (AccessFlags::W_OK, false),
        };
        let may_give = || {
            let sets = capabilities(None);
            sets.is_ok_and(|sets| sets.effective.contains(CapabilitySet::CHOWN))
        };
        let ours = !owned || meta.uid() == geteuid().as_raw() || may_give();
        ours && faccessat(AT_FDCWD, &self.path, how | search, AtFlags::AT_EACCESS).is_ok()
    }
}

fn may_enter(folder: &Path) -> bool {
    // A missing folder blocks nothing.
    !folder.exists() || faccessat(AT_FDCWD, folder, AccessFlags::X_OK, AtFlags::AT_EACCESS).is_ok()
}

/// Files for name resolution.
///
/// Where `resolv.conf` is a file in /etc and not a link, all of /etc can be read: programs that
/// change it replace the file.
pub fn for_names() -> Vec<Place> {
    let mut places = Vec::new();
    for path in NAMES.iter().chain(&LIBRARIES) {
        places.push(Place::new(Path::new(path), Access::Read));
    }
    let target = std::fs::canonicalize("/etc/resolv.conf").ok();
    let folder = target.as_deref().and_then(Path::parent);
    let folder = folder.unwrap_or(Path::new("/etc"));
    places.push(Place::new(folder, Access::Read));
    places
}

/// Files that backtraces are made from: the program and, beside it, its debug information. Where
/// that is installed below /usr/lib/debug, it is among [`LIBRARIES`].
pub(super) fn for_backtraces() -> Vec<Place> {
    let Ok(program) = std::env::current_exe() else {
        return Vec::new();
    };
    let mut debug = program.clone().into_os_string();
    debug.push(".debug");
    let files = [program, debug.into()];
    files.map(|file| Place::new(&file, Access::Read)).into()
}

/// Reason why files are not confined.
#[derive(Debug, thiserror::Error)]
pub(super) enum FilesError {
    /// Linux before 5.13, or a kernel without it.
    #[error("this kernel has no Landlock")]
    NotThere,
    /// By `lsm=` on the kernel's command line.
    #[error("Landlock is switched off in this kernel")]
    Off,
    /// Another error.
    #[error(transparent)]
    Refused(#[from] landlock::RulesetError),
}

/// Confines this thread and those that it will start to these places. Where the kernel can, it also
/// blocks signals to other processes and their abstract sockets. Returns the Landlock version.
pub(super) fn restrict<'a>(places: impl IntoIterator<Item = &'a Place>) -> Result<u32, FilesError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI_KNOWN))?
        .scope(Scope::from_all(ABI_KNOWN))?
        .create()?;
    for place in places {
        let Ok(at) = PathFd::new(&place.path) else {
            // It is missing.
            continue;
        };
        let rights = place.access.rights(place.path.is_dir());
        rules = rules.add_rule(PathBeneath::new(at, rights))?;
    }
    let status = rules.restrict_self()?;
    match (status.ruleset, status.landlock) {
        (RulesetStatus::NotEnforced, LandlockStatus::NotEnabled) => Err(FilesError::Off),
        (RulesetStatus::NotEnforced, _) => Err(FilesError::NotThere),
        (_, LandlockStatus::Available { effective_abi, .. }) => Ok(effective_abi as u32),
        _ => Err(FilesError::NotThere),
    }
}
