//! Parts of a one-way delay (Wear OS paper, section 4.2): a server, a phone whose proxy relays to a
//! watch over a link like Bluetooth's, and captures at all of them.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::Command;

use crate::error::{Doing, Result};
use crate::report::SheetTable;
use mpbond_capture::delay::{DelayReport, Places, Segment, one_way, proxy_log, tcp_transfer};
use serde::Deserialize;

use super::child;
use super::outcome::Outcome;

/// Means over bytes, and the largest total delay.
pub(super) const KEYS: [&str; 7] = [
    "d1_s",
    "d2_s",
    "d3_s",
    "d4_s",
    "total_s",
    "longest_s",
    "d2_share",
];

/// Duration of a short run: enough to fill the phone's buffer.
const QUICK_S: u32 = 16;
/// The phone's network, and behind it the wire with the server's capture.
const PHONE_HOP: &str = "wan:50 Mbit/s:20ms";
const SERVER_HOP: &str = "eth:1000 Mbit/s:0ms";

/// Parameters of the measurement.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parts {
    seconds: u32,
    /// Constant rate of the server; "bulk" is without a limit.
    rate: String,
    /// Rate of the link to the watch.
    bluetooth: String,
}

impl Parts {
    pub(super) fn check(&self) -> Result<(), String> {
        if !(2..=600).contains(&self.seconds) {
            return Err("seconds: 2 to 600".to_owned());
        }
        let rates = [&self.rate, &self.bluetooth].into_iter();
        for rate in rates.filter(|r| *r != "bulk") {
            rate.parse::<mpbond_units::BitRate>()
                .map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    pub(super) fn measure(&self, quick: bool) -> Result<Outcome> {
        let folder = tempfile::tempdir().doing("cannot make a temporary folder")?;
        let mut outcome = Outcome::default();
        let seconds = if quick {
            self.seconds.min(QUICK_S)
        } else {
            self.seconds
        };
        let report = match self.once(seconds, folder.path()) {
            Ok(report) => report,
            Err(why) => {
                outcome.notes.push(format!("not measured: {why}"));
                return Ok(outcome);
            }
        };
        let s = &report.segments;
        let parts = [
            ("d1, server to phone", &s.d1),
            ("d2, the phone's TCP", &s.d2),
            ("d3, its proxy", &s.d3),
            ("d4, to the watch", &s.d4),
            ("all", &report.total),
        ];
        let mut table = SheetTable {
            title: "Delays over bytes, s".to_owned(),
            note: "d4 is of a TCP connection over a link of Bluetooth's rate, no RFCOMM".to_owned(),
            header: ["part", "bytes", "min", "mean", "median", "95 %", "max"]
                .map(str::to_owned)
                .to_vec(),
            words: vec![0],
            ..SheetTable::default()
        };
        for (name, part) in parts {
            if let Some(p) = part {
                let cells = [p.min_s, p.mean_s, p.median_s, p.p95_s, p.max_s];
                let head = [name.to_owned(), p.bytes.to_string()].into_iter();
                table
                    .rows
                    .push(head.chain(cells.map(|s| format!("{s:.4}"))).collect());
            }
        }
        outcome.tables.push(table);
        let mean = |p: &Option<Segment>| p.as_ref().map(|p| p.mean_s);
        let means = [mean(&s.d1), mean(&s.d2), mean(&s.d3), mean(&s.d4)];
        let sum: Option<f64> = means.iter().copied().sum();
        let share = mean(&s.d2).zip(sum).map(|(d2, sum)| d2 / sum);
        let longest = report.total.as_ref().map(|t| t.max_s);
        let more = [mean(&report.total), longest, share];
        let values = means.into_iter().chain(more);
        outcome.figures = KEYS.map(str::to_owned).into_iter().zip(values).collect();
        Ok(outcome)
    }

    fn once(&self, seconds: u32, folder: &Path) -> Result<DelayReport, String> {
        let own = std::env::current_exe().map_err(|e| e.to_string())?;
        let own = own.display().to_string();
        let place = |name: &str| folder.join(name).display().to_string();
        let log = place("proxy.csv");
        let relay =
            format!("1={own} lab relay --listen 0.0.0.0:7008 --to 100.64.78.4:7008 --times {log}");
        let mut client = vec![
            own.clone(),
            "traffic".into(),
            "client".into(),
            "100.64.78.2".into(),
        ];
        match self.rate.as_str() {
            "bulk" => {}
            rate => client.extend(["--workload", "cbr", "--rate", rate].map(str::to_owned)),
        }
        let more = format!("--duration {seconds}s --stall 120s --drain 120s --json");
        client.extend(more.split(' ').map(str::to_owned));
        let mut chain = Command::new(&own);
        chain
            .args([
                "lab",
                "chain",
                "--hop",
                &format!("bt:{}:2ms", self.bluetooth),
            ])
            .args(["--hop", PHONE_HOP, "--hop", SERVER_HOP])
            .args(["--pcap", &place("taps")])
            .args([
                "--at",
                &format!("3={own} traffic server --listen 0.0.0.0:7008"),
            ])
            .args(["--at", &relay])
            // The script first prints the start of the captures' clock; programs at other hosts
            // start meanwhile.
            .args(["--", "/bin/sh", "-c"])
            .args([
                "echo $MPBOND_CLOCK_ZERO_NS; sleep 0.5; \"$@\" | tail -n 1",
                "sh",
            ])
            .args(&client);
        let ended = child::run(&mut chain, &[0])?;
        let zero_ns: u64 = ended
            .stdout
            .lines()
            .next()
            .and_then(|l| l.parse().ok())
            .ok_or(ended.stderr)?;
        let text = std::fs::read_to_string(&log).map_err(|e| format!("{log}: {e}"))?;
        let shifted = since(&text, zero_ns)?;
        let (read, sent) = proxy_log(&log, shifted.as_bytes()).map_err(|e| e.to_string())?;
        let open = |name: &str| {
            let path = folder.join("taps").join(name);
            let file = File::open(&path).map_err(|e| format!("{name}: {e}"));
            file.map(BufReader::new)
        };
        let said = |e: mpbond_capture::CaptureError| e.to_string();
        let server = tcp_transfer("eth.pcap", open("eth.pcap")?, None).map_err(said)?;
        let phone = tcp_transfer("wan.pcap", open("wan.pcap")?, Some(&server)).map_err(said)?;
        let watch = tcp_transfer("bt.pcap", open("bt.pcap")?, None).map_err(said)?;
        let places = Places {
            server: Some(server),
            phone: Some(phone),
            proxy_read: Some(read),
            proxy_sent: Some(sent),
            watch: Some(watch.arrivals),
        };
        one_way(&places).map_err(|e| e.to_string())
    }
}

/// The proxy's log, with times relative to the start of the captures' clock.
fn since(log: &str, zero_ns: u64) -> Result<String, String> {
    let mut out = String::new();
    for (i, line) in log.lines().enumerate() {
        let shifted = line.split_once(',').and_then(|(at, rest)| {
            let (s, us) = at.split_once('.')?;
            let ns = s.parse::<u64>().ok()? * 1_000_000_000 + us.parse::<u64>().ok()? * 1000;
            let ns = ns.checked_sub(zero_ns)?;
            let (s, rest_ns) = (ns / 1_000_000_000, ns % 1_000_000_000);
            Some(format!("{s}.{rest_ns:09},{rest}\n"))
        });
        match shifted {
            Some(line) => out += &line,
            None if i == 0 => out += &format!("{line}\n"),
            None => return Err(format!("the proxy's log: line {}: `{line}`", i + 1)),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_moved() {
        let log = "time_s,event,bytes\n1700000001.500000,read,3\n";
        let moved = since(log, 1_700_000_000_250_000_000).unwrap();
        assert_eq!(moved, "time_s,event,bytes\n1.250000000,read,3\n");
        assert!(since("time_s,event,bytes\nx\n", 0).is_err());
        assert!(since(log, 1_800_000_000_000_000_000).is_err());
    }
}
