//! Log of a power meter, and its comparison with the model of a processor.
//!
//! CSV with the columns `time_s,power_mw`: the mean power of the whole phone since the previous
//! line. "Trimming the Smartphone Network Stack", Figure 7, compares such a log with the model,
//! while a program uses the processor and no radio sends.

use std::io::Read;

use mpbond_radio::machine::CpuParameters;
use mpbond_units::Timestamp;
use serde::Serialize;

use crate::cpu_log::CpuLog;
use crate::cpu_summary::fits;
use crate::error::CaptureError;
use crate::lines::{Lines, fields};
use crate::source::Source;

/// First line of a power log.
pub const POWER_LOG_HEADER: &str = "time_s,power_mw";
/// Minimum share of the processor log's time that the power log has to cover.
const MIN_COVERED: f64 = 0.95;
/// Maximum power of a phone, in mW.
const MAX_MW: f64 = 100_000.0;

/// Reader of a power log, line by line.
pub struct PowerLog<R: Read> {
    lines: Lines<R>,
    before: Option<Timestamp>,
}

impl<R: Read> PowerLog<R> {
    /// Opens a log; `file` names it in errors.
    ///
    /// # Errors
    /// When the file is not a power log.
    pub fn new(file: &str, from: R) -> Result<Self, CaptureError> {
        let mut lines = Lines::new(Source::new(file, from));
        if !lines.advance()? || lines.line() != POWER_LOG_HEADER {
            return Err(lines.error(format!("expected the columns {POWER_LOG_HEADER}")));
        }
        Ok(Self {
            lines,
            before: None,
        })
    }

    /// Time and power in mW of the next line; `None` at the end.
    ///
    /// # Errors
    /// When a line is cut, malformed or out of order.
    #[allow(clippy::should_implement_trait)] // as the other readers
    pub fn next(&mut self) -> Result<Option<(Timestamp, f64)>, CaptureError> {
        if !self.lines.advance()? {
            return Ok(None);
        }
        let Some([time, power]) = fields::<2>(self.lines.line()) else {
            return Err(self.lines.error("expected 2 fields"));
        };
        let number = |field: &str, text: &str, max: f64| match text.parse::<f64>() {
            Ok(n) if (0.0..=max).contains(&n) => Ok(n),
            _ => Err(self.lines.error(format!(
                "{field} \"{text}\" is not a number from 0 to {max}"
            ))),
        };
        // Beyond any date, and still whole nanoseconds in 64 bits.
        let seconds = number("time_s", time, 1e10)?;
        let power = number("power_mw", power, MAX_MW)?;
        let at = Timestamp::from_nanos((seconds * 1e9).round() as u64);
        if self.before.is_some_and(|before| at <= before) {
            return Err(self.lines.error("time goes backwards, or stands still"));
        }
        self.before = Some(at);
        Ok(Some((at, power)))
    }
}

/// Means of meter and model over the same time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Metered {
    /// Time that both logs cover.
    pub seconds: f64,
    /// Mean power by the meter, in mW.
    pub meter_mw: f64,
    /// Mean power by the model, in mW.
    pub model_mw: f64,
    /// The model's error: its power over the meter's, less one.
    pub error_share: f64,
}

/// A power log that is read beside a processor log: one interval of it is held.
struct Meter<R: Read> {
    log: PowerLog<R>,
    /// Beginning, end and power of the last interval that was read.
    interval: (Timestamp, Timestamp, f64),
}

impl<R: Read> Meter<R> {
    fn new(file: &str, from: R) -> Result<Self, CaptureError> {
        let mut log = PowerLog::new(file, from)?;
        match (log.next()?, log.next()?) {
            (Some((begin, _)), Some((end, mw))) => Ok(Self {
                log,
                interval: (begin, end, mw),
            }),
            _ => Err(log.lines.error("fewer than two lines")),
        }
    }

    /// Reads the next interval; `false` at the end of the log.
    fn advance(&mut self) -> Result<bool, CaptureError> {
        let Some((end, mw)) = self.log.next()? else {
            return Ok(false);
        };
        self.interval = (self.interval.1, end, mw);
        Ok(true)
    }

    /// Energy in mJ and time in seconds of the part between two instants. Parts are asked for in
    /// their order.
    fn between(&mut self, from: Timestamp, to: Timestamp) -> Result<(f64, f64), CaptureError> {
        let (mut mj, mut seconds) = (0.0, 0.0);
        loop {
            let (begin, end, mw) = self.interval;
            if begin < to && end > from {
                let part = end.min(to).since(begin.max(from)).as_secs_f64();
                mj += mw * part;
                seconds += part;
            }
            if end >= to || !self.advance()? {
                return Ok((mj, seconds));
            }
        }
    }
}

