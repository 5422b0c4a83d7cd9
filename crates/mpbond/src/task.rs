//! Tasks of one thread, as trait objects: tokio compiles the code of a task, about 2 kB, for each
//! type of future. The driver's tasks, which move bytes, are of their own types nevertheless.

use std::pin::Pin;

use tokio::task::JoinHandle;

/// Starts `future` as a task of this thread. Must be called within a `LocalSet`.
pub(crate) fn spawn_local(future: impl Future<Output = ()> + 'static) -> JoinHandle<()> {
    let future: Pin<Box<dyn Future<Output = ()>>> = Box::pin(future);
    tokio::task::spawn_local(future)
}
