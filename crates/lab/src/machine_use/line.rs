//! The measurement for a process in namespaces of its own: it sees neither the other processes of
//! this machine nor its own number outside, so that the process outside counts for it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::account::{Counters, Use};
use super::soaker::Soaker;

/// Maximum length of an answer, in bytes.
const MAX_ANSWER_BYTES: u64 = 4096;

/// What one octet on the line is answered with, as one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Counters {
        processors: usize,
        counters: Counters,
    },
    /// The reason why there are none.
    Failed(String),
}

/// Counts idle time, and answers each octet on the line with the counters of that instant, until
/// the other end is closed.
pub(crate) fn serve(line: UnixStream) {
    let soaker = Soaker::start();
    let start = Instant::now();
    // The other process ends when it is done.
    let _ = answer(line, || match &soaker {
        Ok(soaker) => Answer::Counters {
            processors: soaker.processors(),
            counters: Counters::read(soaker, start),
        },
        Err(why) => Answer::Failed(why.clone()),
    });
}

fn answer(mut line: UnixStream, now: impl Fn() -> Answer) -> io::Result<()> {
    let mut octet = [0];
    loop {
        line.read_exact(&mut octet)?;
        let mut text = serde_json::to_string(&now())?;
        text.push('\n');
        line.write_all(text.as_bytes())?;
    }
}

/// Reads the counters of the process outside.
pub(crate) struct Reader {
    line: BufReader<UnixStream>,
}

/// Counters at one instant, and the number of processors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    processors: usize,
    counters: Counters,
}

impl Reader {
    /// One that has the answers on `line`.
    ///
    /// # Errors
    /// When the descriptor cannot be copied.
    pub(crate) fn new(line: &UnixStream) -> io::Result<Self> {
        let line = BufReader::new(line.try_clone()?);
        Ok(Self { line })
    }

    /// The counters now. The first reading waits until the threads are calibrated.
    ///
    /// # Errors
    /// One line: the reason why there are none.
    pub(crate) fn read(&mut self) -> Result<Reading, String> {
        let broken = |e: io::Error| format!("no answer from the process outside: {e}");
        self.line.get_mut().write_all(b"?").map_err(broken)?;
        let mut text = String::new();
        let mut answer = (&mut self.line).take(MAX_ANSWER_BYTES);
        answer.read_line(&mut text).map_err(broken)?;
        match serde_json::from_str(&text).map_err(|e| broken(e.into()))? {
            Answer::Failed(why) => Err(why),
            Answer::Counters {
                processors,
                counters,
            } => Ok(Reading {
                processors,
                counters,
            }),
        }
    }
}

impl Reading {
    /// Use of the machine from this reading to a later one.
    pub(crate) fn until(&self, later: &Self) -> Option<Use> {
        Use::between(self.processors, &self.counters, &later.counters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(now: impl Fn() -> Answer + Send + 'static) -> Reader {
        let (here, there) = UnixStream::pair().unwrap();
        std::thread::spawn(move || answer(there, now));
        Reader::new(&here).unwrap()
    }

    #[test]
    fn counters_and_errors_pass_the_line() {
        let start = Instant::now();
        let soaker = Soaker::start().unwrap();
        let mut reader = answered(move || Answer::Counters {
            processors: soaker.processors(),
            counters: Counters::read(&soaker, start),
        });
        let from = reader.read().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(200));
        let to = reader.read().unwrap();
        let used = from.until(&to).unwrap();
        assert!((0.2..5.0).contains(&used.seconds), "{used:?}");
        let processors = from.processors as f64;
        assert!((-0.1..processors + 0.1).contains(&used.all), "{used:?}");
        assert_eq!(to.until(&from), None);

        let mut reader = answered(|| Answer::Failed("too busy".to_owned()));
        assert_eq!(reader.read().unwrap_err(), "too busy");
        let (here, there) = UnixStream::pair().unwrap();
        drop(there);
        let why = Reader::new(&here).unwrap().read().unwrap_err();
        assert!(
            why.starts_with("no answer from the process outside: "),
            "{why}"
        );
    }
}
