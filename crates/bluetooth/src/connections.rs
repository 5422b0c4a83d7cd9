//! Connections that are carried, each by a thread of its own.

use std::fmt::Display;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use socket2::Socket;
use tracing::{debug, info, warn};

use crate::activity::Activity;
use crate::carry::carry;
use crate::repeats::Repeats;

/// Pause after an error of accept(2), such as too many open files, which would come again at once.
const AFTER_ERROR: Duration = Duration::from_secs(1);

/// The connections of this process.
#[derive(Debug)]
pub(crate) struct Connections {
    most: usize,
    /// One reference for each connection, and one for this.
    running: Arc<()>,
    activity: Activity,
    log: Log,
}

/// Log lines about connections.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<Repeats>>);

impl Connections {
    /// No connections yet; at most `most` at a time. All of them note their `activity`.
    pub fn new(most: usize, activity: Activity) -> Self {
        Self {
            most,
            running: Arc::new(()),
            activity,
            log: Log::default(),
        }
    }

    /// Opens the other end of a connection that was accepted, and carries bytes until one of both
    /// ends. Where it cannot be opened, the connection is closed, and the reason is logged.
    ///
    /// `open` returns the other end, and something that is kept as long as the connection.
    pub fn start<T: Display>(
        &self,
        near: Socket,
        open: impl FnOnce(&Socket) -> Result<(Socket, T), String> + Send + 'static,
    ) {
        // This one is counted by the reference that its thread will have.
        let mine = Arc::clone(&self.running);
        if Arc::strong_count(&self.running) > self.most + 1 {
            return self.log.failed(&format!(
                "{} connections are open, and no more are carried at a time",
                self.most
            ));
        }
        let (log, activity) = (self.log.clone(), self.activity.clone());
        let thread = thread::Builder::new().spawn(move || {
            let _mine = mine;
            match open(&near) {
                Ok((far, kept)) => {
                    log.opened(&kept);
                    match carry(&near, &far, &activity) {
                        Ok(carried) => debug!(
                            up_bytes = carried.0,
                            down_bytes = carried.1,
                            "{kept}: closed"
                        ),
                        Err(e) => log.failed(&format!("{kept}: {e}")),
                    }
                    // The channel is free when its socket is closed, not before.
                    drop(far);
                }
                Err(line) => log.failed(&line),
            }
        });
        if let Err(e) = thread {
            self.log
                .failed(&format!("a thread for a connection cannot be made: {e}"));
        }
    }

    /// Logs the reason why a connection that was accepted is closed at once.
    pub fn not_carried(&self, line: &str) {
        self.log.failed(line);
    }

    /// Logs an error of accept(2), and waits, so that it does not come again at once. A connection
    /// that is gone already is none.
    pub fn not_accepted(&self, e: &std::io::Error) {
        let is_gone = matches!(
            e.kind(),
            ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted
        );
        if is_gone {
            return;
        }
        self.log
            .failed(&format!("a connection cannot be accepted: {e}"));
        thread::sleep(AFTER_ERROR);
    }
}

impl Log {
    fn opened(&self, kept: &impl Display) {
        if self.with_repeats(Repeats::succeeded) {
            info!("{kept}: connected again");
        } else {
            debug!("{kept}: connected");
        }
    }

    fn failed(&self, line: &str) {
        if let Some(line) = self.with_repeats(|r| r.failed(Instant::now(), line)) {
            warn!("{line}");
        }
    }

    fn with_repeats<T>(&self, change: impl FnOnce(&mut Repeats) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
