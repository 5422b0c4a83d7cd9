//! Parts of a one-way delay (Wear OS paper, section 4.2): a server, a phone whose proxy relays to a
//! watch over a link like Bluetooth's, and captures at all of them.

use std::fs::File;
use std::io::BufReader;
use std::process::Command;

use crate::error::Result;
use crate::report::SheetTable;
use mpbond_capture::delay::{DelayReport, Places, Segment, one_way, proxy_log, tcp_transfer};
use mpbond_units::Size;
use serde::Deserialize;

use super::child;
use super::outcome::Outcome;

/// Means over bytes, and the largest and the median of the total delay.
const KEYS: [&str; 8] = [
    "d1_s",
    "d2_s",
    "d3_s",
    "d4_s",
    "total_s",
    "longest_s",
    "d2_share",
    "median_s",
];

/// Duration of a short run: enough to fill a buffer of the kernel's own choice.
const QUICK_S: u32 = 16;
/// Time to wait for bytes in buffers at the end of a run, and of a short one.
const DRAIN_S: [u32; 2] = [120, 1];
/// Receive buffers that a case may have.
const RECEIVE_BUFFER: std::ops::RangeInclusive<u64> = (64 << 10)..=(64 << 20);
/// The phone's network, and behind it the wire with the server's capture.
const PHONE_HOP: &str = "wan:50 Mbit/s:20ms";
const SERVER_HOP: &str = "eth:1000 Mbit/s:0ms";

/// Parameters of the measurement.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parts {
    seconds: u32,
    /// Rate of the link to the watch.
    bluetooth: String,
    /// They are measured at the same time, each over hosts of its own.
    #[serde(rename = "case")]
    cases: Vec<Case>,
}

/// A server and a phone.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    /// Constant rate of the server; "bulk" is without a limit.
    rate: String,
    /// Size of the phone's TCP receive buffer, as Linux counts it (`tcp_rmem`); by default the
    /// kernel chooses.
    receive_buffer: Option<Size>,
}

impl Case {
    /// The key of one of its figures.
    fn key(&self, figure: &str) -> String {
        format!("{}: {figure}", self.name)
    }
}

impl Parts {
    /// Keys of the figures.
    pub(super) fn keys(&self) -> Vec<String> {
        let of_case = |case: &Case| KEYS.map(|figure| case.key(figure));
        self.cases.iter().flat_map(of_case).collect()
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if !(2..=600).contains(&self.seconds) {
            return Err("seconds: 2 to 600".to_owned());
        }
        let cases = &self.cases;
        let rates = cases.iter().map(|case| &case.rate);
        for rate in rates.filter(|r| *r != "bulk").chain([&self.bluetooth]) {
            rate.parse::<mpbond_units::BitRate>()
                .map_err(|e| e.to_string())?;
        }
        for (n, case) in cases.iter().enumerate() {
            if cases[..n].iter().any(|other| other.name == case.name) {
                return Err(format!("there are two cases \"{}\"", case.name));
            }
            if (case.receive_buffer).is_some_and(|size| !RECEIVE_BUFFER.contains(&size.0)) {
                return Err("receive_buffer: from 64 KiB to 64 MiB".to_owned());
            }
        }
        Ok(())
    }

