//! Standard output, and standard error beside it.

use std::fmt;
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
pub fn to_standard_error(text: fmt::Arguments<'_>) {
    let _ = at_once(&mut io::stderr().lock(), text);
}

/// Writes a text as a whole. Standard error has no buffer: a reader would see a line as far as its
/// first argument, and lines of several processes would mix.
fn at_once(to: &mut impl Write, text: fmt::Arguments<'_>) -> io::Result<()> {
    to.write_all(text.to_string().as_bytes())?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each write by itself.
    struct Writes(Vec<Vec<u8>>);

    impl Write for Writes {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            self.0.push(octets.to_vec());
            Ok(octets.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_is_one_write() {
        let mut writes = Writes(Vec::new());
        at_once(&mut writes, format_args!("Link to lend: {}\n", "net0")).unwrap();
        assert_eq!(writes.0, [b"Link to lend: net0\n"]);
    }
}
