//! Means of a processor log: utilisation and frequency of each core, shares, and power by a model.

use std::collections::BTreeMap;
use std::io::Read;

use mpbond_radio::machine::{CoreSample, CpuParameters};
use serde::Serialize;

use crate::cpu_log::CpuLog;
use crate::error::CaptureError;

/// Means of one core.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CoreMeans {
    /// Core number.
    pub core: u16,
    /// Mean frequency in MHz of the samples that have one.
    pub mhz: Option<f64>,
    /// Mean utilisation, 0 to 1; zero while the core was off.
    pub utilisation: f64,
}

/// Mean of one share.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ShareMean {
    /// Its name.
    pub name: String,
    /// Mean utilisation of one core.
    pub utilisation: f64,
}

/// Means of a log over its time. The first sample only marks its beginning, as the time before it
/// is unknown.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CpuSummary {
    /// Time from the first sample to the last.
    pub seconds: f64,
    /// Number of samples, the first included.
    pub samples: u64,
    /// Cores, by number.
    pub cores: Vec<CoreMeans>,
    /// Sum of the cores' utilisations.
    pub utilisation: f64,
    /// Shares, in the order of the log.
    pub shares: Vec<ShareMean>,
}

/// Means of a whole log; `file` names it in errors.
///
/// # Errors
/// When the file is not a processor log, is cut or malformed, or has fewer than two samples.
pub fn cpu_summary<R: Read>(file: &str, from: R) -> Result<CpuSummary, CaptureError> {
    let mut sums = Sums::default();
    let seconds = over_time(file, from, |log, cores, seconds| {
        sums.add(cores, log.shares(), seconds);
        Ok(())
    })?;
    Ok(sums.means(seconds))
}

/// Mean power of the processor with parameters `cpu` over a log, in mW: the background, when the
/// log is one of an idle phone.
///
/// # Errors
/// As [`cpu_summary`]; also when the log is of a phone with another processor.
pub fn cpu_mean_mw<R: Read>(file: &str, from: R, cpu: &CpuParameters) -> Result<f64, CaptureError> {
    let mut mj = 0.0;
    let seconds = over_time(file, from, |log, cores, seconds| {
        fits(log, cpu, cores)?;
        mj += cpu.power_mw(cores) * seconds;
        Ok(())
    })?;
    Ok(mj / seconds)
}

/// Checks that a sample, the last one of `log`, can be of a processor.
///
/// # Errors
/// The place and the reason when it cannot.
pub(crate) fn fits<R: Read>(
    log: &CpuLog<R>,
    cpu: &CpuParameters,
    cores: &[CoreSample],
) -> Result<(), CaptureError> {
    match cores.iter().find_map(|core| cpu.misfit(core)) {
        Some(reason) => Err(log.error(format!("sample of another phone: {reason}"))),
        None => Ok(()),
    }
}

/// Calls `each` for every sample but the first, with the time since the one before it, and returns
/// the time of all.
fn over_time<R: Read>(
    file: &str,
    from: R,
    mut each: impl FnMut(&CpuLog<R>, &[CoreSample], f64) -> Result<(), CaptureError>,
) -> Result<f64, CaptureError> {
    let mut log = CpuLog::new(file, from)?;
    let mut before = None;
    let mut all = 0.0;
    while let Some((at, cores)) = log.next()? {
        let cores = cores.to_vec();
        if let Some(before) = before {
            let seconds = at.since(before).as_secs_f64();
            all += seconds;
            each(&log, &cores, seconds)?;
        }
        before = Some(at);
    }
    if all > 0.0 {
        Ok(all)
    } else {
        Err(log.error("fewer than two samples"))
    }
}

#[derive(Default)]
struct Sums {
    samples: u64,
    cores: BTreeMap<u16, CoreSum>,
    shares: Vec<(String, f64)>,
}

/// Integrals over time.
#[derive(Default)]
struct CoreSum {
    utilisation: f64,
    mhz: f64,
    mhz_seconds: f64,
}

impl Sums {
    fn add(&mut self, cores: &[CoreSample], shares: &[(String, f64)], seconds: f64) {
        self.samples += 1;
        for sample in cores {
            let sum = self.cores.entry(sample.core).or_default();
            sum.utilisation += sample.utilisation * seconds;
            if let Some(mhz) = sample.mhz {
                sum.mhz += mhz * seconds;
                sum.mhz_seconds += seconds;
            }
        }
        for (name, utilisation) in shares {
            match self.shares.iter_mut().find(|(n, _)| n == name) {
                Some((_, sum)) => *sum += utilisation * seconds,
                None => self.shares.push((name.clone(), utilisation * seconds)),
            }
        }
    }

