//! Record of a probe, and summary of a run.

use std::collections::HashSet;
use std::net::SocketAddr;

use mpbond_statistics::clock::ClockFit;
use serde::{Deserialize, Serialize};

use crate::clock_offset::{ClockOffset, Exchange, one_way_us};
use crate::options::Method;
use crate::statistics::Distribution;

/// Source of the user's time stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserSource {
    /// `clock_gettime(CLOCK_REALTIME)` around the system call.
    ClockGettime,
}

/// Source of the kernel's time stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelSource {
    /// SO_TIMESTAMPING: software stamps of the driver (out) and of the receive path (in).
    SoTimestamping,
}

/// Source of the wire's time stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WireSource {
    /// SO_TIMESTAMPING: clock of the network card.
    Hardware,
    /// A capture: clock of the capturing host.
    Capture,
    /// An 802.11 capture: clock of the sniffer's radio (TSFT).
    Tsft,
}

/// Two time stamps of one clock, in ns since the Unix epoch (the card's own epoch for hardware).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair<S> {
    /// Clock.
    pub source: S,
    /// Time at which the probe went out.
    pub out_ns: u64,
    /// Time at which its answer came in.
    pub in_ns: u64,
}

impl<S> Pair<S> {
    /// Time between the two stamps, in µs.
    pub fn delay_us(&self) -> f64 {
        difference_us(self.out_ns, self.in_ns)
    }
}

pub(crate) fn difference_us(from_ns: u64, to_ns: u64) -> f64 {
    (i128::from(to_ns) - i128::from(from_ns)) as f64 / 1e3
}

/// Time stamps of a probe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamps {
    /// User's time stamps, t_u.
    pub user: Option<Pair<UserSource>>,
    /// Kernel's time stamps, t_k.
    pub kernel: Option<Pair<KernelSource>>,
    /// Wire's time stamps, t_n.
    pub wire: Option<Pair<WireSource>>,
}

/// One probe.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// Number, from 0.
    pub seq: u32,
    /// Method.
    pub method: Method,
    /// Delay at the user, d_u, in µs; `None` when lost.
    pub d_u_us: Option<f64>,
    /// Delay at the kernel, d_k, in µs. For `syn` it is TCP_INFO's handshake round trip, which has
    /// no stamps.
    pub d_k_us: Option<f64>,
    /// Delay on the wire, d_n, in µs.
    pub d_n_us: Option<f64>,
    /// Time stamps of these delays.
    pub stamps: Stamps,
    /// Whether it was not answered in time.
    pub lost: bool,
    /// Whether this is a second answer.
    pub duplicate: bool,
    /// Time stamps of an exchange with `mpbond probe-server`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<Exchange>,
    /// Identifier of the run in its datagrams (ICMP, UDP); together with the number it identifies a
    /// probe in captures. Hexadecimal text in JSON.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "hexadecimal")]
    pub run: Option<u64>,
    /// Local end of the connection (TCP); identifies the probe in captures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<SocketAddr>,
}

impl Probe {
    pub(crate) fn lost(seq: u32, method: Method) -> Self {
        Self {
            lost: true,
            ..Self::answered(seq, method, Stamps::default(), None)
        }
    }

    /// An answered probe; `d_k_us` is a kernel delay measured without stamps.
    pub(crate) fn answered(seq: u32, method: Method, stamps: Stamps, d_k_us: Option<f64>) -> Self {
        Self {
            seq,
            method,
            d_u_us: stamps.user.map(|p| p.delay_us()),
            d_k_us: stamps.kernel.map(|p| p.delay_us()).or(d_k_us),
            d_n_us: stamps.wire.map(|p| p.delay_us()),
            stamps,
            lost: false,
            duplicate: false,
            exchange: None,
            run: None,
            local: None,
        }
    }

    /// Sets d_n from another clock than the kernel's stamps.
    pub fn set_wire(&mut self, wire: Pair<WireSource>) {
        self.stamps.wire = Some(wire);
        self.d_n_us = Some(wire.delay_us());
    }

