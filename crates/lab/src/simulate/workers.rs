//! Pieces of work on all processors, with progress.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;

use super::progress::{Progress, REDRAW};
use crate::error::{Error, Result};

/// Results of the pieces of work `0..count`, in their order. `threads` run them: by default one for
/// each processor. Each piece has several results, which `progress` counts.
///
/// # Errors
/// The first error of a piece; no further ones begin then.
pub(crate) fn on_all_processors<T: Send>(
    count: usize,
    threads: Option<usize>,
    mut progress: Progress,
    one: impl Fn(usize) -> Result<Vec<T>> + Sync,
) -> Result<Vec<T>> {
    let threads = threads
        .or_else(|| thread::available_parallelism().ok().map(Into::into))
        .unwrap_or(1);
    let (one, next) = (&one, &AtomicUsize::new(0));
    let mut results: Vec<Option<Vec<T>>> = Vec::new();
    results.resize_with(count, || None);
    thread::scope(|scope| {
        let (sender, receiver) = channel();
        for _ in 0..threads.clamp(1, count.max(1)) {
            let sender = sender.clone();
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count || sender.send((number, one(number))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        loop {
            match receiver.recv_timeout(REDRAW) {
                Ok((number, result)) => {
                    let done = result.inspect_err(|_| next.store(count, Ordering::Relaxed))?;
                    progress.add(done.len());
                    results[number] = Some(done);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            progress.show();
        }
        Ok::<(), Error>(())
    })?;
    progress.end();
    Ok(results.into_iter().flatten().flatten().collect())
}
