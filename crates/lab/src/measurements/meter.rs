//! Model of a phone's processor compared with a power meter, by logs of both ("Trimming the
//! Smartphone Network Stack", Figure 7).

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use mpbond_capture::{Metered, metered};
use mpbond_radio::Profiles;
use mpbond_radio::machine::CpuParameters;
use serde::Deserialize;

use super::outcome::Outcome;
use crate::error::Result;
use crate::report::SheetTable;

/// Parameters of the measurement.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Meters {
    /// Profile of the phone.
    device: String,
    #[serde(rename = "case")]
    cases: Vec<Case>,
}

/// Two logs of one run, named relative to the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    /// Log of `mpbond cpulog`.
    cpu: PathBuf,
    /// Log of the power meter.
    power: PathBuf,
}

impl Meters {
    /// `CASE: error_share`, without its sign, and the largest of all.
    pub(super) fn keys(&self) -> Vec<String> {
        let of = self.cases.iter();
        let of = of.map(|case| format!("{}: error_share", case.name));
        of.chain(["largest error_share".to_owned()]).collect()
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.cases.is_empty() {
            return Err("case: at least one".to_owned());
        }
        self.phone().map(|_| ())
    }

    /// The phone's processor, and the power of the rest of it in mW.
    fn phone(&self) -> Result<(CpuParameters, f64), String> {
        let profiles = Profiles::shipped().map_err(|e| e.to_string())?;
        let device = profiles.device(&self.device).map_err(|e| e.to_string())?;
        let Some(cpu) = &device.parameters.cpu else {
            return Err(format!("device \"{}\" has no processor", self.device));
        };
        let cpu = profiles.cpu(cpu).map_err(|e| e.to_string())?;
        Ok((cpu.clone(), device.parameters.base.get()))
    }

    pub(super) fn measure(&self, folder: &Path) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        let mut table = SheetTable {
            title: "Mean power, mW".to_owned(),
            note: format!("model: processor and base power of {}", self.device),
            header: ["case", "seconds", "meter", "model", "error, %"]
                .map(str::to_owned)
                .to_vec(),
            words: vec![0],
            ..SheetTable::default()
        };
        let mut largest: Option<f64> = None;
        let mut all = true;
        for case in &self.cases {
            let m = match self.compare(case, folder) {
                Ok(m) => m,
                Err(why) => {
                    all = false;
                    let name = &case.name;
                    outcome.notes.push(format!("{name}: not measured: {why}"));
                    continue;
                }
            };
            let error = m.error_share.abs();
            largest = Some(largest.map_or(error, |l| l.max(error)));
            let key = format!("{}: error_share", case.name);
            outcome.figures.insert(key, Some(error));
            let cells = [m.seconds, m.meter_mw, m.model_mw, m.error_share * 100.0];
            let cells = cells.map(|cell| format!("{cell:.2}"));
            let name = std::iter::once(case.name.clone());
            table.rows.push(name.chain(cells).collect());
        }
        // Of a part of the cases it would be too small.
        let largest = largest.filter(|_| all);
        let key = "largest error_share".to_owned();
        outcome.figures.insert(key, largest);
        outcome.tables.push(table);
        Ok(outcome)
    }

    fn compare(&self, case: &Case, folder: &Path) -> Result<Metered, String> {
        let (cpu, base_mw) = self.phone()?;
        let open = |path: &Path| {
            let path = folder.join(path);
            let name = path.display().to_string();
            match File::open(&path) {
                Ok(file) => Ok((name, BufReader::new(file))),
                Err(e) => Err(format!("{name}: {e}")),
            }
        };
        let ((cpu_name, cpu_log), (power_name, power)) = (open(&case.cpu)?, open(&case.power)?);
        let logs = ((cpu_name.as_str(), cpu_log), (power_name.as_str(), power));
        metered(logs.0, logs.1, &cpu, base_mw).map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = "device = \"galaxy-s3\"\n\
        [[case]]\nname = \"half\"\ncpu = \"cpu.csv\"\npower = \"power.csv\"\n";

    #[test]
    fn logs_are_compared() {
        let m: Meters = toml::from_str(ROW).unwrap();
        assert_eq!(m.check(), Ok(()));
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).unwrap();
        };
        let outcome = m.measure(folder.path()).unwrap();
        assert!(
            outcome.notes[0].contains("cpu.csv: No such file"),
            "{:?}",
            outcome.notes
        );
        assert_eq!(outcome.figures["largest error_share"], None);
        let head = "time_s,kind,name,mhz,utilisation\n";
        write(
            "cpu.csv",
            &format!("{head}0,core,0,1400,0\n10,core,0,1400,0.5\n"),
        );
        // The model: 0.5 of 760 mW, 167.2 mW while awake, 25 mW of the rest.
        write("power.csv", "time_s,power_mw\n0,0\n10,520\n");
        let outcome = m.measure(folder.path()).unwrap();
        let error = outcome.figures["half: error_share"].unwrap();
        assert!((error - (572.2 / 520.0 - 1.0)).abs() < 1e-9, "{error}");
        assert_eq!(outcome.figures["largest error_share"], Some(error));
        write("power.csv", "time_s,power_mw\n0,0\n10,52");
        let outcome = m.measure(folder.path()).unwrap();
        let why = &outcome.notes[0];
        assert!(
            why.contains("power.csv: line 3: file ends inside a line"),
            "{why}"
        );
        let other = ROW.replace("galaxy-s3", "lte-2012");
        let other: Meters = toml::from_str(&other).unwrap();
        assert!(other.check().unwrap_err().contains("lte-2012"));
    }
}
