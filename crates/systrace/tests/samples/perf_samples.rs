//! perf and simpleperf profiles.

use std::collections::BTreeMap;

use mpbond_systrace::{
    Microarch, Sample, SampledFunctions, SampledProfile, Sink, Summary, open, read,
};

use super::{events, sample, summary};

#[derive(Default)]
struct Counts {
    frames: u64,
    names: BTreeMap<u64, String>,
    comms: BTreeMap<String, u64>,
    leaves: BTreeMap<u64, u64>,
    counters: Vec<(String, u64)>,
}

impl Sink for Counts {
    fn sample(&mut self, s: &Sample<'_>) {
        self.frames += s.frames.len() as u64;
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        *self.comms.entry(text(s.comm)).or_default() += 1;
        if let Some(leaf) = s.frames.first() {
            *self.leaves.entry(*leaf).or_default() += 1;
        }
    }

    fn symbol(&mut self, frame: u64, name: &str) {
        self.names.insert(frame, name.to_owned());
    }

    fn counter(&mut self, c: &Sample<'_>) {
        self.counters.push((c.event.to_owned(), c.period.unwrap()));
    }
}

impl Counts {
    /// Number of samples whose innermost frame has this symbol.
    fn leaf(&self, symbol: &str) -> u64 {
        let of_symbol = |(frame, _): &(&u64, &u64)| self.names[frame] == symbol;
        let leaves = self.leaves.iter().filter(of_symbol);
        leaves.map(|(_, n)| n).sum()
    }
}

fn counts(name: &str) -> Option<Counts> {
    let mut c = Counts::default();
    read(open(&sample(name)?).unwrap(), &mut c).unwrap();
    Some(c)
}

fn functions(name: &str) -> Option<SampledFunctions> {
    let mut s = SampledProfile::default();
    read(open(&sample(name)?).unwrap(), &mut s).unwrap();
    Some(s.functions(None).unwrap())
}

/// Function, own samples, samples with callees: counted by an independent script where the format
/// is text.
#[track_caller]
fn hot(file: &str, list: &[(&str, u64, u64)]) {
    let Some(f) = functions(file) else { return };
    for (name, own, with_callees) in list {
        let row = f.functions.iter().find(|f| f.name == *name);
        let row = row.unwrap_or_else(|| panic!("{file}: {name}"));
        assert_eq!(
            (row.exclusive_samples, row.inclusive_samples),
            (*own, *with_callees),
            "{file}: {name}"
        );
    }
    let own: u64 = f.functions.iter().map(|f| f.exclusive_samples).sum();
    assert_eq!(own + f.without_stack, f.samples, "{file}");
}

#[test]
fn hot_functions() {
    hot(
        "perf/flamegraph_perf-iperf-stacks-pidtid-01.txt",
        &[
            ("xen_hypercall_xen_version", 67, 67),
            ("copy_user_enhanced_fast_string", 44, 44),
            ("tcp_sendmsg", 0, 97),
            ("entry_SYSCALL_64_fastpath", 0, 186),
        ],
    );
    // Symbols follow the samples that refer to them.
    hot(
        "perf/ffprofiler_simpleperf-task-clock.trace.gz",
        &[("[kernel.kallsyms]", 301, 301)],
    );
    // Names of C++ functions.
    hot(
        "perf/speedscope_system-wide.linux-perf.txt",
        &[("delta()", 23, 72)],
    );
    // Frames are ids defined by packets of the same sequence.
    hot(
        "perfetto/ms_cpu_sampling_not_scoped.pftrace",
        &[("transfer_max_buffers", 179, 187), ("read_hpet", 153, 160)],
    );
}

#[test]
fn with_process_thread_and_cpu() {
    const FILE: &str = "perf/flamegraph_perf-iperf-stacks-pidtid-01.txt";
    let (Some(s), Some(c)) = (summary(FILE), counts(FILE)) else {
        return;
    };
    assert_eq!(s.format, "perf-script");
    assert_eq!(s.samples, Some(201));
    events(&s, &[("cpu-clock", 201)]);
    assert_eq!(s.incomplete, None);
    assert_eq!(c.frames, 3_207);
    assert_eq!(c.comms["iperf"], 198);
    assert_eq!(c.leaf("xen_hypercall_xen_version"), 67);
    assert_eq!(c.leaf("copy_user_enhanced_fast_string"), 44);
}

