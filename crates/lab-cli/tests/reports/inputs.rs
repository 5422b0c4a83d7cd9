//! Reports and pictures of each kind, made by the program from inputs that are always the same.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use mpbond_testing::{free_address, sample};
use serde_json::{Value, json};

use crate::LAB;

/// As a user might call it.
const LONG_NAME: &str = "two devices, the second one a telephone in the next room behind two \
     walls, a cupboard and a mirror, on a Sunday afternoon";

/// Two devices on links of 8 and 10 Mbit/s with a pipe of 5.
fn experiment_file() -> String {
    let mut text = String::from(
        "name = \"two\"\n\
         title = \"A laptop, and a telephone that shares its link\"\n\
         parameter = \"number of devices\"\n",
    );
    for (name, more) in [
        ("primary", ""),
        ("helper", ""),
        ("proxy", "address = \"203.0.113.1\"\n"),
        ("origin", "address = \"198.51.100.1\"\n"),
    ] {
        let _ = write!(
            text,
            "[[host]]\nname = \"{name}\"\nrole = \"{name}\"\n{more}"
        );
    }
    for (name, from, to, rate) in [
        ("lte", "primary", "proxy", 8),
        ("helper-lte", "helper", "proxy", 10),
        ("pipe", "primary", "helper", 5),
    ] {
        let _ = write!(
            text,
            "[[link]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\n\
             down = \"{rate} Mbit/s\"\nup = \"{rate} Mbit/s\"\ndelay = \"20ms\"\n"
        );
    }
    text += "[[link]]\nname = \"core\"\nfrom = \"proxy\"\nto = \"origin\"\n";
    for (name, scheduler, devices) in [
        ("one device", "mpbond", 1),
        (LONG_NAME, "mpbond", 2),
        ("min-rtt", "min-rtt", 2),
    ] {
        let _ = write!(
            text,
            "[[scheme]]\nname = \"{name}\"\nscheme = \"mpbond\"\nscheduler = \"{scheduler}\"\n\
             devices = {devices}\ninterception = \"socks5\"\nparameter = {devices}\n\
             series = \"{scheduler}\"\n"
        );
    }
    for (name, bytes) in [
        ("1 MB", "1 MB"),
        ("a film in the best quality of all", "4 MB"),
    ] {
        let _ = write!(
            text,
            "[[workload]]\nname = \"{name}\"\ndirection = \"down\"\nbytes = \"{bytes}\"\n"
        );
    }
    text += "[[energy]]\nname = \"LTE of 2012\"\nwwan = \"lte-2012\"\npipe = \"wifi-s4\"\n\
             [[assert]]\nscheme = \"one device\"\nmax_seconds = 60.0\n\
             [[paper]]\nfigure = \"Fig. 9\"\nscheme = \"min-rtt\"\nversus = \"one device\"\n\
             quantity = \"seconds\"\nchange_percent = [-60, -10]\nnote = \"on old telephones\"\n";
    text
}

/// Record of an experiment in virtual time.
pub fn experiment(folder: &Path) -> PathBuf {
    let (file, record) = (folder.join("two.toml"), folder.join("two.json"));
    std::fs::write(&file, experiment_file()).unwrap();
    let [file, out] = [&file, &record].map(|path| path.to_str().unwrap());
    LAB.ok(&["lab", "simulate", file, "--seeds", "12", "--json", out]);
    record
}

/// The same of a machine on which no link kept its times.
pub fn busy(folder: &Path) -> PathBuf {
    let record = experiment(folder);
    let text = std::fs::read_to_string(&record).unwrap();
    let mut value: Value = serde_json::from_str(&text).unwrap();
    value.as_object_mut().unwrap().remove("simulated");
    for transfer in value["transfers"].as_array_mut().unwrap() {
        transfer["fit"] = false.into();
        transfer["unfit_because"] = "packets left the links up to 31 ms late".into();
    }
    std::fs::write(&record, value.to_string()).unwrap();
    record
}

