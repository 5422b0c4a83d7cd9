//! Signal strength of the old network at a handover ("Understanding the Networking Performance of
//! Wear OS", sections 6.3 and 6.4): RSSI logs combined with the phases.

use std::io::Read;

use super::handover::{HandoverRssi, PhasesReport};
use super::interface_log::read;
use crate::error::CaptureError;

const HEADER: &str = "time_s,interface,rssi_dbm";
/// Range of plausible signal strengths.
const RANGE_DBM: (f64, f64) = (-150.0, 50.0);
/// Maximum age of a reading, in seconds.
const FRESH_S: f64 = 5.0;

/// Adds a log of signal strengths (`time_s,interface,rssi_dbm`) to the handovers of a report.
///
/// # Errors
/// One line with file, line and reason.
pub fn add_rssi<R: Read>(
    report: &mut PhasesReport,
    file: &str,
    from: R,
) -> Result<(), CaptureError> {
    let all = read(file, from, HEADER, |text| {
        let dbm = text.parse::<f64>().ok();
        dbm.filter(|d| (RANGE_DBM.0..=RANGE_DBM.1).contains(d))
            .ok_or_else(|| format!("`{text}` is not a signal strength in dBm"))
    })?;
    for h in &mut report.handovers {
        let at = |interface: &str, when: f64| {
            let last = all.iter().rfind(|(at, i, _)| i == interface && *at <= when);
            let last = last.filter(|(at, ..)| when - at <= FRESH_S);
            last.map(|(.., dbm)| *dbm)
        };
        let lost_s = h.last_data_s + h.phases.p1_s;
        let p1 = all
            .iter()
            .filter(|(at, i, _)| *i == h.from && (h.last_data_s..=lost_s).contains(at));
        h.rssi = Some(HandoverRssi {
            at_last_data_dbm: at(&h.from, h.last_data_s),
            at_loss_dbm: at(&h.from, lost_s),
            lowest_in_p1_dbm: p1.map(|(.., dbm)| *dbm).reduce(f64::min),
            new_at_first_data_dbm: at(&h.to, h.first_data_s),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::phases::phases;
    use super::*;

    fn report() -> PhasesReport {
        let states = "time_s,interface,state\n0,bt,connected\n18.9,bt,off\n34.4,wifi,available\n\
                      42.7,wifi,connected\n";
        let bytes = "time_s,interface,app_bytes\n6.0,bt,3000\n76.0,wifi,3000\n";
        phases(("states", states.as_bytes()), ("bytes", bytes.as_bytes())).unwrap()
    }

    #[test]
    fn readings_stand_beside_their_phases() {
        let mut r = report();
        let log = format!(
            "{HEADER}\n5.5,bt,-66\n5.8,wifi,-40\n9,bt,-85.5\n18,bt,-80\n19.5,bt,-99\n60,wifi,-50\n"
        );
        add_rssi(&mut r, "rssi", log.as_bytes()).unwrap();
        let expected = HandoverRssi {
            at_last_data_dbm: Some(-66.0),
            at_loss_dbm: Some(-80.0),
            lowest_in_p1_dbm: Some(-85.5),
            // The last reading is 16 s old.
            new_at_first_data_dbm: None,
        };
        assert_eq!(r.handovers[0].rssi, Some(expected));
    }

    #[test]
    fn bad_lines_are_named() {
        for (log, words) in [
            ("time_s,rssi\n", "rssi: line 1: must begin"),
            (
                "time_s,interface,rssi_dbm\n0,bt,strong\n",
                "rssi: line 2: `strong` is not a signal",
            ),
            ("time_s,interface,rssi_dbm\n0,bt,nan\n", "not a signal"),
            ("time_s,interface,rssi_dbm\n0,bt,-1e9\n", "not a signal"),
        ] {
            let e = add_rssi(&mut report(), "rssi", log.as_bytes()).unwrap_err();
            assert!(e.to_string().contains(words), "{e}");
        }
    }
}
