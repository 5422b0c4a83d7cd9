//! The process that carries a pipe, found by its command line.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use clap::{Parser, Subcommand};
use mpbond_command::LogArgs;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;

use crate::connect::ConnectArgs;
use crate::listen::ListenArgs;

/// Octets of a command line that are read: those of a carrier have some hundred.
const MAX_BYTES: u64 = 64 << 10;

/// Number of the user root.
const ROOT: u32 = 0;

/// A command line behind `bluetooth`.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct CommandLine {
    #[command(subcommand)]
    carrier: Carrier,
    /// Global options: they may be behind the subcommand.
    #[command(flatten)]
    _logs: LogArgs,
}

/// Arguments of a process that carries a pipe.
#[derive(Debug, Subcommand)]
pub(super) enum Carrier {
    Connect(ConnectArgs),
    Listen(ListenArgs),
}

impl Carrier {
    fn socket(&self) -> &Path {
        match self {
            Self::Connect(args) => &args.socket,
            Self::Listen(args) => &args.socket,
        }
    }
}

/// The carrier of the pipe with this socket, among the processes in a folder such as `/proc`: one
/// of root or of the socket's owner, since any user can have a process with such a command line.
///
/// # Errors
/// When the folder cannot be read.
pub(super) fn carrier_of(socket: &Path, processes: &Path) -> io::Result<Option<Carrier>> {
    let users = [Some(ROOT), owner(socket)];
    carrier_of_users(socket, processes, &users)
}

fn carrier_of_users(
    socket: &Path,
    processes: &Path,
    users: &[Option<u32>],
) -> io::Result<Option<Carrier>> {
    for entry in fs::read_dir(processes)? {
        // A process may end meanwhile; other files in the folder have no command line.
        let Some(process) = entry.ok().and_then(|entry| folder(&entry.path())) else {
            continue;
        };
        if let Some(carrier) = carrier(&process, users)
            && carrier.socket() == socket
        {
            return Ok(Some(carrier));
        }
    }
    Ok(None)
}

fn folder(path: &Path) -> Option<File> {
    let flags = OFlag::O_DIRECTORY.bits();
    OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)
        .ok()
}

/// Owner of a socket; of its folder, while the socket is not there.
fn owner(socket: &Path) -> Option<u32> {
    let folder = || fs::metadata(socket.parent()?).ok();
    let file = fs::symlink_metadata(socket).ok().or_else(folder);
    file.map(|file| file.uid())
}

/// The carrier in the open folder of a process of these users. Its owner and its command line are
/// read by way of the folder's descriptor, which stays that of the process: by the path, they may
/// be those of two processes, where one has ended and its number was given to the next one.
fn carrier(process: &File, users: &[Option<u32>]) -> Option<Carrier> {
    let owner = process.metadata().ok()?.uid();
    if !users.contains(&Some(owner)) {
        return None;
    }
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let file = File::from(openat(process, "cmdline", flags, Mode::empty()).ok()?);
    let mut octets = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut octets).ok()?;
    parse(&octets)
}

/// The arguments in a command line, each of which ends with a zero octet.
fn parse(octets: &[u8]) -> Option<Carrier> {
    let octets = octets.strip_suffix(&[0])?;
    let all = octets.split(|octet| *octet == 0).map(OsStr::from_bytes);
    let rest = all.skip_while(|argument| *argument != "bluetooth").skip(1);
    Some(CommandLine::try_parse_from(rest).ok()?.carrier)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_carrier_is_the_process_with_the_socket() {
        let folder = tempfile::tempdir().unwrap();
        let put = |process: &str, line: &str| {
            let process = folder.path().join(process);
            fs::create_dir(&process).unwrap();
            fs::write(process.join("cmdline"), line.replace(' ', "\0") + "\0").unwrap();
        };
        let connect = "bluetooth connect --device 00:1A:7D:DA:71:13 --socket";
        put("1", "/sbin/init");
        put("20", &format!("vi {connect} /run/phone.sock --backup"));
        put(
            "30",
            &format!("/usr/bin/mpbond-bluetooth {connect} /run/other.sock"),
        );
        put("net", "mpbond bluetooth check");
        fs::write(folder.path().join("version"), "Linux").unwrap();
        let own = [fs::metadata(folder.path()).ok().map(|file| file.uid())];
        let of = |path: &str| carrier_of_users(Path::new(path), folder.path(), &own).unwrap();
        assert!(of("/run/phone.sock").is_none());
        put(
            "40",
            &format!("mpbond --log debug {connect} /run/phone.sock --adapter hci1"),
        );
        put(
            "41",
            "mpbond bluetooth listen --socket /run/pipe.sock --channels 3-4 --log-json --log info",
        );
        let Some(Carrier::Connect(args)) = of("/run/phone.sock") else {
            panic!("not found");
        };
        assert_eq!(args.device.to_string(), "00:1A:7D:DA:71:13");
        assert_eq!(args.radio.adapter.as_deref(), Some("hci1"));
        let Some(Carrier::Listen(args)) = of("/run/pipe.sock") else {
            panic!("not found");
        };
        assert_eq!(args.radio.channels.to_string(), "3-4");
        assert!(carrier_of(Path::new("/"), &folder.path().join("none")).is_err());
    }

    #[test]
    fn a_process_of_another_user_is_no_carrier() {
        let folder = tempfile::tempdir().unwrap();
        let user = fs::metadata(folder.path()).unwrap().uid();
        let (process, socket) = (folder.path().join("7"), folder.path().join("pipe.sock"));
        fs::create_dir(&process).unwrap();
        let line = format!("mpbond bluetooth listen --socket {}", socket.display());
        fs::write(process.join("cmdline"), line.replace(' ', "\0") + "\0").unwrap();
        let is_found = |users: &[Option<u32>]| {
            let found = carrier_of_users(&socket, folder.path(), users).unwrap();
            found.is_some()
        };
        assert!(!is_found(&[Some(user + 1), None]));
        assert!(is_found(&[Some(user + 1), Some(user)]));
        assert!(carrier_of(&socket, folder.path()).unwrap().is_some());
        // Of its folder, before the daemon makes the socket.
        assert_eq!(owner(&socket), Some(user));
        assert_eq!(owner(Path::new("/no/pipe.sock")), None);
    }

    /// Another process has the number of one that was found, before its command line is read.
    #[test]
    fn the_command_line_of_the_next_process_with_a_number_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let user = fs::metadata(folder.path()).unwrap().uid();
        let process = folder.path().join("7");
        let put = |line: &str| {
            fs::create_dir(&process).unwrap();
            fs::write(process.join("cmdline"), line.replace(' ', "\0") + "\0").unwrap();
        };
        put("/sbin/init");
        let found = super::folder(&process).unwrap();
        fs::rename(&process, folder.path().join("gone")).unwrap();
        put("mpbond bluetooth listen --socket /run/pipe.sock");
        assert!(carrier(&found, &[Some(user)]).is_none());
        let next = super::folder(&process).unwrap();
        assert!(carrier(&next, &[Some(user)]).is_some());
        assert!(carrier(&next, &[Some(user + 1)]).is_none());
    }

    #[test]
    fn octets_that_are_no_command_line_are_no_carrier() {
        for octets in [
            &b""[..],
            b"\0",
            b"bluetooth",
            b"bluetooth\0",
            b"\xff\0bluetooth\0\xff\0",
        ] {
            assert!(parse(octets).is_none(), "{octets:?}");
        }
    }
}
