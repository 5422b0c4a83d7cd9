//! trace-cmd files, versions 6 and 7.

use std::io::Read;

use mpbond_systrace::{ErrorKind, Event, Mark, Payload, Sink, Summary, read};

use super::{busy, events, near, sample, summary};

fn unpacked() -> Option<Vec<u8>> {
    let path = sample("ftrace/lisa_sched_load.trace.dat.gz")?;
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap())
        .read_to_end(&mut bytes)
        .unwrap();
    Some(bytes)
}

#[test]
fn version_6_agrees_with_trace_cmd() {
    let Some(s) = summary("ftrace/lisa_sched_load.trace.dat.gz") else {
        return;
    };
    assert_eq!(s.format, "trace.dat");
    assert_eq!(s.events.values().sum::<u64>(), 3_724);
    events(
        &s,
        &[
            ("sched_load_cfs_rq", 2_437),
            ("cpu_idle", 474),
            ("sched_switch", 399),
            ("sched_load_se", 364),
        ],
    );
    assert_eq!(s.incomplete, None);
    // The report rounds to microseconds.
    let Some(text) = summary("ftrace/lisa_sched_load.trace-cmd-report.txt") else {
        return;
    };
    assert_eq!(s.events, text.events);
    near(s.span_s, text.span_s, 2e-6);
    near(s.tlp.unwrap(), 1.2877, 1e-4);
    let shares: Vec<_> = text.cpus.iter().map(|c| (c.cpu, c.busy_percent)).collect();
    busy(&s, &shares);
}

#[test]
fn truncation_at_any_byte_never_panics() {
    let Some(whole) = unpacked() else { return };
    for n in (0..200).chain((3_000..whole.len()).step_by(70_011)) {
        match Summary::of(&whole[..n]) {
            Ok(s) => assert!(s.incomplete.is_some(), "cut at {n}"),
            Err(e) => {
                let known = matches!(
                    e.kind,
                    ErrorKind::Malformed(_) | ErrorKind::Empty | ErrorKind::UnknownFormat(_)
                );
                assert!(known && e.offset <= n as u64, "cut at {n}: {e}");
            }
        }
    }
}

#[test]
fn flipped_bits_never_panic() {
    let Some(whole) = unpacked() else { return };
    let mut seed = 7u64;
    for _ in 0..12 {
        let mut bytes = whole.clone();
        for _ in 0..20 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (seed >> 16) as usize % bytes.len();
            bytes[at] ^= 1 << (seed >> 61);
        }
        let _ = Summary::of(bytes.as_slice());
    }
}