#[test]
fn with_two_hardware_events() {
    const FILE: &str = "perf/flamegraph_perf-cycles-instructions-01.txt";
    let (Some(s), Some(c)) = (summary(FILE), counts(FILE)) else {
        return;
    };
    events(&s, &[("instructions", 333), ("cycles", 111)]);
    assert_eq!(c.comms["noploop"], 344);
    // The header has a fixed period, the same for both events.
    let mut m = Microarch::default();
    read(open(&sample(FILE).unwrap()).unwrap(), &mut m).unwrap();
    assert_eq!(m.unweighted(), 0);
    let sum = |event: &str| -> u64 { m.by_task().iter().filter_map(|r| r.counts.get(event)).sum() };
    assert_eq!(sum("cycles"), 111 * 100_000_000);
    assert_eq!(sum("instructions"), 333 * 100_000_000);
}

#[test]
fn without_times() {
    const FILE: &str = "perf/flamegraph_perf-vertx-stacks-01.txt";
    let (Some(s), Some(c)) = (summary(FILE), counts(FILE)) else {
        return;
    };
    assert_eq!(s.samples, Some(286));
    assert_eq!(c.frames, 9_397);
    assert_eq!(s.incomplete, None);
}

#[test]
fn system_wide_and_with_full_header() {
    const WIDE: &str = "perf/speedscope_system-wide.linux-perf.txt";
    if let (Some(s), Some(c)) = (summary(WIDE), counts(WIDE)) {
        assert_eq!(s.samples, Some(556));
        assert_eq!(c.comms["swapper"], 418);
    }
    const FULL: &str = "perf/ffprofiler_graphviz.perf.gz";
    if let (Some(s), Some(c)) = (summary(FULL), counts(FULL)) {
        events(&s, &[("cycles", 312)]);
        assert_eq!(c.frames, 4_483);
        assert_eq!(s.header["nrcpus online"], "4");
    }
}

#[test]
fn simpleperf_report() {
    let Some(s) = summary("perf/ffprofiler_simpleperf-task-clock.trace.gz") else {
        return;
    };
    assert_eq!(s.format, "simpleperf");
    assert_eq!(s.other_records["record"], 3_447);
    assert_eq!(s.samples, Some(2_110));
    assert_eq!(s.incomplete, None);
}

#[test]
fn truncated_text_never_panics() {
    let Some(path) = sample("perf/flamegraph_perf-cycles-instructions-01.txt") else {
        return;
    };
    let whole = std::fs::read(path).unwrap();
    for n in (0..whole.len()).step_by(1_499) {
        match Summary::of(&whole[..n]) {
            Ok(s) => {
                let line_end = whole[..n].ends_with(b"\n");
                assert!(s.incomplete.is_some() || line_end, "cut at {n}");
            }
            Err(e) => assert!(n < 3_000, "cut at {n}: {e}"),
        }
    }
}

