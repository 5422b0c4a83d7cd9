//! Method traces.

use std::time::Duration;

use mpbond_systrace::{FunctionGroups, FunctionProfile, MethodCounts, Summary, open, read};

use super::{events, sample, summary};

fn profile(name: &str) -> Option<FunctionProfile> {
    let path = sample(name)?;
    let mut p = FunctionProfile::new(Duration::ZERO, FunctionGroups::shipped());
    read(open(&path).unwrap(), &mut p).unwrap();
    p.finish();
    Some(p)
}

#[test]
fn streaming_by_art() {
    const FILE: &str = "art-trace/gracker_cpu-art_wangzherongyao.trace";
    let Some(s) = summary(FILE) else { return };
    assert_eq!(s.format, "method-trace-streaming");
    let m = s.methods.unwrap();
    assert_eq!((m.records, m.distinct, m.threads), (85_129, 1_185, 11));
    events(&s, &[("enter", 42_570), ("exit", 42_559)]);
    assert_eq!(s.incomplete, None);
    let p = profile(FILE).unwrap();
    assert_eq!(p.mismatched_returns(), 28);
    let top = &p.functions()[0];
    assert!(
        top.name
            .starts_with("com.unity3d.player.UnityPlayer.nativeRender(")
    );
    assert_eq!(top.exclusive_us, 1_031_747);
}

#[test]
fn classic_by_art() {
    const FILE: &str = "art-trace/ffprofiler_art-trace-regular.trace.gz";
    let Some(s) = summary(FILE) else { return };
    assert_eq!(s.format, "method-trace");
    assert_eq!(
        s.methods,
        Some(MethodCounts {
            records: 13_295,
            distinct: 2_067,
            distinct_listed: 2_066,
            threads: 40,
            threads_listed: 66
        })
    );
    events(&s, &[("enter", 6_777), ("exit", 6_518)]);
    assert_eq!(s.header["elapsed-time-usec"], "6365893");
    assert_eq!(s.incomplete, None);
    let top = &profile(FILE).unwrap().functions()[0];
    assert!(top.name.contains("GeckoLoader.nativeRun("), "{}", top.name);
    assert_eq!(top.exclusive_us, 3_356_758);
}

#[test]
fn classic_by_dalvik() {
    const FILE: &str = "art-trace/jag_dalvik_dmtrace.trace";
    let Some(s) = summary(FILE) else { return };
    assert_eq!(
        s.methods,
        Some(MethodCounts {
            records: 4_115,
            distinct: 101,
            distinct_listed: 101,
            threads: 1,
            threads_listed: 12
        })
    );
    assert_eq!(s.header["vm"], "dalvik");
    assert_eq!(s.incomplete, None);
}

#[test]
fn overhead_is_subtracted_and_times_stay_positive() {
    let Some(path) = sample("art-trace/jag_dalvik_dmtrace.trace") else {
        return;
    };
    let total = |us| {
        let mut p = FunctionProfile::new(Duration::from_micros(us), FunctionGroups::shipped());
        read(open(&path).unwrap(), &mut p).unwrap();
        p.finish();
        p.exclusive_total()
    };
    assert!(total(0) > total(1));
    assert!(total(1) > total(4));
    assert_eq!(total(u64::MAX), 0);
}

#[test]
fn truncation_at_any_byte_is_reported() {
    let Some(path) = sample("art-trace/jag_dalvik_dmtrace.trace") else {
        return;
    };
    let whole = std::fs::read(path).unwrap();
    for n in (0..whole.len()).step_by(211) {
        match Summary::of(&whole[..n]) {
            Ok(s) => assert!(s.incomplete.is_some(), "cut at {n}"),
            Err(e) => assert!(e.offset <= n as u64, "cut at {n}: {e}"),
        }
    }
    let Some(path) = sample("art-trace/gracker_cpu-art_wangzherongyao.trace") else {
        return;
    };
    let whole = std::fs::read(path).unwrap();
    for n in (0..300).chain((600..whole.len()).step_by(200_003)) {
        match Summary::of(&whole[..n]) {
            Ok(s) => assert!(s.incomplete.is_some(), "cut at {n}"),
            Err(e) => assert!(e.offset <= n as u64, "cut at {n}: {e}"),
        }
    }
}

#[test]
fn unknown_versions_are_refused() {
    let mut bytes = b"SLOW\xf5\x00\x20\x00".to_vec();
    bytes.resize(64, 0);
    let e = Summary::of(bytes.as_slice()).unwrap_err();
    assert!(e.to_string().contains("version 0xf5"), "{e}");
}

#[test]
fn no_function_has_less_time_with_its_callees_than_alone() {
    for file in [
        "art-trace/gracker_cpu-art_wangzherongyao.trace",
        "art-trace/ffprofiler_art-trace-regular.trace.gz",
        "art-trace/jag_dalvik_dmtrace.trace",
    ] {
        let Some(path) = sample(file) else { return };
        for overhead_ns in [900, 2_500, 4_000, 100_000] {
            let overhead = Duration::from_nanos(overhead_ns);
            let mut p = FunctionProfile::new(overhead, FunctionGroups::shipped());
            read(open(&path).unwrap(), &mut p).unwrap();
            p.finish();
            for f in p.functions() {
                assert!(f.inclusive_ns >= f.exclusive_ns, "{file}: {f:?}");
            }
            assert_eq!(p.clamped().ns > 0, p.clamped().functions > 0);
        }
    }
}