/// The record of a measurement without transfers.
fn measurement() -> Value {
    json!({
        "measure": "probe", "experiment": "sleeps", "title": "A bus that sleeps",
        "date": "2026-01-01T00:00:00Z", "commit": "c0ffee", "kernel": "6.1",
        "checks": [
            { "what": "median of what the kernel adds", "wanted": "11 to 20 ms", "got": "12.4 ms",
                "holds": true },
            { "what": "the same, awake", "wanted": "at most 8 ms", "got": "9.1 ms",
                "holds": false },
            { "what": "the same, of a card", "wanted": "at most 8 ms", "got": "-",
                "holds": null },
        ],
        "paper": [{ "figure": "Figure 8", "what": "what the kernel adds", "published": "12 ms",
            "ours": "12.4 ms" }],
        "tables": [{
            "title": "Round trips", "note": "Medians over all probes, in ms.", "words": [0],
            "header": ["case", "of the program", "of the kernel", "on the wire"],
            "rows": [["asleep", "33.1", "32.9", "20.5"], [LONG_NAME, "21.3", "21.0", "20.4"]],
        }],
        "notes": ["The machine had no time left for 3 of 200 probes."],
        "file": "measure = \"probe\"\n",
    })
}

/// The page of a record, and of a measurement.
pub fn report(folder: &Path, name: &str, record: &Path) -> PathBuf {
    let (sheet, page) = (
        folder.join("sheet.json"),
        folder.join(format!("{name}.html")),
    );
    std::fs::write(&sheet, measurement().to_string()).unwrap();
    let [record, sheet, out] = [record, &sheet, &page].map(|path| path.to_str().unwrap());
    LAB.ok(&["lab", "report", record, sheet, "--html", out]);
    page
}

/// The page over recordings of two scenarios.
pub fn suite(folder: &Path) -> PathBuf {
    let recordings = folder.join("recordings");
    std::fs::create_dir(&recordings).unwrap();
    for name in ["lch.set-1.txt", "lch.set-2.txt", "navi-1.txt"] {
        std::fs::write(recordings.join(name), switches()).unwrap();
    }
    let mut counters = String::new();
    for (event, count) in [
        ("cpu-cycles", 3_000_000),
        ("instructions", 1_000_000),
        ("raw-l1-icache-refill", 40_000),
        ("raw-itlb-refill", 5_000),
        ("raw-l1-dcache-refill", 20_000),
    ] {
        for process in ["system_server", "surfaceflinger"] {
            let head = format!("{process}\t900 [000] 5.000250:");
            let _ = writeln!(counters, "{head}\t\t{count} {event}:\n\t 1 f (x)\n");
        }
    }
    std::fs::write(recordings.join("lch.set-1.simpleperf"), counters).unwrap();
    let page = folder.join("suite.html");
    let paths = [&recordings, &page].map(|p| p.to_str().unwrap());
    LAB.ok(&["trace", "suite", paths[0], "--html", paths[1]]);
    page
}

/// The page of a trace.
pub fn trace(folder: &Path, name: &str, text: &str) -> PathBuf {
    let (file, page) = (
        folder.join(format!("{name}.txt")),
        folder.join(format!("{name}.html")),
    );
    std::fs::write(&file, text).unwrap();
    let [file, out] = [&file, &page].map(|path| path.to_str().unwrap());
    LAB.ok(&["trace", "report", file, "--html", out]);
    page
}

/// Task switches: a stall, and then many tasks on two CPUs. The first is at 50264.000020 s.
pub fn switches() -> String {
    let stall = include_str!("../../../systrace/tests/data/stalled_request.txt");
    let mut text = stall.replace(" 5.", " 50264.");
    let mut switch = |cpu: u32, us: u32, from: (u32, &str), to: (u32, &str)| {
        let ((from, was), (to, is)) = (from, to);
        let _ = writeln!(
            text,
            " {was}-{from} [{cpu:03}] d..2 50265.{us:06}: sched_switch: prev_comm={was} \
             prev_pid={from} prev_prio=120 prev_state=S ==> next_comm={is} next_pid={to} \
             next_prio=120"
        );
    };
    let name = |task: u32| match task % 3 {
        0 => "RenderThread",
        1 => "kworker/u16:7",
        _ => "Chrome_ChildIOT",
    };
    for step in 0..400 {
        let us = step * 2_000;
        let task = 1_000 + step * 7 % 40;
        let idle = (0, "swapper/0");
        for (cpu, length) in [(0, 700 + step * 3), (1, 100 + step)] {
            let task = task + cpu * 50;
            switch(cpu, us + cpu, idle, (task, name(task)));
            switch(cpu, us + cpu + length, (task, name(task)), idle);
        }
    }
    text
}

