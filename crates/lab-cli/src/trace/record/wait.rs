//! End of a recording.

use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

use mpbond_command::Failure;

/// Waits for the time, the program's end, or SIGINT or SIGTERM, whichever comes first. The program
/// is not stopped.
pub(crate) fn wait(duration: Option<Duration>, program: &[OsString]) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::run(format_args!("cannot wait: {e}")))?;
    let result = runtime.block_on(async {
        let time = async {
            match duration {
                Some(d) => tokio::time::sleep(d).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = time => Ok(()),
            () = signal() => Ok(()),
            done = run(program) => done,
        }
    });
    // The program may still run.
    runtime.shutdown_background();
    result
}

async fn run(program: &[OsString]) -> Result<(), Failure> {
    let Some((name, arguments)) = program.split_first() else {
        return std::future::pending().await;
    };
    let shown = name.to_string_lossy().into_owned();
    let mut child = Command::new(name)
        .args(arguments)
        .spawn()
        .map_err(|e| Failure::input(format_args!("cannot run {shown}: {e}")))?;
    let status = tokio::task::spawn_blocking(move || child.wait()).await;
    match status {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(Failure::run(format_args!(
            "{shown} ended with {status}; the trace is written nevertheless"
        ))),
        Ok(Err(e)) => Err(Failure::run(format_args!("{shown}: {e}"))),
        Err(e) => Err(Failure::run(format_args!("{shown}: {e}"))),
    }
}

async fn signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let kinds = (SignalKind::interrupt(), SignalKind::terminate());
    match (signal(kinds.0), signal(kinds.1)) {
        (Ok(mut int), Ok(mut term)) => tokio::select! {
            _ = int.recv() => {}
            _ = term.recv() => {}
        },
        _ => std::future::pending().await,
    }
}