    /// A probe of which only the wire is known; without times, one that was not answered.
    pub fn of_wire(seq: u32, method: Method, wire: Option<Pair<WireSource>>) -> Self {
        let stamps = Stamps {
            wire,
            ..Stamps::default()
        };
        match wire {
            Some(_) => Self::answered(seq, method, stamps, None),
            None => Self::lost(seq, method),
        }
    }
}

/// 64-bit numbers as hexadecimal text: JSON numbers lose bits in other programs.
mod hexadecimal {
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(run: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
        match run {
            Some(run) => to.serialize_str(&format!("{run:016x}")),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        let run = text.map(|text| u64::from_str_radix(&text, 16));
        run.transpose().map_err(de::Error::custom)
    }
}

/// Summary of a run. Distributions are in µs, and `None` where no probe had the stamps.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Method.
    pub method: Method,
    /// Number of probes sent.
    pub sent: u64,
    /// Number of probes not answered in time.
    pub lost: u64,
    /// Number of answers beyond the first.
    pub duplicates: u64,
    /// Number of answers that arrived after that of a later probe (RFC 4737, section 3).
    pub reordered: u64,
    /// Delay at the user, d_u.
    pub d_u_us: Option<Distribution>,
    /// Delay at the kernel, d_k.
    pub d_k_us: Option<Distribution>,
    /// Delay on the wire, d_n.
    pub d_n_us: Option<Distribution>,
    /// Overhead in total, Δd = d_u − d_n. Equation and section numbers here are those of "Toward
    /// Accurate Network Delay Measurement on Android Phones" (equation 1).
    pub delta_d_us: Option<Distribution>,
    /// Overhead between kernel and wire, Δd_k = d_k − d_n (equation 2).
    pub delta_d_k_us: Option<Distribution>,
    /// Overhead between user and kernel, Δd_u = d_u − d_k (equation 3).
    pub delta_d_u_us: Option<Distribution>,
    /// Outgoing part of Δd_u: t_k − t_u (section 5.6).
    pub delta_d_u_out_us: Option<Distribution>,
    /// Incoming part of Δd_u: t_u − t_k.
    pub delta_d_u_in_us: Option<Distribution>,
    /// Offset of the server's clock; for UDP only.
    pub clock: Option<ClockOffset>,
    /// One-way delay to the server, by the rate of its clock, with the error of `clock`.
    pub one_way_out_us: Option<Distribution>,
    /// One-way delay from the server, with the error of `clock`.
    pub one_way_in_us: Option<Distribution>,
}

impl Summary {
    /// Summary of recorded probes, given in the order of their answers.
    pub fn of(method: Method, probes: impl IntoIterator<Item = Probe>) -> Self {
        let mut all = Collector::new(method);
        probes.into_iter().for_each(|probe| all.take(probe));
        all.finish()
    }
}

pub(crate) struct Collector {
    method: Method,
    sent: HashSet<u32>,
    lost: u64,
    duplicates: u64,
    reordered: u64,
    highest: Option<u32>,
    probes: Vec<Probe>,
}

impl Collector {
    pub(crate) fn new(method: Method) -> Self {
        Self {
            method,
            sent: HashSet::new(),
            lost: 0,
            duplicates: 0,
            reordered: 0,
            highest: None,
            probes: Vec::new(),
        }
    }

    pub(crate) fn take(&mut self, probe: Probe) {
        if probe.duplicate {
            self.duplicates += 1;
            return;
        }
        self.sent.insert(probe.seq);
        if probe.lost {
            self.lost += 1;
            return;
        }
        self.reordered += u64::from(self.highest.is_some_and(|h| probe.seq < h));
        self.highest = self.highest.max(Some(probe.seq));
        self.probes.push(probe);
    }

