//! Files written by a thread of their own, so that links do not wait for the disk.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::error::{Doing, Error, Result};

/// Maximum number of batches that wait for the disk. Beyond it the player waits too, which shows in
/// its lateness.
const BATCHES_WAITING: usize = 256;

/// An entry of a file.
pub(crate) trait Entry: Send + 'static {
    /// Start of the file.
    const HEADER: &'static [u8];
    /// Number of entries passed to the writer at once.
    const BATCH: usize;

    fn write(&self, out: &mut impl Write) -> std::io::Result<()>;
}

/// The player's side of a file.
pub(crate) struct LogFile<E: Entry> {
    batch: Vec<E>,
    writer: Option<Writer<E>>,
    path: PathBuf,
}

/// The writing thread and its channel.
struct Writer<E> {
    batches: SyncSender<Vec<E>>,
    thread: JoinHandle<std::io::Result<()>>,
}

impl<E: Entry> LogFile<E> {
    /// Creates a file, replacing any at `path`.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).at("write", path)?;
        let (batches, receiver) = sync_channel(BATCHES_WAITING);
        let thread = std::thread::Builder::new()
            .name("packet-log".into())
            .spawn(move || write_all(file, &receiver))
            .doing("cannot start the packet log")?;
        Ok(Self {
            batch: Vec::with_capacity(E::BATCH),
            writer: Some(Writer { batches, thread }),
            path: path.to_owned(),
        })
    }

    pub fn push(&mut self, entry: E) {
        self.batch.push(entry);
        if self.batch.len() >= E::BATCH {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(E::BATCH));
        if let Some(writer) = &self.writer {
            // `finish` reports errors of the writer.
            let _ = writer.batches.send(batch);
        }
    }

    /// Writes the rest, and reports errors of all writing.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn finish(mut self) -> Result<()> {
        self.hand_over();
        let Some(Writer { batches, thread }) = self.writer.take() else {
            return Ok(());
        };
        drop(batches);
        thread
            .join()
            .map_err(|_| Error::run("the packet log panicked"))?
            .at("write", &self.path)
    }
}

fn write_all<E: Entry>(file: File, batches: &Receiver<Vec<E>>) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, file);
    out.write_all(E::HEADER)?;
    for batch in batches {
        for entry in batch {
            entry.write(&mut out)?;
        }
    }
    out.flush()
}
