//! Processor log: frequency and utilisation per core, and shares of the total by consumer.
//!
//! CSV with the columns `time_s,kind,name,mhz,utilisation`. In lines of kind `core`, the name is
//! the core number; `mhz` is empty where the system does not report it. In lines of kind `share`,
//! the name is `stack`, `driver`, `logger`, `other` or `unattributed` (Table 1 of "Trimming the
//! Smartphone Network Stack"). Utilisation is a share of one core's time since the previous sample.

use std::io::Read;

use mpbond_radio::machine::CoreSample;
use mpbond_units::Timestamp;

use crate::error::CaptureError;
use crate::lines::{Lines, fields};
use crate::reader::{Format, Unpacked, open};
use crate::source::Source;

/// First line of a processor log.
pub const CPU_LOG_HEADER: &str = "time_s,kind,name,mhz,utilisation";
/// Beginning that identifies a processor log.
pub(crate) const HEADER_START: &[u8] = b"time_s,kind,name,";

/// Maximum number of cores.
const MAX_CORES: usize = 1024;

/// Reader of a processor log, sample by sample.
pub struct CpuLog<R: Read> {
    lines: Lines<Unpacked<R>>,
    /// Line that begins the next sample.
    ahead: Option<(Timestamp, Option<CoreSample>)>,
    cores: Vec<CoreSample>,
    failed: Option<CaptureError>,
}

impl<R: Read> CpuLog<R> {
    /// Opens a log; `file` names it in errors.
    ///
    /// # Errors
    /// When the file is not a processor log.
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
            return Err(lines.error(format!("expected the columns {CPU_LOG_HEADER}")));
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

    /// Time and cores of the next sample; `None` at the end.
    ///
    /// # Errors
    /// When a line is truncated or malformed. The sample that contains it is not returned, and none
    /// follows.
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
        return Err("expected 5 fields".to_owned());
    };
    let number = |field: &str, text: &str, max: f64| match text.parse::<f64>() {
        Ok(n) if (0.0..=max).contains(&n) => Ok(n),
        _ => Err(format!(
            "{field} \"{text}\" is not a number from 0 to {max}"
        )),
    };
    // Beyond any date, and still whole nanoseconds in 64 bits.
    let seconds = number("time_s", time, 1e10)?;
    let at = Timestamp::from_nanos((seconds * 1e9).round() as u64);
    let utilisation = number("utilisation", utilisation, MAX_CORES as f64)?;
    match kind {
        "core" => {
            let core = name
                .parse::<u16>()
                .map_err(|_| format!("name \"{name}\" is not a core number"))?;
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
