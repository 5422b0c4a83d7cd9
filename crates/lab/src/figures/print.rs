//! Results on standard output.

use std::io::{self, Write as _};

use crate::error::{Error, Result};

/// Writes to standard output. A reader that has closed it (`| head`) has read enough. The program
/// does not end then, as it does by `mpbond_command::print`: files of a run's results follow.
///
/// # Errors
/// Standard output cannot be written, for another reason.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(e) => Err(Error::run(format!("cannot write to standard output: {e}"))),
        Ok(()) => Ok(()),
    }
}
