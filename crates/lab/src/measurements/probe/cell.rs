//! One case at one round trip: probes over a bus and a network, with captures at both.

use std::path::Path;
use std::process::Command;

use mpbond_probe::Distribution;
use mpbond_units::duration_text;

use super::super::child;
use super::super::tap::{Passed, passed};
use super::case::{Case, Clock, Program};
use super::figures::REPORTS;
use super::program::{Answer, HTTP_PORT, command, java_answers, native_answers};

/// Probes of each case in a short run.
pub(super) const QUICK: u32 = 5;
/// Number of first probes that are left out: they load classes, open connections and fill caches.
pub(super) const FIRST: usize = 3;
/// Rate of an 802.11g network and of an SDIO bus; a probe's transmission time is negligible.
pub(super) const AIR_RATE: &str = "54 Mbit/s";
pub(super) const BUS_RATE: &str = "200 Mbit/s";

/// The result of a case at a round trip, in µs.
pub(super) struct Cell {
    /// Quantities by name, in the order of [`QUANTITIES`](super::figures::QUANTITIES), without what
    /// the program's clock cannot give.
    pub(super) quantities: Vec<(&'static str, Distribution)>,
    /// Round trips on the network.
    pub(super) d_n: Distribution,
    /// Round trips in the host's kernel.
    pub(super) d_k: Distribution,
    /// Results of tests with several trials.
    pub(super) tests: Option<Tests>,
    /// Δd of the probes in their order, in µs.
    pub(super) series: Vec<f64>,
    pub(super) lost: usize,
}

/// Minimum, mean and maximum d_u of each test.
pub(super) struct Tests {
    pub(super) min: Distribution,
    pub(super) mean: Distribution,
    pub(super) max: Distribution,
    /// Smallest d_u minus each d_n and each d_k of the test (Figure 5(a)), and minus its smallest
    /// d_n and d_k (Figure 5(b)).
    pub(super) report: [(&'static str, Distribution); 4],
}

/// One probe by all clocks.
struct All {
    user: Answer,
    kernel: Passed,
    air: Passed,
}

impl All {
    fn d_k_us(&self) -> f64 {
        self.kernel.delay_us()
    }

    fn d_n_us(&self) -> f64 {
        self.air.delay_us()
    }

    /// Δd_u^o and Δd_u^i (delay measurement paper, section 5.6).
    fn out_and_in_us(&self) -> Option<(f64, f64)> {
        let (out_ns, in_ns) = self.user.unix_ns?;
        let us = |from: u64, to: u64| (i128::from(to) - i128::from(from)) as f64 / 1e3;
        Some((us(out_ns, self.kernel.out_ns), us(self.kernel.in_ns, in_ns)))
    }
}

impl Cell {
    /// Makes `probes` probes, after [`FIRST`] others.
    pub(super) fn measure(
        case: &Case,
        rtt_ms: u32,
        probes: u32,
        folder: &Path,
    ) -> Result<Self, String> {
        let probes = probes + FIRST as u32;
        let taps = folder.join("taps");
        let _ = std::fs::remove_dir_all(&taps);
        let own = std::env::current_exe().map_err(|e| e.to_string())?;
        let own = own.display().to_string();
        let half = f64::from(rtt_ms) / 2.0;
        let mut bus = format!("bus:{BUS_RATE}:0ms");
        if let Some(profile) = &case.bus {
            bus += &format!(":{profile}");
        }
        if let Some(hold) = case.hold {
            bus += &format!(":hold={}", duration_text::format(hold));
            let bytes = case.hold_bytes.map(|bytes| format!("/{bytes}"));
            bus += &bytes.unwrap_or_default();
        }
        let mut chain = Command::new(&own);
        chain
            .args(["lab", "chain", "--hop", &bus])
            .args(["--hop", &format!("air:{AIR_RATE}:{half}ms")])
            .args(["--taps", &taps.display().to_string()])
            .args([
                "--at",
                &format!("2={own} probe-server --listen 0.0.0.0:{HTTP_PORT}"),
            ])
            .arg("--")
            // The sleep gives the server time to listen before the first probe.
            .args(["/bin/sh", "-c", "sleep 0.5; exec \"$@\"", "sh"])
            .args(command(case, probes, &own, folder)?);
        let text = child::run(&mut chain, &[0])?.stdout;
        let answers = match case.program {
            Program::Java => java_answers(&text, case.clock == Clock::Wall),
            Program::Native | Program::JavaNative => native_answers(&text),
        };
        let kernel = passed(&taps.join("bus.pcap"), case.method)?;
        let air = passed(&taps.join("air.pcap"), case.method)?;
        Self::of(&answers, &kernel, &air, case.trials)
    }

    fn of(
        answers: &[Option<Answer>],
        kernel: &[Passed],
        air: &[Passed],
        trials: Option<usize>,
    ) -> Result<Self, String> {
        let lost = answers.iter().filter(|a| a.is_none()).count();
        let users: Vec<Answer> = answers.iter().flatten().copied().collect();
        let counts = [users.len(), kernel.len(), air.len()];
        if counts != [users.len(); 3] || users.len() <= FIRST {
            let [u, k, n] = counts;
            return Err(format!(
                "{u} answers by the user, {k} by the kernel, {n} in the air"
            ));
        }
        let all: Vec<All> = users
            .iter()
            .zip(kernel)
            .zip(air)
            .skip(FIRST)
            .map(|((user, kernel), air)| All {
                user: *user,
                kernel: *kernel,
                air: *air,
            })
            .collect();
        let of = |pick: &dyn Fn(&All) -> Option<f64>| {
            Distribution::of(all.iter().filter_map(pick).collect())
        };
        let both = |pick: fn((f64, f64)) -> f64| of(&|a| a.out_and_in_us().map(pick));
        let quantities = [
            ("delta_d", of(&|a| Some(a.user.d_u_us - a.d_n_us()))),
            ("delta_d_u", of(&|a| Some(a.user.d_u_us - a.d_k_us()))),
            ("delta_d_k", of(&|a| Some(a.d_k_us() - a.d_n_us()))),
            ("delta_d_u_stamps", of(&|a| a.user.by_stamps_us)),
            ("delta_d_u_out", both(|(out, _)| out)),
            ("delta_d_u_in", both(|(_, back)| back)),
            ("asymmetry", both(|(out, back)| out - back)),
        ];
        let none = || "no answers".to_owned();
        Ok(Self {
            quantities: quantities
                .into_iter()
                .filter_map(|(name, d)| Some((name, d?)))
                .collect(),
            d_n: of(&|a| Some(a.d_n_us())).ok_or_else(none)?,
            d_k: of(&|a| Some(a.d_k_us())).ok_or_else(none)?,
            tests: trials.and_then(|trials| Tests::of(&all, trials)),
            series: all.iter().map(|a| a.user.d_u_us - a.d_n_us()).collect(),
            lost,
        })
    }

    pub(super) fn get(&self, quantity: &str) -> Option<&Distribution> {
        let reports = self.tests.iter().flat_map(|t| &t.report);
        let mut all = self.quantities.iter().chain(reports);
        all.find(|(name, _)| *name == quantity).map(|(_, d)| d)
    }
}

impl Tests {
    /// The results of complete tests.
    fn of(all: &[All], trials: usize) -> Option<Self> {
        let (mut min, mut mean, mut max) = (Vec::new(), Vec::new(), Vec::new());
        let mut report: [Vec<f64>; 4] = Default::default();
        for test in all.chunks_exact(trials.max(1)) {
            let d = Distribution::of(test.iter().map(|a| a.user.d_u_us).collect())?;
            min.push(d.min);
            mean.push(d.mean);
            max.push(d.max);
            let [each_n, each_k, least_n, least_k] = &mut report;
            each_n.extend(test.iter().map(|a| d.min - a.d_n_us()));
            each_k.extend(test.iter().map(|a| d.min - a.d_k_us()));
            let least = |of: fn(&All) -> f64| test.iter().map(of).reduce(f64::min);
            least_n.push(d.min - least(All::d_n_us)?);
            least_k.push(d.min - least(All::d_k_us)?);
        }
        let [each_n, each_k, least_n, least_k] = report;
        let [all_n, all_k, min_n, min_k] = REPORTS;
        Some(Self {
            min: Distribution::of(min)?,
            mean: Distribution::of(mean)?,
            max: Distribution::of(max)?,
            report: [
                (all_n, Distribution::of(each_n)?),
                (all_k, Distribution::of(each_k)?),
                (min_n, Distribution::of(least_n)?),
                (min_k, Distribution::of(least_k)?),
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(out_us: u64, in_us: u64) -> Passed {
        Passed {
            out_ns: out_us * 1000,
            in_ns: in_us * 1000,
        }
    }

    /// An example computed by hand: after the first three, probes at 1000 and 2000 µs. The program
    /// sends 10 and 20 µs before the kernel and receives 5 µs after it; the air has 40 of the
    /// kernel's 60 µs.
    #[test]
    fn clocks_are_taken_apart() {
        let user = |out_us: u64, in_us: u64| {
            Some(Answer {
                d_u_us: (in_us - out_us) as f64,
                unix_ns: Some((out_us * 1000, in_us * 1000)),
                by_stamps_us: None,
            })
        };
        let mut answers = vec![user(1, 2); FIRST];
        answers.extend([None, user(990, 1065), user(1980, 2065)]);
        let first = [passed(1, 2); FIRST];
        let kernel = [&first[..], &[passed(1000, 1060), passed(2000, 2060)]].concat();
        let air = [&first[..], &[passed(7, 47), passed(8, 48)]].concat();
        let cell = Cell::of(&answers, &kernel, &air, Some(2)).unwrap();
        let mean = |name: &str| cell.get(name).map(|d| d.mean);
        assert_eq!(cell.lost, 1);
        assert_eq!(mean("delta_d_u_out"), Some(15.0));
        assert_eq!(mean("delta_d_u_in"), Some(5.0));
        assert_eq!(mean("asymmetry"), Some(10.0));
        assert_eq!(mean("delta_d_u"), Some(20.0));
        assert_eq!(mean("delta_d_k"), Some(20.0));
        assert_eq!(mean("delta_d"), Some(40.0));
        assert_eq!(mean("delta_d_u_stamps"), None);
        let tests = cell.tests.as_ref().unwrap();
        let of_tests = [tests.min.mean, tests.mean.mean, tests.max.mean];
        assert_eq!(of_tests, [75.0, 80.0, 85.0]);
        // Both probes take 60 µs in the kernel and 40 in the air, and the report is 75.
        assert_eq!(
            (mean("report_each_d"), mean("report_min_d_u")),
            (Some(35.0), Some(15.0))
        );
        assert_eq!(cell.get("report_each_d_u").map(|d| d.count), Some(2));
        assert_eq!(cell.series, [35.0, 45.0]);
        assert!(Cell::of(&answers, &kernel[1..], &air, None).is_err());
    }
}
