//! Captures at hosts' devices with the kernel's stamps, as tcpdump takes them.
//!
//! The player's captures say when *it* took and gave a packet, in user space. A tap is a socket in
//! the host's kernel: what it says does not depend on who gets a processor when.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use mpbond_units::Timestamp;

use crate::error::{Doing, Error, Result};
use crate::host::Host;
use crate::player::pcap::{self, Captured, Pcap};
use crate::sys;

/// How often a tap looks for packets. One that waited for them would be woken by each, between its stamp
/// and the packet's way on: 15 µs where another processor of a virtual machine has to be woken.
const LOOK: Duration = Duration::from_millis(20);
/// No packet of a device is larger: veth pairs hand 64 KiB segments on.
const LARGEST: usize = 65_535;

/// A capture that is being written. Its times are Unix time.
pub(crate) struct Tap {
    device: String,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<u64>>,
}

impl Tap {
    /// Captures what `device` of `host` sends and receives into `DEVICE.pcap` in `folder`.
    ///
    /// # Errors
    /// When there is no such device, or the file cannot be made.
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

    /// Writes what is left.
    ///
    /// # Errors
    /// What the disk said, and when packets found no room: a capture with holes is none.
    pub(crate) fn finish(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let panicked = |_| Error::run("a tap panicked");
        match self.thread.join().map_err(panicked)?? {
            0 => Ok(()),
            lost => Err(Error::run(format!(
                "the capture at {} misses {lost} packets",
                self.device
            ))),
        }
    }
}

/// Gives the number of packets that were lost.
fn listen(socket: &File, mut file: Pcap, stop: &AtomicBool) -> Result<u64> {
    let mut buffer = vec![0; LARGEST];
    loop {
        // Asked before it looks: what came until then is written.
        let last = stop.load(Ordering::Relaxed);
        while let Some(seen) = sys::tap::receive(socket, &mut buffer).doing("cannot capture")? {
            let packet = buffer.get(..seen.bytes).unwrap_or_default();
            // ARP and the like have no place in a capture of IP packets.
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
    sys::packet::lost(socket).doing("cannot ask a tap what it lost")
}