/// A perf.data of two events in one group: cycles leads, instructions is read
/// with it.
fn perf_data() -> Vec<u8> {
    let words = |list: &[u64]| -> Vec<u8> { list.iter().flat_map(|w| w.to_le_bytes()).collect() };
    // IP, TID, TIME, READ, ID, PERIOD; READ has the ids of the whole group.
    let sample_type = 1 | 2 | 4 | 16 | 64 | 256u64;
    let attr = |config: u64, ids_at: u64| {
        let mut a = 0u32.to_le_bytes().to_vec();
        a.extend(112u32.to_le_bytes());
        a.extend(words(&[config, 1_000, sample_type, 4 | 8, 1 << 10]));
        a.resize(112, 0);
        a.extend(words(&[ids_at, 8]));
        a
    };
    let record = |kind: u32, body: &[u8]| {
        let mut r = kind.to_le_bytes().to_vec();
        r.extend(((body.len() as u32 + 8) << 16).to_le_bytes());
        r.extend(body);
        r
    };
    let sample = |time: u64, period: u64, cycles: u64, instructions: u64| {
        let ids = 41u64 << 32 | 40;
        record(
            9,
            &words(&[0x1000, ids, time, 7, period, 2, cycles, 7, instructions, 8]),
        )
    };
    let mut data = Vec::new();
    let mut comm = 40u32.to_le_bytes().to_vec();
    comm.extend(41u32.to_le_bytes());
    comm.extend(b"worker\0\0");
    data.extend(record(3, &comm));
    data.extend(sample(1_000, 500, 500, 200));
    data.extend(sample(2_000, 700, 1_200, 450));
    data.extend(record(2, &words(&[7, 5])));

    let (ids_at, attrs_at) = (104u64, 120u64);
    let data_at = attrs_at + 2 * 128;
    let mut file = b"PERFILE2".to_vec();
    file.extend(words(&[
        104,
        128,
        attrs_at,
        256,
        data_at,
        data.len() as u64,
        0,
        0,
        0,
        0,
        0,
        0,
    ]));
    assert_eq!(file.len() as u64, ids_at);
    file.extend(words(&[7, 8]));
    file.extend(attr(0, ids_at));
    file.extend(attr(1, ids_at + 8));
    file.extend(data);
    file
}

#[test]
fn perf_data_with_an_event_group() {
    let file = perf_data();
    let s = Summary::of(file.as_slice()).unwrap();
    assert_eq!(s.format, "perf.data");
    assert_eq!(s.samples, Some(2));
    events(&s, &[("cycles", 2)]);
    assert_eq!(s.incomplete.as_deref(), Some("5 events lost"));
    let mut c = Counts::default();
    read(file.as_slice(), &mut c).unwrap();
    assert_eq!(c.comms["worker"], 2);
    assert_eq!(
        c.counters,
        vec![("instructions".into(), 200), ("instructions".into(), 250)]
    );
    let mut m = Microarch::default();
    read(file.as_slice(), &mut m).unwrap();
    let row = &m.by_process()[0];
    assert_eq!(row.id, 40);
    assert_eq!(row.cpi, Some(1_200.0 / 450.0));
    for n in 0..file.len() {
        match Summary::of(&file[..n]) {
            Ok(s) => assert!(s.incomplete.is_some(), "cut at {n}"),
            Err(e) => assert!(!e.to_string().is_empty()),
        }
    }
}

/// The form of simpleperf's `report_sample.py`.
#[test]
fn simpleperf_text() {
    let text = "com.example.application\t2345 [003] 11.000250:\t\t250000 cpu-cycles:\n\
        \t        7f5a1c2040 art::Heap::Allocate (libart.so)\n\
        \t        7f5a1c1000 com.example.Main.onCreate (base.apk)\n\n\
        RenderThread\t2360 [001] 11.000500:\t\t100000 cpu-cycles:\n\
        \t        7f5a1c9000 unknown (libGLES.so)\n\n\
        RenderThread\t2360 [001] 11.000500:\t\t50000 instructions:\n\
        \t        7f5a1c9000 unknown (libGLES.so)\n\n";
    let s = Summary::of(text.as_bytes()).unwrap();
    assert_eq!((s.format.as_str(), s.samples), ("perf-script", Some(3)));
    assert_eq!(s.incomplete, None);
    let mut sink = (SampledProfile::default(), Microarch::default());
    read(text.as_bytes(), &mut sink).unwrap();
    let functions = sink.0.functions(None).unwrap();
    assert_eq!(
        (functions.event.as_str(), functions.samples),
        ("cpu-cycles", 2)
    );
    let found: Vec<_> = (functions.functions.iter())
        .map(|f| (f.name.as_str(), f.exclusive_samples, f.inclusive_samples))
        .collect();
    assert!(found.contains(&("art::Heap::Allocate", 1, 1)), "{found:?}");
    assert!(
        found.contains(&("com.example.Main.onCreate", 0, 1)),
        "{found:?}"
    );
    assert!(found.contains(&("[libGLES.so]", 1, 1)), "{found:?}");
    let cpi: Vec<_> = sink.1.by_task().iter().map(|r| (r.id, r.cpi)).collect();
    assert_eq!(cpi, [(2345, None), (2360, Some(2.0))]);
}
