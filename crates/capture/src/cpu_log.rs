//! Processor log: frequency and utilisation per core, and shares of the total by consumer.
//!
//! CSV with the columns `time_s,kind,name,mhz,utilisation`. In lines of kind `core`, the name is
//! the core number; `mhz` is empty where the system does not report it. In lines of kind `share`,
//! the name is `stack`, `softirq`, `driver`, `logger`, `other`, `unattributed` or `twice` (Table 1
//! of "Trimming the Smartphone Network Stack"; see [`crate::cpu_sampling`]). Utilisation is a share
//! of one core's time since the previous sample; that of a share may be negative, as it may be a
//! difference. Every sample has the same shares; cores may come and go.

use std::io::Read;

use mpbond_radio::machine::CoreSample;
use mpbond_units::Timestamp;

use crate::error::CaptureError;
use crate::lines::{Lines, fields};
use crate::source::Source;
use crate::unpack::{Unpacked, unpack};

/// First line of a processor log.
pub const CPU_LOG_HEADER: &str = "time_s,kind,name,mhz,utilisation";
/// Beginning that identifies a processor log.
const HEADER_START: &[u8] = b"time_s,kind,name,";

/// Maximum number of cores.
const MAX_CORES: usize = 1024;
/// Maximum number of shares.
const MAX_SHARES: usize = 64;
/// Maximum length of a share's name.
const MAX_NAME: usize = 32;

/// Whether a file begins like a processor log.
pub(crate) fn is(head: &[u8]) -> bool {
    head.starts_with(HEADER_START)
}

/// Line of a log after its time.
enum Line {
    Core(CoreSample),
    /// Name and utilisation.
    Share(String, f64),
}

/// Reader of a processor log, sample by sample.
pub struct CpuLog<R: Read> {
    lines: Lines<Unpacked<R>>,
    /// Line that begins the next sample.
    ahead: Option<(Timestamp, Line)>,
    cores: Vec<CoreSample>,
    shares: Vec<(String, f64)>,
    /// Names of the first sample's shares; `None` before it.
    names: Option<Vec<String>>,
    /// Number of the last line of the sample that was returned last.
    line: u64,
    failed: Option<CaptureError>,
}

impl<R: Read> CpuLog<R> {
    /// Opens a log; `file` names it in errors.
    ///
    /// # Errors
    /// When the file is not a processor log.
    pub fn new(file: &str, from: R) -> Result<Self, CaptureError> {
        let mut source = unpack(file, from)?;
        if !is(source.peek(HEADER_START.len())?) {
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
            shares: Vec::new(),
            names: None,
            line: 0,
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
        let Some((at, _)) = &self.ahead else {
            return Ok(None);
        };
        let at = *at;
        self.cores.clear();
        self.shares.clear();
        while let Some((_, line)) = self.ahead.take_if(|(time, _)| *time == at) {
            let twice = match line {
                Line::Core(core) => {
                    let twice = self.cores.iter().any(|c| c.core == core.core);
                    self.cores.push(core);
                    twice.then(|| format!("a second line of core {}", core.core))
                }
                Line::Share(name, utilisation) => {
                    let twice = self.shares.iter().any(|(n, _)| *n == name);
                    let twice = twice.then(|| format!("a second line of share {name}"));
                    self.shares.push((name, utilisation));
                    twice
                }
            };
            let reason = match twice {
                Some(reason) => Some(reason),
                None if self.cores.len() > MAX_CORES => {
                    Some(format!("more than {MAX_CORES} cores"))
                }
                None if self.shares.len() > MAX_SHARES => {
                    Some(format!("more than {MAX_SHARES} shares"))
                }
                None => None,
            };
            if let Some(reason) = reason {
                return Err(self.lines.error(reason));
            }
            self.line = self.lines.number();
            self.look_ahead();
        }
        if let Some(e) = self.failed.take() {
            self.ahead = None;
            return Err(e);
        }
        if self.ahead.as_ref().is_some_and(|(next, _)| *next < at) {
            self.ahead = None;
            return Err(self.lines.error("time goes backwards"));
        }
        if let Err(reason) = self.same_shares() {
            self.ahead = None;
            return Err(self.error(reason));
        }
        Ok(Some((at, &self.cores)))
    }

    /// Names and utilisations of the shares in the sample that [`Self::next`] returned last.
    pub fn shares(&self) -> &[(String, f64)] {
        &self.shares
    }

    /// Error with the place of the sample that was returned last.
    pub(crate) fn error(&self, reason: impl Into<String>) -> CaptureError {
        self.lines.error_at(self.line, reason)
    }

    /// # Errors
    /// The difference to the shares of the first sample.
    fn same_shares(&mut self) -> Result<(), String> {
        let mut own = self.shares.iter().map(|(name, _)| name);
        let Some(names) = &self.names else {
            self.names = Some(own.cloned().collect());
            return Ok(());
        };
        if let Some(added) = own.find(|name| !names.contains(name)) {
            return Err(format!("share {added} is not in the first sample"));
        }
        let found = |name: &String| self.shares.iter().any(|(n, _)| n == name);
        match names.iter().find(|name| !found(name)) {
            Some(missing) => Err(format!("the sample has no share {missing}: the log is cut")),
            None => Ok(()),
        }
    }
}

fn parse(line: &str) -> Result<(Timestamp, Line), String> {
    let Some([time, kind, name, mhz, utilisation]) = fields::<5>(line) else {
        return Err("expected 5 fields".to_owned());
    };
    let between = |field: &str, text: &str, min: f64, max: f64| match text.parse::<f64>() {
        Ok(n) if (min..=max).contains(&n) => Ok(n),
        _ => Err(format!(
            "{field} \"{text}\" is not a number from {min} to {max}"
        )),
    };
    let number = |field, text, max| between(field, text, 0.0, max);
    // Beyond any date, and still whole nanoseconds in 64 bits.
    let seconds = number("time_s", time, 1e10)?;
    let at = Timestamp::from_nanos((seconds * 1e9).round() as u64);
    let most = MAX_CORES as f64;
    let least = if kind == "share" { -most } else { 0.0 };
    let utilisation = between("utilisation", utilisation, least, most)?;
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
                Line::Core(CoreSample {
                    core,
                    mhz,
                    utilisation,
                }),
            ))
        }
        "share" if name.is_empty() || name.len() > MAX_NAME => {
            Err(format!("name of a share: 1 to {MAX_NAME} octets"))
        }
        "share" => Ok((at, Line::Share(name.to_owned(), utilisation))),
        other => Err(format!("kind \"{other}\" is neither core nor share")),
    }
}