/// Samples of functions with long names, in the form of `perf script`.
pub fn samples() -> String {
    let mut text = String::new();
    for i in 0..60 {
        let long = format!(
            "std::__detail::_Hashtable<std::__cxx11::basic_string<char, std::char_traits<char> > \
             const, std::pair<unsigned long, Layer{}>, std::allocator<void> >::_M_emplace_unique",
            i % 7
        );
        let _ = writeln!(
            text,
            "java {}/{} [000] {}.{:06}: 10 cycles:\n\t7f00 {long}+0x1 (/bin/a)\n\t7f10 \
             _ZN7android14SurfaceFlinger21handleMessageRefreshEv+0x1 (/lib/b)\n\t7f20 main+0x5 \
             (/bin/a)\n",
            12 + i % 3,
            12 + i % 3,
            100 + i / 10,
            i % 10 * 90_000
        );
    }
    text
}

/// Packets of a download on a link, as the lab logs them.
fn packets() -> String {
    let mut text = String::from(
        "enqueue_ns,depart_ns,link,direction,bytes,src,dst,proto,sport,dport,dropped\n",
    );
    for i in 0..300_u64 {
        let at = i * 4_000_000 + i / 100 * 2_500_000_000;
        let _ = writeln!(
            text,
            "{at},{},lte,down,1500,203.0.113.1,10.0.0.2,6,443,40000,",
            at + 1_200_000
        );
    }
    text
}

/// Pictures of measurements on loopback.
fn measurements(folder: &Path) {
    let text = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let arguments = ["probe", &host, "--method", "syn", "-c", "40", "-i", "1ms"];
    LAB.ok(&[&arguments[..], &["--svg", &text("probe.svg")]].concat());

    let address = free_address().to_string();
    let mut server = LAB
        .command(["traffic", "server", "--listen", &address])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(server.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    let arguments = [
        "traffic",
        "client",
        &address,
        "--workload",
        "chunks",
        "--every",
        "20ms",
        "--duration",
        "1s",
        "--direction",
        "both",
    ];
    LAB.ok(&[&arguments[..], &["--svg", &text("traffic.svg")]].concat());
    server.kill().unwrap();
    server.wait().unwrap();
}

/// Pictures of the documents.
pub fn documents() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures");
    svg_files([folder.canonicalize().unwrap()])
}

/// Every kind of picture that is a file of its own.
pub fn pictures(folder: &Path) -> Vec<PathBuf> {
    let path = |name: &str| folder.join(name);
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let mut folders = Vec::new();
    for (name, content) in [("switches", switches()), ("samples", samples())] {
        let (file, out) = (path(&format!("{name}.txt")), path(name));
        std::fs::write(&file, content).unwrap();
        LAB.ok(&["trace", "report", &text(&file), "--svg", &text(&out)]);
        folders.push(out);
    }
    let (record, out) = (experiment(folder), path("experiment"));
    LAB.ok(&["lab", "report", &text(&record), "--svg", &text(&out)]);
    folders.push(out);

    let (log, energy) = (path("packets.csv"), path("energy.svg"));
    std::fs::write(&log, packets()).unwrap();
    for (profile, out) in [
        ("lte-2012", energy),
        ("lte-2020-tmobile", path("energy-2020.svg")),
    ] {
        LAB.ok(&[
            "energy",
            &text(&log),
            "--profile",
            profile,
            "--svg",
            &text(&out),
        ]);
    }
    if let Some(log) = sample("btsnoop/oppo_earbuds_1.btsnoop.log") {
        LAB.ok(&[
            "capture",
            "bt",
            &text(&log),
            "--svg",
            &text(&path("bluetooth.svg")),
        ]);
    }
    measurements(folder);
    folders.push(folder.to_owned());
    svg_files(folders)
}

fn svg_files(folders: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = Vec::new();
    for folder in folders {
        let entries = std::fs::read_dir(folder).unwrap();
        let files = entries.map(|entry| entry.unwrap().path());
        all.extend(files.filter(|file| file.extension().is_some_and(|e| e == "svg")));
    }
    all.sort();
    all
}
