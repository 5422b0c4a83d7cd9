//! Uploads of a phone over a half-duplex channel with airtime, by TCP and by the L2 pipe ("Trimming
//! the Smartphone Network Stack", section 5.1 and Figure 6), in virtual time.
//!
//! TCP is the model of `mpbond_sim`, the L2 pipe the product's own code. Energy is that of the
//! phone: its radio by a model and the packets that pass, its processor by its use at the rate of
//! the transfer (`[[use]]`), the same for both transports: what the simpler stack saves for each
//! byte is not in it. A frame that is lost is sent again by the MAC (`retries`); the radio's energy
//! is that of one try of each packet that arrives.

mod air;
mod transfer;

use std::time::Duration;

use mpbond_radio::{Account, Hint, Packet, Placement, Profiles, Radio};
use mpbond_units::{BitRate, Size, Timestamp, duration_text};
use serde::Deserialize;

use super::core_power::{self, UseAt};
use super::outcome::Outcome;
use crate::error::Result;
use crate::report::SheetTable;
use air::Channel;
use transfer::{Ran, over_l2, over_tcp};

/// When the first packet passes at the radio: the promotion before it has room.
const BEGIN: Duration = Duration::from_secs(60);
/// Maximum size of a transfer, and rates of a channel.
const MAX_BYTES: u64 = 1_000_000_000;
const RATES_BPS: std::ops::RangeInclusive<u64> = 1_000_000..=1_000_000_000;
/// Maximum of both delays.
const MAX_DELAY: Duration = Duration::from_secs(1);
/// Maximum number of runs of a case.
const MAX_SEEDS: u8 = 100;

/// Figures of each case, and of each comparison.
const FIGURES: [&str; 5] = [
    "mbps",
    "airtime_share",
    "acks",
    "repeated_share",
    "energy_j",
];
const COMPARED: [&str; 2] = ["gain_share", "energy_saving_share"];

/// Parameters of the measurement.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Airtime {
    /// Size of the uploads.
    bytes: Size,
    /// Airtime of each frame beside its octets.
    #[serde(with = "duration_text")]
    frame_overhead: Duration,
    /// One-way delay between the phone and the end of its transport.
    #[serde(with = "duration_text")]
    delay: Duration,
    /// Profile of the radio.
    radio: String,
    /// Profile of the processor, and the frequency at which its use is given.
    cpu: String,
    mhz: f64,
    /// Use of one core by networking, at rates in ascending order.
    #[serde(rename = "use")]
    uses: Vec<UseAt>,
    #[serde(rename = "case")]
    cases: Vec<Case>,
    #[serde(default, rename = "compare")]
    compares: Vec<Compare>,
}

/// An upload.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    transport: Transport,
    /// Rate of the channel.
    rate: BitRate,
    /// Signal, for the radio's power.
    dbm: f64,
    /// Probability that a try to send a frame fails, in either direction.
    #[serde(default)]
    loss: f64,
    /// How often a frame that is lost is sent again.
    #[serde(default)]
    retries: u8,
    /// Number of runs, each with other losses. Figures are their means.
    #[serde(default = "one")]
    seeds: u8,
}

fn one() -> u8 {
    1
}

#[derive(Debug, Clone, Copy, Deserialize)]
enum Transport {
    /// TCP that acknowledges every segment.
    #[serde(rename = "tcp, an ACK for each segment")]
    TcpEach,
    /// TCP as Linux has it.
    #[serde(rename = "tcp, an ACK for two segments")]
    TcpTwo,
    #[serde(rename = "l2")]
    L2,
}

/// Throughput and energy of one case against another.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Compare {
    name: String,
    of: String,
    with: String,
}

/// Energy of a phone, in joules.
struct Energy {
    radio: f64,
    processor: f64,
}

/// Means of a case's runs.
#[derive(Debug, Default)]
struct Means {
    took_s: f64,
    busy_s: f64,
    acks: f64,
    repeated_share: f64,
    radio_j: f64,
    processor_j: f64,
}

