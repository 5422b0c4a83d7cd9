//! Skew of a capture's clock, corrected in d_n ("Toward Accurate Network Delay Measurement on
//! Android Phones", section 3.2, equation 6).
//!
//! A probe leaves this host before it is on the wire, and its answer is on the wire before it is
//! received: an exchange, whose stamps bound the relation of both clocks as those of a server do.

use mpbond_statistics::clock::{ClockFit, resolution_ns};
use serde::Serialize;

use crate::record::{Pair, Probe};
use crate::statistics::Distribution;

/// Maximum skew between two clocks that are not compared: among phones and sniffers it is within
/// ±100 ppm (section 3.2), and twice that is allowed.
const UNKNOWN_SKEW: f64 = 2e-4;

/// Stamps of this host that enclose those of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Enclosing {
    /// The kernel's, t_k.
    Kernel,
    /// The user's, t_u, where the kernel's contradict the capture: one taken on this host sees
    /// packets before the driver stamps them.
    User,
}

/// Relation of a capture's clock to this host's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WireClockSkew {
    /// Number of the capture's clock.
    pub clock: u32,
    /// Stamps compared with the capture's; `None` when there are none.
    pub stamps: Option<Enclosing>,
    /// Rate of the capture's clock relative to this host's, minus 1, in ppm; `None` without stamps
    /// and where the clocks drifted.
    pub skew_ppm: Option<f64>,
    /// Half the width of its possible range.
    pub skew_error_ppm: Option<f64>,
    /// No line fits all probes: a clock was set, or its rate changed.
    pub drifted: bool,
    /// Number of probes whose stamps contradict each other.
    pub crossed: u64,
    /// Number of probes whose d_n is corrected.
    pub corrected: u64,
    /// ΔD, by which d_n is longer by this host's clock, in µs (equation 6): of corrected probes.
    #[serde(rename = "delta_D_us")]
    pub difference_us: Option<Distribution>,
    /// Largest error of d_n by the clocks' rates, in µs: of corrected probes by the skew's error,
    /// else 2·10⁻⁴ of d_n.
    pub d_n_error_us: Option<f64>,
}

/// Sets d_n of probes by the times on the wire, corrected for the skew of the capture's clocks,
/// which are numbered. Probes without these times, with d_n of the network card, lost and repeated
/// ones stay as they are.
pub fn set_wire_times(
    probes: &mut [Probe],
    wire: impl Fn(&Probe) -> Option<(Pair<crate::WireSource>, u32)>,
) -> Vec<WireClockSkew> {
    let mut clocks: Vec<(u32, Vec<&mut Probe>)> = Vec::new();
    for probe in probes.iter_mut().filter(|p| !p.lost && !p.duplicate) {
        let Some((times, clock)) = wire(probe) else {
            continue;
        };
        probe.set_wire(times);
        match clocks.iter_mut().find(|(number, _)| *number == clock) {
            Some((_, list)) => list.push(probe),
            None => clocks.push((clock, vec![probe])),
        }
    }
    let related = |(clock, mut probes): (u32, Vec<&mut Probe>)| {
        probes.sort_by_key(|p| p.seq);
        relate(clock, &mut probes)
    };
    clocks.into_iter().map(related).collect()
}

/// A relation, and the segment of each probe.
struct Related {
    stamps: Enclosing,
    fit: ClockFit,
    parts: Vec<Option<usize>>,
}

impl Related {
    fn of(probes: &[&mut Probe], stamps: Enclosing) -> Option<Self> {
        let exchange = |p: &Probe| {
            let (out, back) = match stamps {
                Enclosing::Kernel => p.stamps.kernel.map(|k| (k.out_ns, k.in_ns))?,
                Enclosing::User => p.stamps.user.map(|u| (u.out_ns, u.in_ns))?,
            };
            let wire = p.stamps.wire?;
            Some([out, wire.out_ns, wire.in_ns, back])
        };
        let all: Vec<Option<[u64; 4]>> = probes.iter().map(|p| exchange(p)).collect();
        let known = || all.iter().flatten();
        known().next()?;
        let of_host = resolution_ns(known().flat_map(|[t1, _, _, t4]| [*t1, *t4]));
        let of_wire = resolution_ns(known().flat_map(|[_, t2, t3, _]| [*t2, *t3]));
        let mut fit = ClockFit::new(of_host.max(of_wire));
        let parts = all.iter().map(|e| fit.exchange((*e)?)).collect();
        Some(Self { stamps, fit, parts })
    }