/// A file of version 7 made here: one CPU, two switches, a mark and a timer, sections
/// compressed or not.
fn version_7(zlib: bool) -> Vec<u8> {
    use std::io::Write;
    let pack = |data: &[u8]| -> Vec<u8> {
        let mut z = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        z.write_all(data).unwrap();
        let packed = z.finish().unwrap();
        let mut out = (packed.len() as u32).to_le_bytes().to_vec();
        out.extend((data.len() as u32).to_le_bytes());
        out.extend(packed);
        out
    };
    let section = |id: u16, data: &[u8], packed: bool| -> Vec<u8> {
        let body = if packed { pack(data) } else { data.to_vec() };
        let mut out = id.to_le_bytes().to_vec();
        out.extend(u16::from(packed).to_le_bytes());
        out.extend(0u32.to_le_bytes());
        out.extend((body.len() as u64).to_le_bytes());
        out.extend(body);
        out
    };
    let sized = |text: &str| {
        let mut out = (text.len() as u64).to_le_bytes().to_vec();
        out.extend(text.as_bytes());
        out
    };
    let common = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\tfield:int \
    common_pid;\toffset:4;\tsize:4;\tsigned:1;\n";
    let switch = format!(
        "name: sched_switch\nID: 300\nformat:\n{common}\tfield:char prev_comm[4];\toffset:8;\t\
         size:4;\tsigned:0;\n\tfield:pid_t prev_pid;\toffset:12;\tsize:4;\tsigned:1;\n\t\
         field:long prev_state;\toffset:16;\tsize:8;\tsigned:1;\n\tfield:char next_comm[4];\t\
         offset:24;\tsize:4;\tsigned:0;\n\tfield:pid_t next_pid;\toffset:28;\tsize:4;\tsigned:1;\n\
         \tfield:int next_prio;\toffset:32;\tsize:4;\tsigned:1;\n"
    );
    let print = format!(
        "name: print\nID: 5\nformat:\n{common}\tfield:char buf[];\toffset:8;\tsize:0;\tsigned:0;\n"
    );
    let timer = format!(
        "name: hrtimer_expire_entry\nID: 301\nformat:\n{common}\tfield:void * hrtimer;\toffset:8;\
         \tsize:8;\tsigned:0;\n\tfield:s64 now;\toffset:16;\tsize:8;\tsigned:1;\n\tfield:void * \
         function;\toffset:24;\tsize:8;\tsigned:0;\n"
    );
    let symbols = "ffffffff81000100 t tick_sched_timer\nffffffff81000200 t hrtimer_wakeup\n";
    let mut kallsyms = (symbols.len() as u32).to_le_bytes().to_vec();
    kallsyms.extend(symbols.as_bytes());
    let mut header = b"header_page\0".to_vec();
    header.extend(sized(
        "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t \
    commit;\toffset:8;\tsize:8;\tsigned:1;\n\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\
    \n",
    ));
    header.extend(b"header_event\0");
    header.extend(sized(""));
    let mut ftrace = 1u32.to_le_bytes().to_vec();
    ftrace.extend(sized(&print));
    let mut formats = 1u32.to_le_bytes().to_vec();
    formats.extend(b"sched\0");
    formats.extend(2u32.to_le_bytes());
    formats.extend(sized(&switch));
    formats.extend(sized(&timer));

    let record = |prev: u32, next: u32| {
        let mut r = 300u16.to_le_bytes().to_vec();
        r.extend([0, 0]);
        r.extend(prev.to_le_bytes());
        r.extend(b"p\0\0\0");
        r.extend(prev.to_le_bytes());
        r.extend(1u64.to_le_bytes());
        r.extend(b"n\0\0\0");
        r.extend(next.to_le_bytes());
        r.extend(120u32.to_le_bytes());
        r
    };
    let mut entries = Vec::new();
    let mut entry = |delta: u32, data: &[u8]| {
        entries.extend((delta << 5 | (data.len() as u32 / 4)).to_le_bytes());
        entries.extend(data);
    };
    entry(0, &record(0, 9));
    let mut mark = 5u16.to_le_bytes().to_vec();
    mark.extend([0, 0]);
    mark.extend(9u32.to_le_bytes());
    mark.extend(b"B|9|work\0\0\0\0");
    entry(10, &mark);
    // A time extension of 2^27 ns, then the second switch.
    entries.extend((30u32 | 5 << 5).to_le_bytes());
    entries.extend(1u32.to_le_bytes());
    let mut entry = |delta: u32, data: &[u8]| {
        entries.extend((delta << 5 | (data.len() as u32 / 4)).to_le_bytes());
        entries.extend(data);
    };
    entry(0, &record(9, 0));
    let mut expiry = 301u16.to_le_bytes().to_vec();
    expiry.extend([0; 6]);
    expiry.extend([0; 16]);
    expiry.extend(0xffff_ffff_8100_0204u64.to_le_bytes());
    entry(1, &expiry);
    let mut page = 1_000_000u64.to_le_bytes().to_vec();
    page.extend((entries.len() as u64).to_le_bytes());
    page.extend(entries);
    page.resize(4096, 0);
    let data = if zlib {
        let mut out = 1u32.to_le_bytes().to_vec();
        out.extend(pack(&page));
        out
    } else {
        page
    };

    let mut file = b"\x17\x08\x44tracing7\0\x00\x08".to_vec();
    file.extend(4096u32.to_le_bytes());
    file.extend(if zlib { b"zlib\0" } else { b"none\0" });
    file.extend(b"1\0");
    let options_at = file.len();
    file.extend([0; 8]);
    let mut options = Vec::new();
    for (id, body) in [
        (16u16, &header),
        (17, &ftrace),
        (18, &formats),
        (19, &kallsyms),
    ] {
        options.extend(id.to_le_bytes());
        options.extend(8u32.to_le_bytes());
        options.extend((file.len() as u64).to_le_bytes());
        file.extend(section(id, body, zlib));
    }
    let buffer = file.len() as u64;
    let mut head = section(3, &[], false);
    head[2] = u8::from(zlib);
    head[8..16].copy_from_slice(&(data.len() as u64).to_le_bytes());
    file.extend(head);
    let place = file.len() as u64;
    let size = data.len() as u64 - if zlib { 4 } else { 0 };
    file.extend(data);
    let mut option = buffer.to_le_bytes().to_vec();
    option.extend(b"\0mono\0");
    option.extend(4096u32.to_le_bytes());
    option.extend(1u32.to_le_bytes());
    option.extend(3u32.to_le_bytes());
    option.extend(place.to_le_bytes());
    option.extend(size.to_le_bytes());
    options.extend(3u16.to_le_bytes());
    options.extend((option.len() as u32).to_le_bytes());
    options.extend(option);
    options.extend(0u16.to_le_bytes());
    options.extend(8u32.to_le_bytes());
    options.extend(0u64.to_le_bytes());
    let at = file.len() as u64;
    file[options_at..options_at + 8].copy_from_slice(&at.to_le_bytes());
    file.extend(section(0, &options, zlib));
    file
}

#[test]
fn version_7_plain_and_compressed() {
    #[derive(Default)]
    struct Seen(Vec<(u64, u32, String)>);
    impl Sink for Seen {
        fn event(&mut self, e: &Event<'_>) {
            let what = match e.payload {
                Payload::Mark(Mark::Begin { name, .. }) => {
                    String::from_utf8_lossy(name).into_owned()
                }
                Payload::Timer { function } => String::from_utf8_lossy(function).into_owned(),
                Payload::Switch(s) => format!("{:?}>{}", s.prev_pid, s.next_pid),
                _ => String::new(),
            };
            self.0.push((e.time.as_nanos(), e.cpu, what));
        }
    }
    for zlib in [false, true] {
        let file = version_7(zlib);
        let mut seen = Seen::default();
        read(file.as_slice(), &mut seen).unwrap();
        let last = 1_000_000 + 10 + (1 << 27) + 5;
        assert_eq!(
            seen.0,
            vec![
                (1_000_000, 3, "Some(0)>9".into()),
                (1_000_010, 3, "work".into()),
                (last, 3, "Some(9)>0".into()),
                (last + 1, 3, "hrtimer_wakeup".into()),
            ]
        );
        let s = Summary::of(file.as_slice()).unwrap();
        assert_eq!(s.incomplete, None);
        assert_eq!(s.header["version"], "7");
        for n in 0..file.len() {
            match Summary::of(&file[..n]) {
                Ok(s) => assert!(s.incomplete.is_some(), "cut at {n}"),
                Err(e) => assert!(!e.to_string().is_empty()),
            }
        }
    }
}
