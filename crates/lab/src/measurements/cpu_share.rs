//! Share of the processor in the energy of a transfer ("Trimming the Smartphone Network Stack",
//! section 2.2), by the models of radios and processors.
//!
//! The processor's use at each rate is an input: the file has that of a phone, since this machine's
//! processor is not that of a phone. It is interpolated between rates.

use mpbond_radio::{
    Account, CpuShare, Direction, Hint, Packet, Placement, ProfileError, Profiles, Radio,
};
use mpbond_units::{BitRate, Size, Timestamp};
use serde::Deserialize;

use super::core_power::{self, UseAt};
use super::outcome::Outcome;
use crate::error::Result;
use crate::report::SheetTable;

/// Size of a packet, in bytes.
const PACKET_BYTES: u32 = 1500;
/// When the first packet passes: the promotion before it has room.
const BEGIN: Timestamp = Timestamp::from_millis(60_000);
/// Maximum size of a transfer.
const MAX_BYTES: u64 = 1_000_000_000;

/// Figures of each case.
const FIGURES: [&str; 3] = ["cpu_share", "cpu_net_j", "nic_j"];

/// Parameters of the measurement.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Shares {
    /// Size of the transfers.
    bytes: Size,
    /// Profile of the processor, and the frequency at which its use is given.
    cpu: String,
    mhz: f64,
    /// Use of one core by networking, at rates in ascending order.
    #[serde(rename = "use")]
    uses: Vec<UseAt>,
    #[serde(rename = "case")]
    cases: Vec<Case>,
}

/// A transfer at a constant rate.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    /// Profile of the radio.
    radio: String,
    /// Signal; the profile's own when absent.
    dbm: Option<f64>,
    rate: BitRate,
    direction: Direction,
}

impl Shares {
    pub(super) fn keys(&self) -> Vec<String> {
        let of = |case: &Case| FIGURES.map(|figure| format!("{}: {figure}", case.name));
        self.cases.iter().flat_map(of).collect()
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.bytes.0 == 0 || self.bytes.0 > MAX_BYTES {
            return Err("bytes: 1 B to 1 GB".to_owned());
        }
        core_power::check_uses(&self.uses)?;
        if self.cases.is_empty() {
            return Err("case: at least one".to_owned());
        }
        for (n, case) in self.cases.iter().enumerate() {
            let name = &case.name;
            if self.cases.iter().take(n).any(|other| other.name == *name) {
                return Err(format!("there are two cases \"{name}\""));
            }
            if !(10_000..=10_000_000_000).contains(&case.rate.bps()) {
                return Err(format!("case \"{name}\": rate: 10 kbit/s to 10 Gbit/s"));
            }
        }
        let profiles = Profiles::shipped().map_err(|e| e.to_string())?;
        let radios = self.cases.iter();
        let radios = radios.map(|case| profiles.radio(&case.radio).map(|_| ()));
        let radios = radios.collect::<Result<(), ProfileError>>();
        radios.map_err(|e| e.to_string())?;
        core_power::full_mw(&self.cpu, self.mhz).map(|_| ())
    }