    /// Number of contradictions: of probes, and of segments.
    fn contradictions(&self) -> u64 {
        self.fit.crossed() + u64::from(self.fit.drifted())
    }
}

fn relate(clock: u32, probes: &mut [&mut Probe]) -> WireClockSkew {
    let both = [Enclosing::Kernel, Enclosing::User];
    let both = both.into_iter().filter_map(|s| Related::of(probes, s));
    let related = both.min_by_key(Related::contradictions);
    let (mut differences, mut error_us) = (Vec::new(), None::<f64>);
    for (nth, probe) in probes.iter_mut().enumerate() {
        let Some(wire) = probe.stamps.wire else {
            continue;
        };
        let measured_us = wire.delay_us();
        let skew = related.as_ref().and_then(|r| {
            let segment = r.fit.segment((*r.parts.get(nth)?)?)?;
            Some((segment.skew_ppm / 1e6, segment.skew_error_ppm / 1e6))
        });
        let relative = match skew.filter(|(_, error)| *error < UNKNOWN_SKEW) {
            Some((skew, error)) => {
                let corrected_us = measured_us / (1.0 + skew);
                differences.push(corrected_us - measured_us);
                probe.d_n_us = Some(corrected_us);
                error
            }
            None => UNKNOWN_SKEW,
        };
        let error = relative * measured_us.abs();
        error_us = Some(error_us.map_or(error, |e| e.max(error)));
    }
    let segments = related.as_ref().map(|r| r.fit.segments());
    let only = match segments.as_deref() {
        Some([only]) => Some(*only),
        _ => None,
    };
    WireClockSkew {
        clock,
        stamps: related.as_ref().map(|r| r.stamps),
        skew_ppm: only.map(|s| s.skew_ppm),
        skew_error_ppm: only.map(|s| s.skew_error_ppm),
        drifted: related.as_ref().is_some_and(|r| r.fit.drifted()),
        crossed: related.as_ref().map_or(0, |r| r.fit.crossed()),
        corrected: differences.len() as u64,
        difference_us: Distribution::of(differences),
        d_n_error_us: error_us,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::{KernelSource, Stamps, UserSource, WireSource};
    use crate::{Method, Summary};

    const EPOCH: u64 = 1_700_000_000_000_000_000;

    /// A probe each `interval_ms`, 200 ms long on the wire, `in_host_us` more in the driver each
    /// way, half as much again in user space; and its times by a sniffer that started at EPOCH,
    /// with stamps in µs.
    fn probes(
        skew_ppm: f64,
        count: u32,
        interval_ms: u64,
        in_host_us: u64,
    ) -> (Vec<Probe>, Vec<Pair<WireSource>>) {
        let by_sniffer = |ns: u64| {
            let since = (ns - EPOCH) as f64;
            (since * (1.0 + skew_ppm / 1e6) / 1e3) as u64 * 1000
        };
        let one = |seq: u32| {
            let kernel = EPOCH + u64::from(seq) * interval_ms * 1_000_000 + 1_000_000;
            let (d_n, driver) = (200_000_000, in_host_us * 1000);
            let back = kernel + 2 * driver + d_n;
            let stamps = Stamps {
                user: Some(Pair {
                    source: UserSource::ClockGettime,
                    out_ns: kernel - driver / 2,
                    in_ns: back + driver / 2,
                }),
                kernel: Some(Pair {
                    source: KernelSource::SoTimestamping,
                    out_ns: kernel,
                    in_ns: back,
                }),
                wire: None,
            };
            let wire = Pair {
                source: WireSource::Tsft,
                out_ns: by_sniffer(kernel + driver),
                in_ns: by_sniffer(kernel + driver + d_n),
            };
            (Probe::answered(seq, Method::Icmp, stamps, None), wire)
        };
        (0..count).map(one).unzip()
    }

    proptest! {
        /// d_n is 200 ms within its error at any skew, corrected or not.
        #[test]
        fn the_true_delay_is_within_the_error(
            skew_ppm in -200.0..200.0_f64,
            count in 1_u32..60,
            interval_ms in 1_u64..2000,
            in_host_us in 0_u64..30_000,
        ) {
            let (mut all, wire) = probes(skew_ppm, count, interval_ms, in_host_us);
            let skews = set_wire_times(&mut all, |p| Some((wire[p.seq as usize], 0)));
            prop_assert_eq!(skews.len(), 1);
            let error_us = skews[0].d_n_error_us.unwrap();
            prop_assert!((skews[0].drifted, skews[0].crossed) == (false, 0), "{:?}", skews);
            for probe in &all {
                let wrong_us = (probe.d_n_us.unwrap() - 200_000.0).abs();
                // Two stamps in µs.
                prop_assert!(wrong_us <= error_us + 1.01, "{} us, {:?}", wrong_us, skews);
            }
        }
    }

    /// A minute of probes with 0.1 ms in the driver: 80 ppm are 16 µs of 200 ms, found within a
    /// few ppm and taken off.
    #[test]
    fn a_sniffers_skew_of_80_ppm_is_taken_off() {
        let (mut all, wire) = probes(80.0, 60, 1000, 100);
        let of = |probes: &[Probe]| Summary::of(Method::Icmp, probes.iter().copied());
        let skews = set_wire_times(&mut all, |p| Some((wire[p.seq as usize], 3)));
        let skew = &skews[0];
        assert_eq!((skew.clock, skew.stamps), (3, Some(Enclosing::Kernel)));
        assert!((skew.skew_ppm.unwrap() - 80.0).abs() <= skew.skew_error_ppm.unwrap());
        assert!(skew.skew_error_ppm.unwrap() < 5.0, "{skew:?}");
        let difference = skew.difference_us.as_ref().unwrap();
        assert!((difference.mean + 16.0).abs() < 1.0, "{skew:?}");
        // Equation 2: 0.2 ms in the driver.
        let delta = of(&all).delta_d_k_us.unwrap().mean;
        assert!((delta - 200.0).abs() < 2.0, "{delta}");
    }

    /// Taken on the host itself, before the driver's stamps: the user's stamps enclose these.
    #[test]
    fn a_capture_on_the_host_is_compared_with_the_users_stamps() {
        let (mut all, _) = probes(0.0, 30, 1000, 100);
        let at = |p: &Probe| {
            let kernel = p.stamps.kernel.unwrap();
            let (out_ns, in_ns) = (kernel.out_ns - 3000, kernel.in_ns);
            let source = WireSource::Capture;
            Some((
                Pair {
                    source,
                    out_ns,
                    in_ns,
                },
                0,
            ))
        };
        let skews = set_wire_times(&mut all, at);
        let skew = &skews[0];
        assert_eq!(skew.stamps, Some(Enclosing::User), "{skew:?}");
        assert!(!skew.drifted && skew.crossed == 0 && skew.corrected == 30);
    }

    #[test]
    fn without_stamps_twice_the_skew_of_a_clock_is_the_bound() {
        let (all, wire) = probes(50.0, 3, 1000, 100);
        let bare = |p: &Probe| Probe {
            stamps: Stamps::default(),
            ..*p
        };
        let mut all: Vec<Probe> = all.iter().map(bare).collect();
        let skews = set_wire_times(&mut all, |p| Some((wire[p.seq as usize], 0)));
        let skew = &skews[0];
        assert_eq!(
            (skew.stamps, skew.corrected, skew.skew_ppm),
            (None, 0, None)
        );
        assert!((skew.d_n_error_us.unwrap() - 40.0).abs() < 0.01, "{skew:?}");
    }

    /// The sniffer's clock starts again in the middle: this is reported, and each half has its own
    /// line.
    #[test]
    fn a_sniffers_clock_that_starts_again_is_reported() {
        let (mut all, mut wire) = probes(-30.0, 60, 1000, 100);
        for pair in wire.iter_mut().skip(30) {
            pair.out_ns -= 25_000_000_000;
            pair.in_ns -= 25_000_000_000;
        }
        let skews = set_wire_times(&mut all, |p| Some((wire[p.seq as usize], 0)));
        assert!(skews[0].drifted && skews[0].skew_ppm.is_none(), "{skews:?}");
        assert_eq!((skews[0].crossed, skews[0].corrected), (0, 60));
    }
}
