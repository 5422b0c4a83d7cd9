//! The gain of several devices over one, in a sentence.

use crate::record::{RunReport, Transfer};

impl RunReport {
    /// "3 devices: 2.2 × faster than one (5.0 s, not 11.1 s)": the mean times of the largest number
    /// of devices and of a single one. `None` unless all transfers are alike except for the number
    /// of devices and for how connections reached the primary.
    pub fn gain_text(&self) -> Option<String> {
        let first = self.transfers.first()?;
        let kind = |t: &Transfer| {
            let scheme = (t.scheme.clone(), t.scheduler.clone(), t.congestion.clone());
            (scheme, t.workload.clone(), t.direction, t.bytes)
        };
        let alike = |t: &Transfer| t.sha256_ok && kind(t) == kind(first);
        if first.scheme != "mpbond" || !self.transfers.iter().all(alike) {
            return None;
        }
        let most = self.transfers.iter().map(|t| t.devices).max()?;
        let (one, all) = (self.mean_seconds(1)?, self.mean_seconds(most)?);
        if most < 2 {
            return None;
        }
        let mut text = if all < one {
            format!("{most} devices: {:.1} × faster than one", one / all)
        } else {
            format!("{most} devices: not faster than one")
        };
        text += &format!(" ({all:.1} s, not {one:.1} s)");
        let may_be_long = |t: &Transfer| t.is_unfit() || (t.is_disturbed() && !t.left_out);
        if self.transfers.iter().any(may_be_long) {
            text += "; some of these transfers are unfit or disturbed";
        }
        Some(text)
    }

    /// Mean time of all transfers with this number of devices, without those left out.
    fn mean_seconds(&self, devices: usize) -> Option<f64> {
        let counts = |t: &&Transfer| t.devices == devices && !t.left_out;
        let with = self.transfers.iter().filter(counts);
        let seconds: Vec<f64> = with.map(|t| t.seconds).collect();
        let sum: f64 = seconds.iter().sum();
        (!seconds.is_empty() && sum > 0.0).then(|| sum / seconds.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn transfer(devices: usize, interception: &str, seconds: f64) -> Value {
        json!({
            "scheme": "mpbond", "name": format!("{devices}, {interception}"), "workload": "w",
            "repetition": 0, "scheduler": "mpbond", "direction": "down", "devices": devices,
            "interception": interception, "congestion": "cubic", "bytes": 1_000_000,
            "seconds": seconds, "ideal_seconds": 1.0, "ratio": seconds, "redundant_bytes": 0,
            "sha256_ok": true, "first_byte_s": 0.1, "longest_stall_s": 0.1, "subflows": [],
            "cpu_s": {}, "fit": true, "unfit_because": null,
        })
    }

    fn text(transfers: &[Value]) -> Option<String> {
        let report: RunReport = serde_json::from_value(json!({
            "experiment": "t", "title": "t", "date": "", "commit": null, "kernel": "",
            "transfers": transfers, "summary": [], "asserts": [],
        }))
        .unwrap();
        report.gain_text()
    }

    #[test]
    fn times_of_three_devices_are_compared_with_those_of_one() {
        let mut all = vec![
            transfer(1, "socks5", 11.0),
            transfer(2, "socks5", 7.0),
            transfer(3, "socks5", 5.0),
            transfer(1, "transparent", 11.4),
            transfer(3, "transparent", 5.2),
        ];
        let expected = "3 devices: 2.2 × faster than one (5.1 s, not 11.2 s)";
        assert_eq!(text(&all).as_deref(), Some(expected));
        all[2]["fit"] = json!(false);
        let unfit = format!("{expected}; some of these transfers are unfit or disturbed");
        assert_eq!(text(&all), Some(unfit));
        all[2]["seconds"] = json!(100.0);
        assert!(
            text(&all)
                .unwrap()
                .starts_with("3 devices: not faster than one (")
        );
        all[2]["left_out"] = json!(true);
        let expected = "3 devices: 2.2 × faster than one (5.2 s, not 11.2 s)";
        assert_eq!(text(&all).as_deref(), Some(expected));
    }

    #[test]
    fn other_transfers_have_no_such_sentence() {
        assert_eq!(text(&[]), None);
        assert_eq!(text(&[transfer(3, "socks5", 5.0)]), None);
        assert_eq!(text(&[transfer(1, "socks5", 5.0)]), None);
        let mut other = transfer(3, "socks5", 5.0);
        other["scheduler"] = json!("min-rtt");
        assert_eq!(text(&[transfer(1, "socks5", 11.0), other.clone()]), None);
        other["scheduler"] = json!("mpbond");
        assert!(text(&[transfer(1, "socks5", 11.0), other.clone()]).is_some());
        other["sha256_ok"] = json!(false);
        assert_eq!(text(&[transfer(1, "socks5", 11.0), other]), None);
    }
}
