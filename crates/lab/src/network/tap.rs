//! Captures at devices of hosts, with the kernel's time stamps, as by tcpdump.
//!
//! The player's captures have the times of its own reads and writes in user space. A tap is a
//! socket in the host's kernel, whose stamps do not depend on the scheduling of processes.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use mpbond_units::Timestamp;

use crate::error::{Doing, Error, Result};
use crate::network::host::Host;
use crate::player::pcap::{self, Captured, Pcap};
use crate::sys;

/// Interval at which a tap reads packets. If it waited for them, each packet would wake it between
/// its stamp and its further way: 15 µs where another processor of a virtual machine has to be
/// woken.
const LOOK: Duration = Duration::from_millis(20);
/// Maximum size of a packet: veth pairs pass segments of 64 KiB.
const LARGEST: usize = 65_535;

/// A running capture. Its times are Unix time.
pub(crate) struct Tap {
    device: String,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<u64>>,
}

impl Tap {
    /// Captures packets sent and received by `device` of `host` into `DEVICE.pcap` in `folder`.
    ///
    /// # Errors
    /// When there is no such device, or the file cannot be created.
    pub(crate) fn start(host: &Host, device: &str, folder: &Path) -> Result<Self> {
        let open = || {
            let index = nix::net::if_::if_nametoindex(device)?;
            sys::tap::open(index)
        };
        let socket = host
            .enter(open)?
            .doing(format_args!("cannot capture at {device}"))?;
        let file = pcap::create(folder, device)?;
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = std::thread::Builder::new()
            .name("tap".into())
            .spawn(move || listen(&socket, file, &told))
            .doing("cannot start a tap")?;
        Ok(Self {
            device: device.to_owned(),
            stop,
            thread,
        })
    }

    /// Writes the rest and ends the capture.
    ///
    /// # Errors
    /// Errors of the file system; also when packets were lost.
    pub(crate) fn finish(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let panicked = |_| Error::run("a tap panicked");
        match self.thread.join().map_err(panicked)?? {
            0 => Ok(()),
            lost => Err(Error::run(format!(
                "the capture at {} lacks {lost} packets",
                self.device
            ))),
        }
    }
}

/// Captures until stopped; returns the number of lost packets.
fn listen(socket: &File, mut file: Pcap, stop: &AtomicBool) -> Result<u64> {
    let mut buffer = vec![0; LARGEST];
    loop {
        // Read before the packets, so that all until then are written.
        let last = stop.load(Ordering::Relaxed);
        while let Some(seen) = sys::tap::receive(socket, &mut buffer).doing("cannot capture")? {
            let packet = buffer.get(..seen.bytes).unwrap_or_default();
            // Only IP packets: ARP and others are left out.
            if packet.first().is_some_and(|b| matches!(b >> 4, 4 | 6))
                && let Some(at_ns) = seen.at_ns
            {
                file.push(Captured {
                    at: Timestamp::from_nanos(at_ns),
                    packet: packet.to_vec(),
                });
            }
        }
        if last {
            break;
        }
        std::thread::sleep(LOOK);
    }
    file.finish()?;
    sys::packet::lost(socket).doing("cannot read a tap's count of lost packets")
}
