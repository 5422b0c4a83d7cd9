//! Counters of this host's network interfaces, by the kernel (`/proc/net/dev`, proc(5)).
//!
//! The file is opened once, before a daemon gives up access to files.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;

use mpbond_policy::Reading;
use nix::net::if_::if_nametoindex;

const FILE: &str = "/proc/net/dev";

/// Identifier of the kernel's boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Octets that are read of the file at a time, and at most.
const BLOCK: usize = 4_096;
const MAX_OCTETS: usize = 1 << 20;

/// Columns behind the name: bytes received, and bytes sent.
const RECEIVED: usize = 0;
const SENT: usize = 8;

/// Counters of all interfaces.
pub struct InterfaceBytes {
    /// Absent where it cannot be read.
    file: Option<File>,
    boot_id: String,
}

impl InterfaceBytes {
    /// Those of this host.
    pub fn of_this_host() -> Self {
        Self {
            file: File::open(FILE).ok(),
            boot_id: fs::read_to_string(BOOT_ID)
                .unwrap_or_default()
                .trim()
                .to_owned(),
        }
    }

    /// Bytes that an interface has received and sent; `None` if there is no such interface.
    pub fn passed(&self, interface: &str) -> Option<[u64; 2]> {
        let text = whole(self.file.as_ref()?).ok()?;
        bytes_of(&text, interface)
    }

    /// The counter of an interface now; `None` if there is no such interface.
    pub fn read(&self, interface: &str) -> Option<Reading> {
        let [received, sent] = self.passed(interface)?;
        Some(Reading {
            bytes: received.checked_add(sent)?,
            interface: interface.to_owned(),
            boot_id: self.boot_id.clone(),
            ifindex: if_nametoindex(interface).ok()?,
        })
    }
}

/// The kernel makes the file anew for each reading from the start.
fn whole(file: &File) -> io::Result<String> {
    let mut octets = Vec::new();
    loop {
        let length = octets.len();
        octets.resize(length + BLOCK, 0);
        let read = file.read_at(&mut octets[length..], length as u64)?;
        octets.truncate(length + read);
        if read == 0 || octets.len() >= MAX_OCTETS {
            return String::from_utf8(octets).map_err(io::Error::other);
        }
    }
}

/// Bytes received and sent by an interface.
fn bytes_of(text: &str, interface: &str) -> Option<[u64; 2]> {
    let mut lines = text.lines();
    let columns = lines.find_map(|line| {
        // The first column may follow the colon at once.
        let (name, columns) = line.rsplit_once(':')?;
        (name.trim() == interface).then_some(columns)
    })?;
    let columns: Vec<&str> = columns.split_whitespace().collect();
    let number = |n: usize| columns.get(n)?.parse::<u64>().ok();
    Some([number(RECEIVED)?, number(SENT)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_an_interface_are_those_received_and_sent() {
        let text = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop
    lo: 1000 10 0 0 0 0 0 0 1000 10 0 0 0 0 0 0
 wwan0:18446744073709551000 10 0 0 0 0 0 0 615 10 0 0 0 0 0 0
  a:b: 7 1 0 0 0 0 0 0 8 1 0 0 0 0 0 0
  bad: x 1 0 0 0 0 0 0 8 1 0 0 0 0 0 0
";
        assert_eq!(bytes_of(text, "lo"), Some([1_000, 1_000]));
        assert_eq!(bytes_of(text, "wwan0"), Some([u64::MAX - 615, 615]));
        assert_eq!(bytes_of(text, "a:b"), Some([7, 8]));
        for none in ["bad", "eth0", "", "face"] {
            assert_eq!(bytes_of(text, none), None, "{none}");
        }
    }

    #[test]
    fn the_loopback_interface_of_this_host_is_read_again_and_again() {
        let host = InterfaceBytes::of_this_host();
        let first = host.read("lo").unwrap();
        assert!(first.ifindex > 0 && first.boot_id.len() == 36, "{first:?}");
        let (to, from) = (
            std::net::UdpSocket::bind("127.0.0.1:0").unwrap(),
            [7; 10_000],
        );
        let me = to.local_addr().unwrap();
        to.send_to(&from, me).unwrap();
        let then = host.read("lo").unwrap();
        assert!(then.bytes - first.bytes >= 20_000, "{first:?} {then:?}");
    }
}
