//! One probe, and what all of them say.

use std::collections::HashSet;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::clock_offset::{ClockOffset, Exchange};
use crate::options::Method;
use crate::statistics::Distribution;

/// Where the user's stamps are from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserSource {
    /// `clock_gettime(CLOCK_REALTIME)` around the system call.
    ClockGettime,
}

/// Where the kernel's stamps are from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelSource {
    /// SO_TIMESTAMPING: software stamps of driver (out) and of the receive path (in).
    SoTimestamping,
}

/// Where the wire's stamps are from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WireSource {
    /// SO_TIMESTAMPING: the network card's clock.
    Hardware,
    /// A capture: the clock of whoever took it.
    Capture,
    /// A capture of 802.11: the clock of the sniffer's radio (TSFT).
    Tsft,
}

/// Two stamps of one clock, ns since the Unix epoch (the card's own epoch for hardware).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair<S> {
    /// Which clock.
    pub source: S,
    /// When the probe went out.
    pub out_ns: u64,
    /// When its answer came in.
    pub in_ns: u64,
}

impl<S> Pair<S> {
    /// From out to in, in µs.
    pub fn delay_us(&self) -> f64 {
        difference_us(self.out_ns, self.in_ns)
    }
}

pub(crate) fn difference_us(from_ns: u64, to_ns: u64) -> f64 {
    (i128::from(to_ns) - i128::from(from_ns)) as f64 / 1e3
}

/// All stamps of a probe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamps {
    /// t_u.
    pub user: Option<Pair<UserSource>>,
    /// t_k.
    pub kernel: Option<Pair<KernelSource>>,
    /// t_n.
    pub wire: Option<Pair<WireSource>>,
}

/// One probe.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// Its number, from 0.
    pub seq: u32,
    /// How it was made.
    pub method: Method,
    /// d_u: what the user sees, µs. `None` when lost.
    pub d_u_us: Option<f64>,
    /// d_k: what the kernel sees. Of `syn` it is TCP_INFO's handshake round trip, which has no stamps.
    pub d_k_us: Option<f64>,
    /// d_n: what the wire sees.
    pub d_n_us: Option<f64>,
    /// Where these are from.
    pub stamps: Stamps,
    /// Not answered in time.
    pub lost: bool,
    /// A second answer.
    pub duplicate: bool,
    /// The four stamps of an exchange with `mpbond probe-server`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<Exchange>,
    /// What the run calls itself in its datagrams (ICMP, UDP): a probe is found by it and its number
    /// in captures. As hexadecimal text in JSON.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "hexadecimal")]
    pub run: Option<u64>,
    /// This end of the connection (TCP): the probe is found by it in captures.
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

    /// An answered probe; a difference that stands without stamps goes into `d_k_us`.
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

    /// Takes d_n from another clock than the kernel's stamps.
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

/// 64 bits as text: JSON's numbers lose some of them on the way through other programs.
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

/// What all probes say. Distributions are of µs, and `None` where no probe had the stamps.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// How probes were made.
    pub method: Method,
    /// Probes sent.
    pub sent: u64,
    /// Not answered in time.
    pub lost: u64,
    /// Answers beyond the first.
    pub duplicates: u64,
    /// Answers that came after that of a later probe (RFC 4737, section 3).
    pub reordered: u64,
    /// What the user sees.
    pub d_u_us: Option<Distribution>,
    /// What the kernel sees.
    pub d_k_us: Option<Distribution>,
    /// What the wire sees.
    pub d_n_us: Option<Distribution>,
    /// Δd = d_u − d_n (equation 1).
    pub delta_d_us: Option<Distribution>,
    /// Δd_k = d_k − d_n (equation 2).
    pub delta_d_k_us: Option<Distribution>,
    /// Δd_u = d_u − d_k (equation 3).
    pub delta_d_u_us: Option<Distribution>,
    /// Its part on the way out: t_k − t_u (section 5.6).
    pub delta_d_u_out_us: Option<Distribution>,
    /// Its part on the way in: t_u − t_k.
    pub delta_d_u_in_us: Option<Distribution>,
    /// The server's clock against ours; only of UDP.
    pub clock: Option<ClockOffset>,
    /// One-way delay to the server, with the error of `clock`.
    pub one_way_out_us: Option<Distribution>,
    /// One-way delay from the server, with the error of `clock`.
    pub one_way_in_us: Option<Distribution>,
}

impl Summary {
    /// Of probes that were made before, in the order of their answers.
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
        let clock = ClockOffset::of(self.probes.iter().filter_map(|p| p.exchange));
        let one_way = |pick: fn(&Exchange) -> (u64, u64), sign: f64| {
            let offset = clock?.offset_us;
            of(&|p| {
                let (from, to) = pick(p.exchange.as_ref()?);
                Some(difference_us(from, to) - sign * offset)
            })
        };
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
            clock,
            one_way_out_us: one_way(|e| (e.t1_ns, e.t2_ns), 1.0),
            one_way_in_us: one_way(|e| (e.t3_ns, e.t4_ns), -1.0),
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

    /// Equations 1 to 3 by hand: user 0..100, kernel 10..80, wire 15..60 µs. The wire's clock has
    /// an epoch of its own.
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