impl Airtime {
    pub(super) fn keys(&self) -> Vec<String> {
        let of_cases = self.cases.iter();
        let of_cases = of_cases.flat_map(|c| FIGURES.map(|figure| format!("{}: {figure}", c.name)));
        let of_compares = self.compares.iter();
        let of_compares =
            of_compares.flat_map(|c| COMPARED.map(|figure| format!("{}: {figure}", c.name)));
        of_cases.chain(of_compares).collect()
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if !(1..=MAX_BYTES).contains(&self.bytes.0) {
            return Err("bytes: 1 B to 1 GB".to_owned());
        }
        if self.frame_overhead > MAX_DELAY || self.delay > MAX_DELAY {
            return Err("frame_overhead and delay: at most 1 s".to_owned());
        }
        core_power::check_uses(&self.uses)?;
        core_power::full_mw(&self.cpu, self.mhz)?;
        let profiles = Profiles::shipped().map_err(|e| e.to_string())?;
        profiles.radio(&self.radio).map_err(|e| e.to_string())?;
        if self.cases.is_empty() {
            return Err("case: at least one".to_owned());
        }
        for (n, case) in self.cases.iter().enumerate() {
            let name = &case.name;
            if self.cases.iter().take(n).any(|other| other.name == *name) {
                return Err(format!("there are two cases \"{name}\""));
            }
            if !RATES_BPS.contains(&case.rate.bps()) {
                return Err(format!("case \"{name}\": rate: 1 Mbit/s to 1 Gbit/s"));
            }
            if !(-120.0..=0.0).contains(&case.dbm) {
                return Err(format!("case \"{name}\": dbm: -120 to 0"));
            }
            if !(0.0..1.0).contains(&case.loss) {
                return Err(format!("case \"{name}\": loss: from 0 to less than 1"));
            }
            if !(1..=MAX_SEEDS).contains(&case.seeds) {
                return Err(format!("case \"{name}\": seeds: 1 to {MAX_SEEDS}"));
            }
        }
        for name in self.compares.iter().flat_map(|c| [&c.of, &c.with]) {
            if !self.cases.iter().any(|case| case.name == *name) {
                return Err(format!("there is no case \"{name}\" to compare"));
            }
        }
        Ok(())
    }

