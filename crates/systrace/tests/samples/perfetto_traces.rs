//! Perfetto traces.

use mpbond_systrace::{Clock, ClockMap, ClockReading, Sink, Summary, open, read};

use super::{busy, events, near, sample, summary};

#[test]
fn single_events() {
    let Some(s) = summary("perfetto/ms_cpu_sampling_not_scoped.pftrace") else {
        return;
    };
    assert_eq!(s.format, "perfetto");
    assert_eq!(s.other_records["packet"], 2_462);
    assert_eq!(s.events.values().sum::<u64>(), 63_915);
    events(
        &s,
        &[
            ("sched_switch", 24_698),
            ("sched_wakeup", 15_470),
            ("sched_waking", 15_470),
            ("cpu_idle", 8_032),
        ],
    );
    assert_eq!(s.samples, Some(742));
    busy(&s, &[(0, 41.90), (1, 43.95), (2, 42.21), (3, 44.18)]);
    near(s.tlp.unwrap(), 3.1743, 5e-5);
    assert_eq!(s.incomplete, None);
}

#[test]
fn compact_switches_give_the_same_result() {
    let (Some(single), Some(compact)) = (
        summary("perfetto/ms_cpu_sampling_not_scoped.pftrace"),
        summary("perfetto/derived_compact_sched_cpu_sampling.pftrace"),
    ) else {
        return;
    };
    assert_eq!(compact.other_records["packet"], 2_462);
    assert_eq!(compact.events, single.events);
    assert_eq!(compact.incomplete, None);
    near(compact.tlp.unwrap(), single.tlp.unwrap(), 1e-9);
    assert_eq!(compact.cpus, single.cpus);
}

#[test]
fn markers_among_unknown_packets() {
    let Some(s) = summary("perfetto/nowinandroid_fork.perfetto-trace") else {
        return;
    };
    assert_eq!(s.other_records["packet"], 7_676);
    assert_eq!(s.events.values().sum::<u64>(), 6_246);
    events(&s, &[("print", 6_246)]);
    assert_eq!(s.tlp, None);
    assert_eq!(s.incomplete, None);
}

#[test]
fn clock_snapshots_relate_clocks() {
    #[derive(Default)]
    struct Clocks(Vec<ClockReading>);
    impl Sink for Clocks {
        fn clock(&mut self, reading: ClockReading) {
            self.0.push(reading);
        }
    }
    let Some(path) = sample("perfetto/ms_cpu_sampling_not_scoped.pftrace") else {
        return;
    };
    let mut clocks = Clocks::default();
    read(open(&path).unwrap(), &mut clocks).unwrap();
    let first = |clock| {
        let of = |r: &&ClockReading| r.snapshot == 1 && r.clock == clock;
        clocks.0.iter().find(of).unwrap().ns
    };
    // Read one after the other, on a device that had not slept.
    assert!(first(Clock::Boot).abs_diff(first(Clock::Monotonic)) < 1_000_000);
    // Some time after 2020.
    assert!(first(Clock::Realtime) > 1_577_836_800_000_000_000);
    let map = ClockMap::new(&clocks.0);
    let boot = first(Clock::Boot) + 5_000;
    let real = map.convert(boot, Clock::Trace, Clock::Realtime).unwrap();
    assert_eq!(real, first(Clock::Realtime) + 5_000);
}

#[test]
fn truncation_is_reported_and_never_panics() {
    let Some(path) = sample("perfetto/derived_compact_sched_cpu_sampling.pftrace") else {
        return;
    };
    let whole = std::fs::read(path).unwrap();
    // Every byte of the first packets, then samples of the rest.
    let cuts = (1..2_000).chain((4_000..whole.len()).step_by(300_013));
    let mut said = 0;
    for n in cuts {
        match Summary::of(&whole[..n]) {
            Ok(s) => {
                if let Some(why) = s.incomplete {
                    assert!(why.contains("inside a packet"), "{n}: {why}");
                    said += 1;
                }
            }
            Err(e) => assert!(n < 16, "cut at {n}: {e}"),
        }
    }
    assert!(said > 1_900, "{said}");
}

#[test]
fn reading_continues_after_damaged_packets() {
    let Some(path) = sample("perfetto/ms_cpu_sampling_not_scoped.pftrace") else {
        return;
    };
    let mut bytes = std::fs::read(path).unwrap();
    let mut seed = 12345u64;
    for _ in 0..200 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let at = 5_000 + (seed >> 20) as usize % (bytes.len() - 5_000);
        bytes[at] ^= 1 << (seed >> 60 & 7);
    }
    let s = Summary::of(bytes.as_slice()).unwrap();
    assert!(s.incomplete.is_some());
}

#[test]
fn compressed_packets_are_read() {
    use std::io::Write;
    let Some(path) = sample("perfetto/derived_compact_sched_cpu_sampling.pftrace") else {
        return;
    };
    let whole = std::fs::read(path).unwrap();
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    zlib.write_all(&whole).unwrap();
    let packed = zlib.finish().unwrap();
    let varint = |mut v: usize| {
        let mut out = Vec::new();
        while v >= 0x80 {
            out.push(v as u8 | 0x80);
            v >>= 7;
        }
        out.push(v as u8);
        out
    };
    // TracePacket { compressed_packets (50): packed } as field 1 of Trace.
    let mut packet = varint(50 << 3 | 2);
    packet.extend(varint(packed.len()));
    packet.extend(&packed);
    let mut file = vec![0x0a];
    file.extend(varint(packet.len()));
    file.extend(&packet);
    let inner = Summary::of(file.as_slice()).unwrap();
    assert_eq!(inner, Summary::of(whole.as_slice()).unwrap());

    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&whole).unwrap();
    let outer = Summary::of(gzip.finish().unwrap().as_slice()).unwrap();
    assert_eq!(inner, outer);
}
