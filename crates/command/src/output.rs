//! Standard output, and standard error beside it.

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

/// Writes a line to standard error, as `eprintln!` does, which would end the program by a panic
/// where standard error cannot be written: its reader has gone, or a disk is full.
#[macro_export]
macro_rules! note {
    ($($text:tt)*) => {
        $crate::to_standard_error(format_args!("{}\n", format_args!($($text)*)))
    };
}

/// The same without the end of the line, as `eprint!` does: for questions and progress.
#[macro_export]
macro_rules! prompt {
    ($($text:tt)*) => {
        $crate::to_standard_error(format_args!($($text)*))
    };
}

/// Writes to standard error. A failure is ignored: the exit code and standard output have the
/// result.
pub fn to_standard_error(text: std::fmt::Arguments<'_>) {
    let mut err = io::stderr().lock();
    let _ = err.write_fmt(text).and_then(|()| err.flush());
}