    fn means(self, seconds: f64) -> CpuSummary {
        let cores: Vec<CoreMeans> = (self.cores.into_iter())
            .map(|(core, sum)| CoreMeans {
                core,
                mhz: (sum.mhz_seconds > 0.0).then(|| sum.mhz / sum.mhz_seconds),
                utilisation: sum.utilisation / seconds,
            })
            .collect();
        let shares = self.shares.into_iter().map(|(name, sum)| ShareMean {
            name,
            utilisation: sum / seconds,
        });
        CpuSummary {
            seconds,
            samples: self.samples + 1,
            utilisation: cores.iter().map(|core| core.utilisation).sum(),
            cores,
            shares: shares.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpbond_radio::Profiles;

    const LOG: &str = "time_s,kind,name,mhz,utilisation\n\
        10.0,core,0,1400,1\n10.0,share,stack,,0.9\n10.0,share,other,,0.1\n\
        10.5,core,0,1400,0.4\n10.5,core,1,,0.2\n10.5,share,stack,,0.3\n10.5,share,other,,0.1\n\
        12.0,core,0,200,0.8\n12.0,share,stack,,0.7\n12.0,share,other,,0.2\n";

    fn refused(text: &str) -> String {
        cpu_summary("it", text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn means_are_over_time() {
        let s = cpu_summary("it", LOG.as_bytes()).unwrap();
        assert_eq!((s.seconds, s.samples), (2.0, 3));
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        // 0.5 s with 0.4, 1.5 s with 0.8.
        near(s.cores[0].utilisation, 0.7);
        near(s.cores[0].mhz.unwrap(), (0.5 * 1400.0 + 1.5 * 200.0) / 2.0);
        // The second core was off for 1.5 s.
        near(s.cores[1].utilisation, 0.05);
        assert_eq!(s.cores[1].mhz, None);
        near(s.utilisation, 0.75);
        let shares: Vec<&str> = s.shares.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(shares, ["stack", "other"]);
        near(s.shares[0].utilisation, 0.6);
        near(s.shares[1].utilisation, 0.175);
    }

    #[test]
    fn cut_and_disordered_logs_are_refused_with_their_place() {
        assert_eq!(
            refused(&LOG[..LOG.len() - 4]),
            "it: line 11: file ends inside a line"
        );
        let lines: Vec<&str> = LOG.split_inclusive('\n').collect();
        assert_eq!(
            refused(&format!("{LOG}{}", lines[10].replace("other", "late"))),
            "it: line 12: share late is not in the first sample"
        );
        // The last line is missing.
        assert_eq!(
            refused(&lines[..10].concat()),
            "it: line 10: the sample has no share other: the log is cut"
        );
        let text = [
            lines[..1].concat(),
            lines[4..8].concat(),
            lines[1..4].concat(),
        ]
        .concat();
        assert_eq!(refused(&text), "it: line 6: time goes backwards");
        let text = [lines[..3].concat(), lines[2..].concat()].concat();
        assert_eq!(refused(&text), "it: line 4: a second line of share stack");
        assert_eq!(
            refused(&lines[..4].concat()),
            "it: line 4: fewer than two samples"
        );
    }

    #[test]
    fn a_log_of_another_phone_is_refused() {
        let profiles = Profiles::shipped().unwrap();
        let s3 = profiles.cpu("cpu-galaxy-s3").unwrap();
        // Awake 44 mA; 0.5 s: 0.4 of 200 mA and 0.2 of the highest, 230 mA; 1.5 s: 0.8 of 55.4 mA.
        let mean = cpu_mean_mw("it", LOG.as_bytes(), s3).unwrap();
        let expect = 3.8 * (44.0 + 0.25 * (80.0 + 46.0) + 0.75 * 0.8 * 55.4);
        assert!((mean - expect).abs() < 1e-9, "{mean} {expect}");
        let refused = |text: &str| {
            cpu_mean_mw("it", text.as_bytes(), s3)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            refused(&LOG.replace("10.5,core,1", "10.5,core,7")),
            "it: line 8: sample of another phone: core 7: the profile's processor has 4 cores"
        );
        let why = refused(&LOG.replace("12.0,core,0,200", "12.0,core,0,2457.6"));
        assert!(why.starts_with("it: line 11: sample of another phone: core 0 at 2457.6 MHz"));
    }
}
