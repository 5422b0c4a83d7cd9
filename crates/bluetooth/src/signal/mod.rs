//! Strength of the signal of the link to a device, told to the primary while bytes move.

mod api;
mod strength;

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use socket2::Socket;
use tracing::{info, warn};

use crate::activity::Activity;
use crate::reason::reason;
use crate::repeats::Repeats;
use crate::sys::hci::adapters;
use crate::sys::rfcomm;
use crate::sys::rssi::rssi;
pub(crate) use api::LinkOfPrimary;
pub use api::status;
use strength::Answers;

/// Interval of samples, for which the primary's filter is made (Wear OS paper, Table 3).
const EVERY: Duration = Duration::from_millis(200);

/// The link to a device, by the newest connection, or why it is not known. Copies are of the same
/// one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signal(Arc<Mutex<Option<Result<Link, String>>>>);

/// A connection of the baseband.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link {
    /// Number of the adapter.
    adapter: u16,
    handle: u16,
}

impl Signal {
    /// A connection of RFCOMM was made. All of them share one link.
    pub fn connected(&self, socket: &Socket) {
        let link = link_of(socket).map_err(|e| {
            let why = reason(&e);
            format!("the strength of the signal is not told: the link is not known: {why}")
        });
        let mut of_device = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if link.is_ok() || !matches!(*of_device, Some(Ok(_))) {
            *of_device = Some(link);
        }
    }

    fn link(&self) -> Option<Result<Link, String>> {
        let of_device = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        of_device.clone()
    }

    /// Starts a thread that tells the primary the strength while bytes move, and sleeps otherwise.
    ///
    /// # Errors
    /// When the thread cannot be made.
    pub fn tell(self, to: LinkOfPrimary, activity: Activity) -> io::Result<()> {
        let mut answers = None;
        let tell = move || {
            let sampled = self.link()?.and_then(|link| sample(&mut answers, link));
            let dbm = sampled.transpose()?;
            Some(dbm.and_then(|dbm| to.tell(dbm)))
        };
        let thread = thread::Builder::new();
        thread
            .spawn(move || while_active(&activity, tell))
            .map(drop)
    }
}

/// Calls a function at intervals while anything moves; its errors are lines for the log.
fn while_active(activity: &Activity, mut tell: impl FnMut() -> Option<Result<(), String>>) -> ! {
    let mut log = Repeats::default();
    loop {
        activity.wait();
        if let Some(told) = tell() {
            logged(&mut log, told);
        }
        thread::sleep(EVERY);
    }
}

/// The link of a connection.
fn link_of(socket: &Socket) -> io::Result<Link> {
    let handle = rfcomm::handle(socket)?;
    let local = rfcomm::device(&socket.local_addr()?);
    let adapter = adapters()?.into_iter().find(|a| Some(a.address) == local);
    let none = || io::Error::other("no adapter has the address of the connection's own end");
    let adapter = adapter.ok_or_else(none)?.number;
    Ok(Link { adapter, handle })
}

/// Strength of a link's signal in dBm, if it is known. `answers` has the adapter, and the meaning
/// of its answers.
fn sample(answers: &mut Option<(u16, Answers)>, link: Link) -> Result<Option<i16>, String> {
    let rssi = rssi(link.adapter, link.handle).map_err(|e| {
        let (why, number) = (reason(&e), link.adapter);
        format!("the strength of the signal is not told: hci{number}: {why}")
    })?;
    let kept = answers.filter(|(adapter, _)| *adapter == link.adapter);
    let (_, meaning) = answers.insert(kept.unwrap_or((link.adapter, Answers::default())));
    Ok(meaning.dbm(rssi))
}

fn logged(log: &mut Repeats, told: Result<(), String>) {
    match told {
        Ok(()) if log.succeeded() => info!("the strength of the signal is told again"),
        Ok(()) => {}
        Err(line) => {
            if let Some(line) = log.failed(Instant::now(), &line) {
                warn!("{line}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{RecvTimeoutError, channel};

    use super::*;

    #[test]
    fn it_is_told_while_something_moves_and_not_afterwards() {
        let activity = Activity::default();
        let (told, all) = channel();
        let of_thread = activity.clone();
        thread::spawn(move || {
            while_active(&of_thread, || {
                let ended = told.send(()).is_err();
                Some(ended.then_some(()).ok_or_else(String::new))
            })
        });
        let within = Duration::from_secs(60);
        for _ in 0..3 {
            activity.note();
            all.recv_timeout(within).unwrap();
        }
        let idle = all.recv_timeout(4 * EVERY);
        assert_eq!(idle, Err(RecvTimeoutError::Timeout));
        activity.note();
        all.recv_timeout(within).unwrap();
    }

    #[test]
    fn a_socket_without_a_link_of_bluetooth_is_a_reason_where_none_is_known() {
        let signal = Signal::default();
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let socket = socket.into();
        signal.connected(&socket);
        let why = signal.link().unwrap().unwrap_err();
        assert!(why.contains("the link is not known: "), "{why}");
        let link = Link {
            adapter: 1,
            handle: 42,
        };
        *signal.0.lock().unwrap() = Some(Ok(link));
        signal.connected(&socket);
        assert_eq!(signal.link(), Some(Ok(link)));
    }
}
