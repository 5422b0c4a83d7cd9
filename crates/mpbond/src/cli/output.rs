use std::io::{self, Write};

use super::failure::Failure;

/// Writes to standard output. A reader that has seen enough (`| head`) is no failure.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(e) => Err(Failure::run(format_args!("cannot write the answer: {e}"))),
        Ok(()) => Ok(()),
    }
}