/// Compares the model of a phone's processor with a power meter: `base_mw` is the model's power of
/// the rest of the phone.
///
/// # Errors
/// When one of the logs is cut or out of order, the processor log is of another phone, or the power
/// log covers less than 95 % of its time: it is of another run then.
pub fn metered<C: Read, P: Read>(
    (cpu_file, cpu_from): (&str, C),
    (power_file, power_from): (&str, P),
    cpu: &CpuParameters,
    base_mw: f64,
) -> Result<Metered, CaptureError> {
    let mut power = Meter::new(power_file, power_from)?;
    let mut log = CpuLog::new(cpu_file, cpu_from)?;
    let mut before: Option<Timestamp> = None;
    let (mut model_mj, mut meter_mj) = (0.0, 0.0);
    let (mut logged, mut covered) = (0.0, 0.0);
    while let Some((at, cores)) = log.next()? {
        let cores = cores.to_vec();
        fits(&log, cpu, &cores)?;
        if let Some(before) = before {
            let (mj, seconds) = power.between(before, at)?;
            meter_mj += mj;
            covered += seconds;
            model_mj += (cpu.power_mw(&cores) + base_mw) * seconds;
            logged += at.since(before).as_secs_f64();
        }
        before = Some(at);
    }
    // A log that is damaged later is refused, too.
    while power.advance()? {}
    if logged <= 0.0 {
        return Err(log.error("fewer than two samples"));
    }
    if covered < MIN_COVERED * logged || meter_mj <= 0.0 {
        return Err(log.error(format!(
            "{power_file} covers {covered:.3} s of the {logged:.3} s of this log: it is of another \
             run"
        )));
    }
    Ok(Metered {
        seconds: covered,
        meter_mw: meter_mj / covered,
        model_mw: model_mj / covered,
        error_share: model_mj / meter_mj - 1.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpbond_radio::Profiles;

    const CPU: &str = "time_s,kind,name,mhz,utilisation\n\
        10.0,core,0,1400,1\n11.0,core,0,1400,0.5\n12.0,core,0,1400,1\n";
    const POWER: &str = "time_s,power_mw\n9.5,100\n10.5,500\n11.5,1000\n12.5,1000\n";

    fn compared(cpu: &str, power: &str) -> Result<Metered, String> {
        let profiles = Profiles::shipped().unwrap();
        let s3 = profiles.cpu("cpu-galaxy-s3").unwrap();
        let logs = [("cpu.csv", cpu.as_bytes()), ("power.csv", power.as_bytes())];
        metered(logs[0], logs[1], s3, 25.0).map_err(|e| e.to_string())
    }

    #[test]
    fn means_are_over_the_same_time() {
        let m = compared(CPU, POWER).unwrap();
        assert_eq!(m.seconds, 2.0);
        // From 10 s: half a second with 500 mW, then 1000 mW.
        assert!((m.meter_mw - 875.0).abs() < 1e-9, "{m:?}");
        // Half of 760 mW and then all of it, 167.2 mW while awake, and 25 mW of the rest.
        let model = 0.75 * 760.0 + 167.2 + 25.0;
        assert!((m.model_mw - model).abs() < 1e-9, "{m:?}");
        assert!((m.error_share - (model / 875.0 - 1.0)).abs() < 1e-12);
    }

    #[test]
    fn a_power_log_may_begin_late_and_have_many_lines_in_a_sample() {
        // From 10.05 s to 12 s, 100 times a second, with 500 mW and then, from 11 s, 1000 mW.
        let line = |n: u32| {
            format!(
                "{}.{:02},{}\n",
                n / 100,
                n % 100,
                if n > 1100 { 1000 } else { 500 }
            )
        };
        let power: String = (1005..=1200).map(line).collect();
        let m = compared(CPU, &format!("{POWER_LOG_HEADER}\n{power}")).unwrap();
        assert!((m.seconds - 1.95).abs() < 1e-9, "{m:?}");
        let mean = (0.95 * 500.0 + 1000.0) / 1.95;
        assert!((m.meter_mw - mean).abs() < 1e-9, "{m:?}");
    }

    #[test]
    fn wrong_logs_are_refused_with_their_place() {
        for (power, words) in [
            ("time_s,mw\n", "power.csv: line 1: expected the columns"),
            (
                &POWER[..POWER.len() - 3],
                "power.csv: line 5: file ends inside a line",
            ),
            (
                &POWER.replace("11.5", "10.5"),
                "power.csv: line 4: time goes backwards",
            ),
            (
                &POWER.replace(",500", ",-500"),
                "power.csv: line 3: power_mw \"-500\"",
            ),
            (
                &POWER.replace(",500", ""),
                "power.csv: line 3: expected 2 fields",
            ),
            (&POWER[..POWER.len() - 20], "power.csv covers"),
            (
                &format!("{POWER}20,1000\n19,1000\n"),
                "power.csv: line 7: time goes backwards",
            ),
            (
                "time_s,power_mw\n1,2\n",
                "power.csv: line 3: fewer than two lines",
            ),
        ] {
            let why = compared(CPU, power).unwrap_err();
            assert!(why.contains(words), "{why} instead of {words}");
        }
        let why = compared(&CPU.replace("12.0,core,0", "12.0,core,5"), POWER).unwrap_err();
        assert!(
            why.contains("cpu.csv: line 4: sample of another phone"),
            "{why}"
        );
    }
}