    pub(super) fn measure(&self) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        let mut table = SheetTable {
            title: "Energy of transfers, J".to_owned(),
            note: format!(
                "{} each; the processor's use is an input of the file, at {} MHz of {}",
                self.bytes, self.mhz, self.cpu
            ),
            header: [
                "case",
                "processor",
                "interface",
                "background",
                "processor's share, %",
            ]
            .map(str::to_owned)
            .to_vec(),
            words: vec![0],
            ..SheetTable::default()
        };
        for case in &self.cases {
            let share = match self.account(case) {
                Ok(share) => share,
                Err(why) => {
                    let name = &case.name;
                    outcome.notes.push(format!("{name}: not computed: {why}"));
                    continue;
                }
            };
            let of_all = share.cpu_share.map(|s| s * 100.0).unwrap_or_default();
            let cells = [share.cpu_net_j, share.nic_j, share.background_j, of_all];
            let cells = cells.map(|cell| format!("{cell:.2}"));
            let name = std::iter::once(case.name.clone());
            table.rows.push(name.chain(cells).collect());
            let values = [share.cpu_share, Some(share.cpu_net_j), Some(share.nic_j)];
            for (figure, value) in FIGURES.into_iter().zip(values) {
                let key = format!("{}: {figure}", case.name);
                outcome.figures.insert(key, value);
            }
        }
        outcome.tables.push(table);
        Ok(outcome)
    }

    fn account(&self, case: &Case) -> Result<CpuShare, String> {
        let full_mw = core_power::full_mw(&self.cpu, self.mhz)?;
        let profiles = Profiles::shipped().map_err(|e| e.to_string())?;
        let cpu = profiles.cpu(&self.cpu).map_err(|e| e.to_string())?;
        let seconds = case.rate.time_for(self.bytes.0).as_secs_f64();
        let radio = profiles.radio(&case.radio).map_err(|e| e.to_string())?;
        let mut radio = Radio::new(radio, Placement::Recorded);
        let mut sums = Account::default();
        if let Some(dbm) = case.dbm {
            radio.hint(BEGIN, Hint::Signal(dbm), &mut sums);
        }
        let packets = self.bytes.0.div_ceil(PACKET_BYTES.into());
        let mut at = BEGIN;
        for n in 0..packets {
            at = BEGIN + case.rate.time_for(n * u64::from(PACKET_BYTES));
            let packet = Packet {
                direction: case.direction,
                bytes: PACKET_BYTES,
            };
            radio.packet(at, packet, &mut sums);
        }
        radio.finish(at, &mut sums);
        Ok(CpuShare::new(
            core_power::use_at(&self.uses, case.rate) * full_mw / 1e3 * seconds,
            sums.summary().joules,
            cpu.background.get() / 1e3 * seconds,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "bytes = \"3 MB\"\ncpu = \"cpu-galaxy-s3\"\nmhz = 1400.0\n\
        [[use]]\nrate = \"4 Mbit/s\"\nshare = 0.4\n\
        [[use]]\nrate = \"24 Mbit/s\"\nshare = 0.6\n";

    fn shares(text: &str) -> Shares {
        toml::from_str(&format!("{HEAD}{text}")).unwrap()
    }

    #[test]
    fn a_transfer_by_hand() {
        let case = "[[case]]\nname = \"a\"\nradio = \"wifi-s4\"\ndbm = -60.0\n\
            rate = \"24 Mbit/s\"\ndirection = \"up\"\n";
        let s = shares(case);
        assert_eq!(s.check(), Ok(()));
        let share = s.account(&s.cases[0]).unwrap();
        // 1 s: 0.6 of 760 mW; 723 mW to send, and a promotion and a tail of 0.07 J together.
        assert!((share.cpu_net_j - 0.456).abs() < 1e-9, "{share:?}");
        assert!((share.background_j - 0.1502).abs() < 1e-9, "{share:?}");
        assert!((share.nic_j - 0.793).abs() < 0.02, "{share:?}");
        for (mbps, expect) in [
            (1.0, 0.4),
            (4.0, 0.4),
            (14.0, 0.5),
            (24.0, 0.6),
            (99.0, 0.6),
        ] {
            let got = core_power::use_at(&s.uses, BitRate::from_mbps(mbps));
            assert!((got - expect).abs() < 1e-12, "{mbps}: {got}");
        }
        let outcome = s.measure().unwrap();
        assert!(s.keys().iter().all(|key| outcome.figures.contains_key(key)));
        assert_eq!(outcome.tables[0].rows.len(), 1);
    }

    #[test]
    fn errors_name_the_case() {
        let case = |more: &str| {
            format!("[[case]]\nname = \"a\"\nradio = \"wifi-s4\"\ndirection = \"up\"\n{more}")
        };
        let good = case("rate = \"1 Mbit/s\"\n");
        for (text, words) in [
            (case("rate = \"1 bit/s\"\n"), "case \"a\": rate"),
            (format!("{good}{good}"), "two cases \"a\""),
            (good.replace("wifi-s4", "cpu-galaxy-s3"), "cpu-galaxy-s3"),
            (
                format!("{good}[[use]]\nrate = \"1 Mbit/s\"\nshare = 0.1\n"),
                "ascending",
            ),
        ] {
            let why = shares(&text).check().unwrap_err();
            assert!(why.contains(words), "{why}");
        }
        let mut none = shares(&good);
        none.cases.clear();
        assert_eq!(none.check().unwrap_err(), "case: at least one");
        let mut fast = shares(&good);
        fast.mhz = 2400.0;
        let why = fast.check().unwrap_err();
        assert!(why.contains("has 200 to 1600 MHz"), "{why}");
    }
}