    pub(super) fn measure(&self) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        let mut table = SheetTable {
            title: "Uploads over a half-duplex channel".to_owned(),
            note: format!(
                "{} each, in virtual time; {} for each frame beside its octets; energy of the \
                 phone by {} and {} at {} MHz",
                self.bytes,
                duration_text::format(self.frame_overhead),
                self.radio,
                self.cpu,
                self.mhz
            ),
            header: [
                "case",
                "Mbit/s",
                "airtime in use, %",
                "acknowledgements",
                "sent again, %",
                "radio, J",
                "processor, J",
            ]
            .map(str::to_owned)
            .to_vec(),
            words: vec![0],
            ..SheetTable::default()
        };
        for case in &self.cases {
            let means = match self.means(case) {
                Ok(means) => means,
                Err(why) => {
                    let name = &case.name;
                    outcome.notes.push(format!("{name}: not computed: {why}"));
                    continue;
                }
            };
            let mbps = self.bytes.0 as f64 * 8.0 / means.took_s / 1e6;
            let airtime = means.busy_s / means.took_s;
            table.rows.push(vec![
                case.name.clone(),
                format!("{mbps:.2}"),
                format!("{:.1}", airtime * 100.0),
                format!("{:.0}", means.acks),
                format!("{:.2}", means.repeated_share * 100.0),
                format!("{:.2}", means.radio_j),
                format!("{:.2}", means.processor_j),
            ]);
            let joules = means.radio_j + means.processor_j;
            let values = [mbps, airtime, means.acks, means.repeated_share, joules];
            for (figure, value) in FIGURES.into_iter().zip(values) {
                let key = format!("{}: {figure}", case.name);
                outcome.figures.insert(key, Some(value));
            }
        }
        for compare in &self.compares {
            let ratio = |figure: &str| {
                let value = |case: &str| {
                    let key = format!("{case}: {figure}");
                    outcome.figures.get(&key).copied().flatten()
                };
                Some(value(&compare.of)? / value(&compare.with)?)
            };
            let gain = ratio("mbps").map(|ratio| ratio - 1.0);
            let saving = ratio("energy_j").map(|ratio| 1.0 - ratio);
            for (figure, value) in COMPARED.into_iter().zip([gain, saving]) {
                let key = format!("{}: {figure}", compare.name);
                outcome.figures.insert(key, value);
            }
        }
        outcome.tables.push(table);
        Ok(outcome)
    }

    fn means(&self, case: &Case) -> Result<Means, String> {
        let mut means = Means::default();
        for seed in 0..case.seeds {
            let ran = self.run(case, seed)?;
            let energy = self.energy(case, &ran)?;
            for (mean, value) in [
                (&mut means.took_s, ran.took.as_secs_f64()),
                (&mut means.busy_s, ran.busy.as_secs_f64()),
                (&mut means.acks, ran.acks() as f64),
                (&mut means.repeated_share, ran.repeated_share),
                (&mut means.radio_j, energy.radio),
                (&mut means.processor_j, energy.processor),
            ] {
                *mean += value / f64::from(case.seeds);
            }
        }
        Ok(means)
    }

    fn run(&self, case: &Case, seed: u8) -> Result<Ran, String> {
        let channel = Channel {
            rate: case.rate,
            frame_overhead: self.frame_overhead,
            delay: self.delay,
            loss: case.loss,
            retries: case.retries.into(),
            seed: seed.into(),
        };
        match case.transport {
            Transport::TcpEach => over_tcp(channel, self.bytes.0, 1),
            Transport::TcpTwo => over_tcp(channel, self.bytes.0, 2),
            Transport::L2 => over_l2(channel, self.bytes.0),
        }
    }

    /// Rate of the upload.
    fn rate(&self, ran: &Ran) -> BitRate {
        BitRate::over(self.bytes.0, ran.took)
    }

    fn energy(&self, case: &Case, ran: &Ran) -> Result<Energy, String> {
        let full_mw = core_power::full_mw(&self.cpu, self.mhz)?;
        let profiles = Profiles::shipped().map_err(|e| e.to_string())?;
        let radio = profiles.radio(&self.radio).map_err(|e| e.to_string())?;
        let mut radio = Radio::new(radio, Placement::Recorded);
        let mut sums = Account::default();
        let start = Timestamp::ZERO + BEGIN;
        radio.hint(start, Hint::Signal(case.dbm), &mut sums);
        for passed in &ran.passed {
            let packet = Packet {
                direction: passed.direction,
                bytes: passed.bytes,
            };
            radio.packet(passed.at + BEGIN, packet, &mut sums);
        }
        radio.finish(start + ran.took, &mut sums);
        let use_share = core_power::use_at(&self.uses, self.rate(ran));
        Ok(Energy {
            radio: sums.summary().joules,
            processor: use_share * full_mw / 1e3 * ran.took.as_secs_f64(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "bytes = \"3 MB\"\nframe_overhead = \"159us\"\ndelay = \"1ms\"\n\
        radio = \"wifi-s4\"\ncpu = \"cpu-galaxy-s3\"\nmhz = 1400.0\n\
        [[use]]\nrate = \"24 Mbit/s\"\nshare = 0.6\n";
    const TCP: &str = "[[case]]\nname = \"tcp\"\nrate = \"54 Mbit/s\"\ndbm = -50.0\n\
        transport = \"tcp, an ACK for each segment\"\n";
    const L2: &str = "[[case]]\nname = \"l2\"\nrate = \"54 Mbit/s\"\ndbm = -50.0\n\
        transport = \"l2\"\n";
    const COMPARE: &str = "[[compare]]\nname = \"more\"\nof = \"l2\"\nwith = \"tcp\"\n";

    fn airtime(text: &str) -> Airtime {
        toml::from_str(&format!("{HEAD}{text}")).unwrap()
    }

    #[test]
    fn energy_is_saved_by_the_time_that_is() {
        let a = airtime(&format!("{TCP}{L2}{COMPARE}"));
        assert_eq!(a.check(), Ok(()));
        let outcome = a.measure().unwrap();
        assert!(a.keys().iter().all(|key| outcome.figures.contains_key(key)));
        assert!(outcome.notes.is_empty(), "{:?}", outcome.notes);
        let figure = |key: &str| outcome.figures[key].unwrap();
        let (gain, saved) = (
            figure("more: gain_share"),
            figure("more: energy_saving_share"),
        );
        assert!((0.3..0.5).contains(&gain), "{gain}");
        // Both powers are about constant: the share of the time that is saved, at most.
        let time = 1.0 - 1.0 / (1.0 + gain);
        assert!((0.6 * time..=time).contains(&saved), "{saved} of {time}");
    }

    #[test]
    fn figures_are_means_of_seeds() {
        let lossy = |seeds| {
            let text = format!("{TCP}loss = 0.2\nretries = 7\nseeds = {seeds}\n");
            airtime(&text)
        };
        let two = lossy(2);
        let case = two.cases.first().unwrap();
        let [first, second] = [0, 1].map(|seed| two.run(case, seed).unwrap().took.as_secs_f64());
        assert!((first - second).abs() > 1e-6, "{first} and {second}");
        let mean = |a: &Airtime| a.means(a.cases.first().unwrap()).unwrap().took_s;
        assert!((mean(&two) - (first + second) / 2.0).abs() < 1e-9);
        assert!((mean(&lossy(1)) - first).abs() < 1e-9);
    }

    #[test]
    fn errors_name_the_case() {
        for (text, words) in [
            (format!("{TCP}{TCP}"), "two cases \"tcp\""),
            (format!("{L2}{COMPARE}"), "no case \"tcp\" to compare"),
            (TCP.replace("54 Mbit/s", "1 kbit/s"), "case \"tcp\": rate"),
            (TCP.replace("-50.0", "20.0"), "case \"tcp\": dbm"),
            (format!("{TCP}loss = 1.0\n"), "case \"tcp\": loss"),
            (format!("{TCP}loss = -0.1\n"), "case \"tcp\": loss"),
            (format!("{TCP}loss = nan\n"), "case \"tcp\": loss"),
            (format!("{TCP}seeds = 0\n"), "case \"tcp\": seeds"),
            (
                format!("{TCP}[[use]]\nrate = \"1 Mbit/s\"\nshare = 0.1\n"),
                "ascending",
            ),
        ] {
            let why = airtime(&text).check().unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }
}