    pub(super) fn measure(&self, quick: bool) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        let [drain_s, short_drain_s] = DRAIN_S;
        let times = match quick {
            true => (self.seconds.min(QUICK_S), short_drain_s),
            false => (self.seconds, drain_s),
        };
        let reports: Vec<_> = std::thread::scope(|scope| {
            let begin = |case| scope.spawn(move || self.once(case, times));
            let running: Vec<_> = self.cases.iter().map(begin).collect();
            let ended = running.into_iter().map(|run| run.join());
            ended
                .map(|report| report.unwrap_or_else(|_| Err("it panicked".to_owned())))
                .collect()
        });
        for (case, report) in self.cases.iter().zip(reports) {
            match report {
                Ok(report) => add(&mut outcome, case, &report),
                Err(why) => {
                    let note = case.key(&format!("not measured: {why}"));
                    outcome.notes.push(note);
                }
            }
        }
        Ok(outcome)
    }

    /// Measures a case for so many seconds, and waits so many for what is in buffers at the end.
    fn once(&self, case: &Case, (seconds, drain): (u32, u32)) -> Result<DelayReport, String> {
        let folder = tempfile::tempdir().map_err(|e| format!("no temporary folder: {e}"))?;
        let folder = folder.path();
        let own = std::env::current_exe().map_err(|e| e.to_string())?;
        let own = own.display().to_string();
        let place = |name: &str| folder.join(name).display().to_string();
        let log = place("proxy.csv");
        let relay =
            format!("{own} lab relay --listen 0.0.0.0:7008 --to 100.64.78.4:7008 --times {log}");
        let relay = case.receive_buffer.map_or(format!("1={relay}"), |size| {
            let bytes = size.0;
            // A connection begins with the second value, and its window's scale follows from the
            // third.
            let set = format!("echo 4096 {bytes} {bytes} > /proc/sys/net/ipv4/tcp_rmem");
            format!("1=/bin/sh -c '{set} && exec {relay}'")
        });
        let mut client = vec![
            own.clone(),
            "traffic".into(),
            "client".into(),
            "100.64.78.2".into(),
        ];
        match case.rate.as_str() {
            "bulk" => {}
            rate => client.extend(["--workload", "cbr", "--rate", rate].map(str::to_owned)),
        }
        let more = format!("--duration {seconds}s --stall 120s --drain {drain}s --json");
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

/// Adds the table and the figures of a case.
fn add(outcome: &mut Outcome, case: &Case, report: &DelayReport) {
    let s = &report.segments;
    let parts = [
        ("d1, server to phone", &s.d1),
        ("d2, the phone's TCP", &s.d2),
        ("d3, its proxy", &s.d3),
        ("d4, to the watch", &s.d4),
        ("all", &report.total),
    ];
    let mut table = SheetTable {
        title: case.key("Delays over bytes, s"),
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
    let total = report.total.as_ref();
    let longest = total.map(|t| t.max_s);
    let median = total.map(|t| t.median_s);
    let more = [mean(&report.total), longest, share, median];
    let values = means.into_iter().chain(more);
    let keys = KEYS.map(|figure| case.key(figure)).into_iter();
    outcome.figures.extend(keys.zip(values));
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

    fn parts(text: &str) -> Parts {
        toml::from_str(&format!("seconds = 2\nbluetooth = \"1 Mbit/s\"\n{text}")).unwrap()
    }

    #[test]
    fn figures_of_cases_have_their_names() {
        let case = |name: &str| {
            format!("[[case]]\nname = \"{name}\"\nrate = \"bulk\"\nreceive_buffer = \"2 MB\"\n")
        };
        let two = parts(&format!("{}{}", case("a"), case("b")));
        assert_eq!(two.check(), Ok(()));
        assert_eq!((two.keys().len(), &*two.keys()[9]), (16, "b: d2_s"));
        for (text, words) in [
            (format!("{}{}", case("a"), case("a")), "two cases"),
            (case("a").replace("2 MB", "2 kB"), "from 64 KiB"),
            (case("a").replace("bulk", "fast"), "fast"),
        ] {
            let e = parts(&text).check().unwrap_err();
            assert!(e.contains(words), "{text}: {e}");
        }
    }

    #[test]
    fn times_are_moved() {
        let log = "time_s,event,bytes\n1700000001.500000,read,3\n";
        let moved = since(log, 1_700_000_000_250_000_000).unwrap();
        assert_eq!(moved, "time_s,event,bytes\n1.250000000,read,3\n");
        assert!(since("time_s,event,bytes\nx\n", 0).is_err());
        assert!(since(log, 1_800_000_000_000_000_000).is_err());
    }
}
