//! Standard output.

use std::io::{self, Write};

use crate::Failure;

/// Writes to standard output. Where its reader has closed it (`| head`), the program ends with
/// success.
///
/// # Errors
/// When standard output cannot be written for another reason.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(e) => Err(Failure::run(format_args!(
            "cannot write to standard output: {e}"
        ))),
        Ok(()) => Ok(()),
    }
}