    pub(crate) fn finish(self) -> Summary {
        let of = |pick: &dyn Fn(&Probe) -> Option<f64>| {
            Distribution::of(self.probes.iter().filter_map(pick).collect())
        };
        let minus = |a: Option<f64>, b: Option<f64>| Some(a? - b?);
        // In the order of sending, also where a clock was set back meanwhile.
        let mut exchanges: Vec<(u32, Exchange)> = Vec::new();
        exchanges.extend(
            self.probes
                .iter()
                .filter_map(|p| Some((p.seq, p.exchange?))),
        );
        exchanges.sort_by_key(|(seq, _)| *seq);
        let mut fit = ClockFit::new(1);
        let parts: Vec<(Exchange, Option<usize>)> = exchanges
            .into_iter()
            .map(|(_, e)| (e, fit.exchange(e.stamps())))
            .collect();
        let ways = parts
            .iter()
            .filter_map(|(e, part)| one_way_us(&fit, (*part)?, e));
        let (out, back) = ways.unzip();
        Summary {
            method: self.method,
            sent: self.sent.len() as u64,
            lost: self.lost,
            duplicates: self.duplicates,
            reordered: self.reordered,
            d_u_us: of(&|p| p.d_u_us),
            d_k_us: of(&|p| p.d_k_us),
            d_n_us: of(&|p| p.d_n_us),
            delta_d_us: of(&|p| minus(p.d_u_us, p.d_n_us)),
            delta_d_k_us: of(&|p| minus(p.d_k_us, p.d_n_us)),
            delta_d_u_us: of(&|p| minus(p.d_u_us, p.d_k_us)),
            delta_d_u_out_us: of(&|p| {
                Some(difference_us(
                    p.stamps.user?.out_ns,
                    p.stamps.kernel?.out_ns,
                ))
            }),
            delta_d_u_in_us: of(&|p| {
                Some(difference_us(p.stamps.kernel?.in_ns, p.stamps.user?.in_ns))
            }),
            clock: ClockOffset::of_fit(&fit),
            one_way_out_us: Distribution::of(out),
            one_way_in_us: Distribution::of(back),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(seq: u32, user: (u64, u64), kernel: (u64, u64), wire: (u64, u64)) -> Probe {
        let stamps = Stamps {
            user: Some(Pair {
                source: UserSource::ClockGettime,
                out_ns: user.0,
                in_ns: user.1,
            }),
            kernel: Some(Pair {
                source: KernelSource::SoTimestamping,
                out_ns: kernel.0,
                in_ns: kernel.1,
            }),
            wire: Some(Pair {
                source: WireSource::Hardware,
                out_ns: wire.0,
                in_ns: wire.1,
            }),
        };
        Probe::answered(seq, Method::Icmp, stamps, None)
    }

    /// Equations 1 to 3 by hand: user 0 to 100, kernel 10 to 80, wire 15 to 60 µs. The wire's clock
    /// has its own epoch.
    #[test]
    fn overheads_are_those_of_the_equations() {
        let mut all = Collector::new(Method::Icmp);
        all.take(probe(
            0,
            (0, 100_000),
            (10_000, 80_000),
            (5_015_000, 5_060_000),
        ));
        let s = all.finish();
        let mean = |d: &Option<Distribution>| d.as_ref().unwrap().mean;
        assert_eq!(mean(&s.d_u_us), 100.0);
        assert_eq!(mean(&s.d_k_us), 70.0);
        assert_eq!(mean(&s.d_n_us), 45.0);
        assert_eq!(mean(&s.delta_d_us), 55.0);
        assert_eq!(mean(&s.delta_d_k_us), 25.0);
        assert_eq!(mean(&s.delta_d_u_us), 30.0);
        assert_eq!(mean(&s.delta_d_u_out_us), 10.0);
        assert_eq!(mean(&s.delta_d_u_in_us), 20.0);
    }

    #[test]
    fn losses_duplicates_and_order_are_counted() {
        let mut all = Collector::new(Method::Udp);
        let ok = |seq| probe(seq, (0, 9), (1, 8), (2, 7));
        all.take(ok(0));
        all.take(ok(2));
        all.take(ok(1));
        all.take(Probe {
            duplicate: true,
            ..ok(1)
        });
        all.take(Probe::lost(3, Method::Udp));
        let s = all.finish();
        assert_eq!((s.sent, s.lost, s.duplicates, s.reordered), (4, 1, 1, 1));
        assert_eq!(s.d_u_us.unwrap().count, 3);
    }
}
