//! The log of the processor: per-core frequency and utilisation, and shares
//! of the whole by who used it.
//!
//! CSV with the columns `time_s,kind,name,mhz,utilisation`. Lines of kind
//! `core` are named by core number; `mhz` is empty where the system does not
//! tell. Lines of kind `share` are named `stack`, `driver`, `logger`, `other`
//! or `unattributed` (Table 1 of the trimming paper). Utilisation is a share
//! of one core's time since the sampling before.

use std::io::Read;

use mpbond_radio::machine::CoreSample;
use mpbond_units::Timestamp;

use crate::error::CaptureError;
use crate::lines::{Lines, fields};
use crate::reader::{Format, Unpacked, open};
use crate::source::Source;

/// The first line of such a log.
pub const CPU_LOG_HEADER: &str = "time_s,kind,name,mhz,utilisation";
/// What tells such a file from others.
pub(crate) const HEADER_START: &[u8] = b"time_s,kind,name,";

/// More cores than any device has.
const MAX_CORES: usize = 1024;

/// Reads a processor log, sampling by sampling.
pub struct CpuLog<R: Read> {
    lines: Lines<Unpacked<R>>,
    /// The line that begins the next sampling.
    ahead: Option<(Timestamp, Option<CoreSample>)>,
    cores: Vec<CoreSample>,
    failed: Option<CaptureError>,
}

impl<R: Read> CpuLog<R> {
    /// Opens a log; `file` is what errors call it.
    ///
    /// # Errors
    /// When it is something else.
    pub fn new(file: &str, from: R) -> Result<Self, CaptureError> {
        let (source, format) = open(file, from)?;
        if format != Format::CpuLog {
            return Err(source.error(0, "not a processor log"));
        }
        Self::of(source)
    }

    pub(crate) fn of(source: Source<Unpacked<R>>) -> Result<Self, CaptureError> {
        let mut lines = Lines::new(source);
        lines.advance()?;
        if lines.line() != CPU_LOG_HEADER {
            return Err(lines.error(format!("the columns must be {CPU_LOG_HEADER}")));
        }
        let mut log = Self {
            lines,
            ahead: None,
            cores: Vec::new(),
            failed: None,
        };
        log.look_ahead();
        Ok(log)
    }

    fn look_ahead(&mut self) {
        self.ahead = None;
        match self.lines.advance() {
            Ok(true) => match parse(self.lines.line()) {
                Ok(line) => self.ahead = Some(line),
                Err(reason) => self.failed = Some(self.lines.error(reason)),
            },
            Ok(false) => {}
            Err(e) => self.failed = Some(e),
        }
    }

    /// The next sampling: its time and its cores; `None` at the end.
    ///
    /// # Errors
    /// When a line is cut or wrong. The sampling that it is in is not given,
    /// and none follows.
    #[allow(clippy::should_implement_trait)] // a sampling borrows from the log
    pub fn next(&mut self) -> Result<Option<(Timestamp, &[CoreSample])>, CaptureError> {
        if let Some(e) = self.failed.take() {
            self.ahead = None;
            return Err(e);
        }
        let Some((at, _)) = self.ahead else {
            return Ok(None);
        };
        self.cores.clear();
        while let Some((time, core)) = self.ahead
            && time == at
        {
            self.cores.extend(core);
            if self.cores.len() > MAX_CORES {
                self.ahead = None;
                return Err(self.lines.error(format!("more than {MAX_CORES} cores")));
            }
            self.look_ahead();
        }
        if let Some(e) = self.failed.take() {
            self.ahead = None;
            return Err(e);
        }
        if let Some((next, _)) = self.ahead
            && next < at
        {
            self.ahead = None;
            return Err(self.lines.error("time goes backwards"));
        }
        Ok(Some((at, &self.cores)))
    }
}

fn parse(line: &str) -> Result<(Timestamp, Option<CoreSample>), String> {
    let Some([time, kind, name, mhz, utilisation]) = fields::<5>(line) else {
        return Err("5 fields are needed".to_owned());
    };
    let number = |field: &str, text: &str, max: f64| match text.parse::<f64>() {
        Ok(n) if (0.0..=max).contains(&n) => Ok(n),
        _ => Err(format!("{field} \"{text}\" is no number from 0 to {max}")),
    };
    // Far beyond any date, and still whole nanoseconds in 64 bits.
    let seconds = number("time_s", time, 1e10)?;
    let at = Timestamp::from_nanos((seconds * 1e9).round() as u64);
    let utilisation = number("utilisation", utilisation, MAX_CORES as f64)?;
    match kind {
        "core" => {
            let core = name
                .parse::<u16>()
                .map_err(|_| format!("name \"{name}\" is no core number"))?;
            let mhz = if mhz.is_empty() {
                None
            } else {
                Some(number("mhz", mhz, 1e6)?)
            };
            Ok((
                at,
                Some(CoreSample {
                    core,
                    mhz,
                    utilisation,
                }),
            ))
        }
        "share" => Ok((at, None)),
        other => Err(format!("kind \"{other}\" is neither core nor share")),
    }
}
