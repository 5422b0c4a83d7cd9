//! Inputs that fuzzing starts from, made by our own code or by hand: well-formed ones, since chance
//! alone rarely writes a whole frame or a table's header.

mod answers;
mod bluetooth_host;
mod captures;
mod l2;

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use mpbond_net::control::{
    HelperState, LinkKind, LinkState, Message, RefusalCode, RelayReport, RequestId, Ticket, encode,
    relay_preamble,
};
use mpbond_net::pairing;
use mpbond_session::wire::{AckCount, Frame, FrameType, PathReport, Secret};
use mpbond_session::{
    Capabilities, CloseCode, Destination, DeviceLabel, Families, HelperId, LeastBurst, Limits,
    PathLabel, ResetCode, Role, SessionId, StreamClass, StreamId, SubflowId,
};
use mpbond_units::BitRate;

/// All seeds: target, name, octets.
pub fn all() -> Vec<(&'static str, String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut add = |target: &'static str, octets: Vec<u8>| {
        let name = format!("seed-{}", all.len());
        all.push((target, name, octets));
    };
    for frame in session_frames() {
        add("frames", record(&[frame]));
    }
    add("frames", record(&session_frames()));
    add("frames", with_unknown_fields(&session_frames()));
    for hello in [capable(), join()] {
        let more = record(&[hello.clone(), open(), data()]);
        add("hello", record(std::slice::from_ref(&hello)));
        add("hello", more);
        add(
            "hello",
            with_unknown_fields(&[hello, open(), extension(0x99)]),
        );
    }
    for message in control_messages() {
        if let Ok(octets) = encode(&message) {
            add("control", [&[40][..], &octets].concat());
        }
    }
    for message in pairing_messages() {
        add("pairing", message.encode());
    }
    for octets in l2::calls() {
        add("l2-frame", octets);
    }
    for octets in bluetooth_host::inputs() {
        add("bluetooth-host", octets);
    }
    for octets in traffic() {
        add("traffic", octets);
    }
    let preamble = relay_preamble(&Ticket::from_bytes([7; 32]));
    add("opening", preamble.to_vec());
    let device = mpbond_net::DeviceId::from_bytes([7; 32]);
    add("trust", format!("# devices\n{device} phone\n").into_bytes());
    add(
        "config",
        format!("identity = \"a.pem\"\ntrust = [\"{device}\"]\n").into_bytes(),
    );
    add("opening", b"\x16\x03\x01".to_vec());
    for (target, octets) in OCTETS {
        add(target, octets.to_vec());
    }
    for (target, octets) in answers::answers() {
        add(target, octets);
    }
    for (target, text) in TEXTS {
        add(target, text.as_bytes().to_vec());
    }
    for (target, octets) in captures::captures() {
        add(target, octets);
    }
    for (target, octets) in sessions() {
        add(target, octets);
    }
    all
}

fn pairing_messages() -> Vec<pairing::Message> {
    let introduction = |role, service: Option<&str>| {
        pairing::Message::Introduction(pairing::Introduction {
            role,
            name: "Anna's phone".to_owned(),
            service: service.and_then(|s| s.parse().ok()),
        })
    };
    vec![
        pairing::Message::Start([7; _]),
        pairing::Message::Proof([7; _]),
        introduction(pairing::Role::Primary, None),
        introduction(pairing::Role::Helper, Some("192.0.2.1:4434")),
        introduction(pairing::Role::Proxy, Some("[2001:db8::1]:4433")),
        pairing::Message::Agreed,
        pairing::Message::Stop(pairing::StopReason::WrongCode),
    ]
}

/// Conversations of `mpbond traffic`, each behind an octet that selects the receiver.
fn traffic() -> Vec<Vec<u8>> {
    let frame = |kind: u8, number: u64, payload: &[u8]| {
        let length = (payload.len() as u32).to_be_bytes();
        let stamp = 1_700_000_000_000_000_000_u64.to_be_bytes();
        [
            b"mT\x01",
            &[kind][..],
            &length,
            &number.to_be_bytes(),
            &stamp,
            payload,
        ]
        .concat()
    };
    let flow = [&100_u32.to_be_bytes()[..], &20_000_000_u32.to_be_bytes()].concat();
    let wants = [
        &[7; 16][..],
        &5_000_u64.to_be_bytes(),
        &flow,
        &flow,
        &[0; 24],
    ]
    .concat();
    let record = |number| frame(4, number, &[1; 76]);
    let receipt = |number| frame(5, number, &[0; 8]);
    let server = [
        frame(1, 0, &wants),
        frame(3, 0, b""),
        record(0),
        record(1),
        frame(6, 9, b""),
    ];
    let client = [
        frame(2, 0, b""),
        frame(7, 1, b""),
        record(0),
        receipt(0),
        receipt(3),
        frame(8, 2, b""),
    ];
    vec![
        [&[0][..], &server.concat()].concat(),
        [&[1][..], &client[1..].concat()].concat(),
        [&[1][..], &client.concat()].concat(),
        [&[1][..], &frame(9, 0, b"too many runs")].concat(),
        b"\x02\x05\x00\x05\x00\x00\x01\x7f\x00\x00\x01\x04\x38".to_vec(),
        b"\x02\x05\x00\x05\x05\x00\x01".to_vec(),
    ]
}

fn record(frames: &[Frame]) -> Vec<u8> {
    let mut out = Vec::new();
    frames.iter().for_each(|f| f.encode(&mut out));
    out
}

fn limits() -> Limits {
    Limits {
        max_data: 8 << 20,
        max_stream_data: 1 << 20,
        max_streams: 1024,
    }
}

fn path() -> PathLabel {
    PathLabel {
        helper: Some(HelperId(2)),
        role: Role::Backup,
        name: "tablet".to_owned(),
        number: None,
        lender: Some(DeviceLabel([5; 16])),
    }
}

fn capabilities(families: Option<Families>) -> Capabilities {
    Capabilities::of_this_version(families)
}

fn capable() -> Frame {
    Frame::MpCapable {
        random: Secret([1; 32]),
        subflow: SubflowId(1),
        limits: limits(),
        path: path(),
        capabilities: capabilities(None),
    }
}

fn join() -> Frame {
    Frame::MpJoin {
        session: SessionId([9; 16]),
        subflow: SubflowId(2),
        proof: Secret([3; 32]),
        path: PathLabel::default(),
    }
}

fn open() -> Frame {
    Frame::Open {
        stream: StreamId(0),
        treatment: StreamClass::Interactive.into(),
        max_stream_data: 1 << 20,
        destination: Destination::Name {
            host: "origin.test".to_owned(),
            port: 443,
        },
        confirm: true,
    }
}

fn data() -> Frame {
    Frame::Data {
        stream: StreamId(0),
        offset: 3,
        fin: true,
        chunk_end: true,
        bytes: Bytes::from_static(b"some bytes of a stream"),
    }
}

/// A frame of a later version: one that elicits an ACK when its number's highest bit is set.
fn extension(number: u8) -> Frame {
    Frame::Extension {
        kind: FrameType(number),
        body: Bytes::from_static(b"of a later version"),
    }
}

/// Frames, each with optional fields behind it that no version has defined.
fn with_unknown_fields(frames: &[Frame]) -> Vec<u8> {
    let fields = [0x3f, 0, 0x40, 0x60, 3, 1, 2, 3];
    let mut out = Vec::new();
    for frame in frames {
        let mut one = record(std::slice::from_ref(frame));
        // Frames of this version but DATA have a length of two octets behind their type.
        if !matches!(frame, Frame::Data { .. } | Frame::Extension { .. }) {
            one.extend(fields);
            let length = (one.len() - 3) as u16 | 0x4000;
            one[1..3].copy_from_slice(&length.to_be_bytes());
        }
        out.extend(one);
    }
    out
}

fn session_frames() -> Vec<Frame> {
    let addresses: [SocketAddr; 2] = [([192, 0, 2, 1], 80).into(), ([0; 16], 443).into()];
    let at = |address| Frame::Open {
        stream: StreamId(4),
        treatment: StreamClass::Bulk.into(),
        max_stream_data: 1,
        destination: Destination::Addr(address),
        confirm: false,
    };
    vec![
        capable(),
        join(),
        Frame::MpOk {
            random: Secret([2; 32]),
            session: SessionId([9; 16]),
            limits: limits(),
            capabilities: capabilities(Some(Families {
                ipv4: true,
                ipv6: false,
            })),
        },
        Frame::MpJoinOk {
            proof: Secret([4; 32]),
        },
        open(),
        at(addresses[0]),
        at(addresses[1]),
        data(),
        Frame::Reset {
            stream: StreamId(1),
            code: ResetCode::Cancelled,
            final_offset: 77,
        },
        Frame::Connected {
            stream: StreamId(1),
        },
        Frame::Stop {
            stream: StreamId(1),
            code: ResetCode::Cancelled,
        },
        Frame::Ack {
            time_us: 1_000_000,
            counts: vec![
                AckCount {
                    subflow: SubflowId(1),
                    count: 100_000,
                    age: Duration::from_millis(3),
                    pace: BitRate::from_mbps(8.0),
                };
                2
            ],
        },
        Frame::MaxData(1 << 30),
        Frame::MaxStreamData {
            stream: StreamId(0),
            max: 1 << 21,
        },
        Frame::MaxStreams(2000),
        Frame::Chunk {
            stream: StreamId(0),
            end: 1 << 20,
        },
        Frame::PathReport(PathReport {
            number: 1,
            subflow: SubflowId(2),
            throughput: BitRate::from_mbps(5.0),
            rtt: Duration::from_millis(60),
            level_bytes: 100_000,
            age: Duration::from_millis(10),
            sojourn: Some(Duration::from_millis(200)),
            held_back: true,
        }),
        Frame::Ping(1),
        Frame::Pong(1),
        Frame::SubflowRole {
            subflow: SubflowId(1),
            role: Role::Backup,
            cost: 2,
        },
        Frame::Cut {
            subflow: SubflowId(3),
        },
        Frame::Admit {
            subflow: SubflowId(1),
            change: 1,
            least: LeastBurst {
                bytes: 1_100_000,
                background_bytes: LeastBurst::NEVER,
                tail: Duration::from_secs(11),
            },
        },
        Frame::GoAway {
            reason: "the proxy stops".to_owned(),
        },
        Frame::Close {
            code: CloseCode::Done,
            reason: "no longer wanted".to_owned(),
        },
        extension(0x55),
        extension(0x99),
    ]
}

fn control_messages() -> Vec<Message> {
    let proxy = ([192, 0, 2, 7], 4433).into();
    let request = RequestId(1);
    vec![
        Message::Hello {
            version: 1,
            name: "phone".to_owned(),
        },
        Message::InitMp {
            request,
            proxy,
            others: vec![([192, 0, 2, 8], 443).into()],
            max_segment_bytes: None,
        },
        Message::InitMpJoin {
            request,
            proxy,
            others: Vec::new(),
            express: true,
            max_segment_bytes: Some(1_220),
        },
        Message::Relay {
            request,
            ticket: Ticket::from_bytes([5; 32]),
        },
        Message::Refused {
            request,
            code: RefusalCode::BudgetSpent,
            reason: "this month's budget is used up".to_owned(),
        },
        Message::HelperState(HelperState {
            battery_percent: Some(50),
            charging: Some(false),
            metered: Some(true),
            bytes_left: Some(1 << 30),
            links: vec![LinkState {
                kind: LinkKind::Lte,
                signal_dbm: Some(-90),
            }],
        }),
        Message::Report(RelayReport {
            number: 4,
            relay: request,
            th_p: Some(BitRate::from_mbps(5.0)),
            pipe_rtt: Some(Duration::from_millis(4)),
            level_down_bytes: 70_000,
            level_up_bytes: 0,
            th_hs: None,
            hs_rtt: Some(Duration::from_millis(50)),
            since_hs_byte: Some(Duration::from_micros(100)),
            since_hs_down: Some(Duration::from_micros(100)),
            sojourn_down: Some(Duration::from_millis(9)),
            sojourn_up: None,
            th_hs_down: Some(BitRate::from_mbps(10.0)),
            bound_down_bytes: Some(4 << 20),
            limit_down: Some(BitRate::from_mbps(2.0)),
            limit_up: None,
            held_back_down: true,
            held_back_up: false,
            age: Some(Duration::ZERO),
        }),
        Message::Ping { token: 3 },
        Message::Pong { token: 3 },
        Message::Bye {
            reason: "out of battery".to_owned(),
        },
    ]
}

const OCTETS: &[(&str, &[u8])] = &[
    ("tls-accept", b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03"),
    ("tls-accept", b"\x16\x03\x01\x00\xff"),
    ("uevent", b"change@/devices/LNXSYSTM:00/PNP0C0A:00/power_supply/BAT0\0ACTION=change\0DEVPATH=/devices/LNXSYSTM:00/PNP0C0A:00/power_supply/BAT0\0SUBSYSTEM=power_supply\0POWER_SUPPLY_CAPACITY=81\0SEQNUM=4711\0"),
    ("uevent", b"add@/module/x\0ACTION=add\0DEVPATH=/module/x\0SUBSYSTEM=mod"),
    ("tls-connect", b"\x16\x03\x03\x00\x2a\x02\x00\x00\x26\x03\x03"),
    ("tls-connect", b"\x15\x03\x03\x00\x02\x02\x31"),
    ("socks5", b"\x00\x05\x01\x00\x05\x01\x00\x01\xc0\x00\x02\x01\x00\x50GET /"),
    ("socks5", b"\x02\x05\x02\x00\x02\x05\x01\x00\x03\x0borigin.test\x01\xbb"),
    ("socks5", b"\x01\x05\x01\x02\x01\x04anna\x06secret\x05\x01\x00\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x00\x50"),
    ("http", b"\x00CONNECT origin.test:443 HTTP/1.1\r\nHost: origin.test:443\r\n\r\n\x16\x03"),
    ("http", b"\x01GET http://origin.test/a?b HTTP/1.1\r\nHost: origin.test\r\nProxy-Authorization: Basic YW5uYTpzZWNyZXQ=\r\nConnection: close, x-y\r\nX-Y: 1\r\n\r\n"),
    ("http", b"\x10POST http://[2001:db8::1]:8080/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nA: b\r\n\r\n"),
    ("http", b"\x10PUT http://origin.test HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello more"),
    ("dns", b"\x1e\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x07example\x00\x00\x01\x00\x01"),
    ("dns", b"\x1e\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x07example\x00\x00\x01\x00\x01\x00\x07\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00\x03www\x07example\x00\x00\x01\x00\x01\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\xc0\x00\x02\x01"),
    ("dns", b"\x29\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01\x03www\x07example\x00\x00\x01\x00\x01\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00"),
    ("rate-profile", b"\x020 8\n1 6.5\n2 0\n"),
    ("rate-profile", b"\x0etime,rate\n2020.02.13_13.03.24,8\n2020.02.13_13.03.25,9\n"),
    ("rate-profile", b"\xa9# one column\n1,2,3\n4,5,6\n"),
    ("trace-perfetto", b"\x0a\x10\x40\x01\x50\x01"),
    ("trace-perfetto", b"\x0a\x7f\x0a\x7d\x08\x01\x12"),
    ("trace-perfetto", b"\x0a\x19\x50\x01\x0a\x15\x08\x00\x12\x11\x08\xe8\x07\x10\x05\x22\x0a\x0a\x01a\x10\x01\x18\x78\x20\x02\x2a\x01"),
    ("trace-method", b"SLOW\xf3\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0e\x00\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
    ("trace-method", b"*version\n3\ndata-file-overflow=false\nclock=dual\nelapsed-time-usec=10\nnum-method-calls=2\n*threads\n1\tmain\n*methods\n0x10\tcom.a.B\tc\t()V\tB.java\t1\n*end\nSLOW\x03\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0e\x00\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x00\x10\0\0\0\x01\0\0\0\x01\0\0\0\x01\x00\x11\0\0\0\x05\0\0\0\x05\0\0\0"),
    ("trace-perf", b"SIMPLEPERF\x01\x00\x08\x00\x00\x00\x12\x06\x08\x01\x10\x02\x18\x03\x00\x00\x00\x00"),
    ("trace-dat", b"\x17\x08\x44tracing6\0\x00\x08\x00\x10\x00\x00header_page\0"),
    ("trace-text", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x00"),
    ("trace-text", b"TRACE:\n# tracer: nop\n"),
    ("trace-html", b"PK\x03\x04\x14\x00\x08\x00\x08\x00\x00\x00\x00\x00"),
];

const FTRACE: &str = "# tracer: nop\n#\n#           TASK-PID    CPU#  |||||  TIMESTAMP  FUNCTION\n\
 a-1 (  1) [000] d..2 1.000001: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=R+ ==> next_comm=b next_pid=2 next_prio=120\n\
 b-2 (-----) [000] d..2 1.000100: sched_wakeup: comm=c pid=3 prio=120 success=1 target_cpu=001\n\
 b-2 [000] ...1 1.000200: tracing_mark_write: B|2|x\n\
 b-2 [000] ...1 1.000300: tracing_mark_write: E|2\n\
 b-2 [000] ...1 1.000310: tracing_mark_write: C|2|y|9\n\
 <idle>-0 [001] ...1 1.000400: cpu_idle: state=4294967295 cpu_id=1\n\
 b-2 [000] ...1 1.000500: binder_transaction: transaction=7 dest_node=1 dest_proc=3 dest_thread=3 reply=0 flags=0x10 code=0x1\n\
 b-2 [000] d..2 1.001001: sched_switch: prev_comm=b prev_pid=2 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120\n";

/// A policy with each key.
const POLICY: &str = "[policy]
mode = \"saver\"
zone = \"Europe/Berlin\"
default = { class = \"bulk\", paths = \"all\", priority = 3, roaming = \"never\" }
[[rule]]
name = \"a\"
app = [\"org.gnome.DejaDup\", \"restic.service\"]
uid = \"1000-1999\"
cgroup = \"/user.slice\"
dscp = [0, \"AF41\"]
domain = \"*.zoom.us\"
ip = [\"10.0.0.0/8\", \"2001:db8::/32\"]
port = [80, \"440-450\"]
source = \"127.0.0.1\"
metered = false
roaming = true
battery = \">= 20%\"
charging = false
time = [\"mon-fri 22:00-06:00\", \"sat 8:00-9:30\"]
set = { class = \"background\", metered = \"never\", multipath = \"handover\", delay = \"10min\", budget = { bytes = \"1 GB\", resets = 31, warn = \"75%\" } }
[[link]]
name = \"mobile\"
cost = 3
metered = true
cap = { bytes = \"20 GB\", resets = 17, zone = \"UTC\", warn = \"75%\", at_cap = \"standby\" }
battery_floor = \"20%\"
[[link]]
name = \"wifi\"
weak_below = \"-60 dBm\"
";

const TEXTS: &[(&str, &str)] = &[
    ("config", mpbond::config::example::PRIMARY),
    ("config", mpbond::config::example::HELPER),
    ("config", mpbond::config::example::PROXY),
    (
        "config",
        "[[helper]]\nname = \"a\"\nid = \"A\"\n[[helper.pipe]]\naddress = \"discover\"\n\
         [[helper.pipe]]\naddress = \"10.0.0.2:1\"\ninterface = \"b\"\nbackup = true\n",
    ),
    ("policy", POLICY),
    (
        "policy",
        "[[rule]]\nname = \"a\"\napp = \"x\"\nset = \"direct\"\n\0/a/app-x-1.scope",
    ),
    (
        "identity",
        "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIAAA\n-----END PRIVATE KEY-----\n",
    ),
    ("experiment", include_str!("../../../experiments/demo.toml")),
    (
        "experiment",
        include_str!("../../../experiments/demo-failover.toml"),
    ),
    (
        "experiment",
        include_str!("../../../experiments/bench-8-10-5.toml"),
    ),
    (
        "page",
        "# bytes host asked for\n18000 www at 0ms\n9000 www after 1\n52000 cdn after 1 + 20ms\n400 ads at 1.5s\n",
    ),
    (
        "page",
        r#"{"log":{"entries":[{"startedDateTime":"2020-01-02T03:04:05.678Z","time":12.5,"request":{"url":"https://a.test/x"},"response":{"status":200,"content":{"size":100},"bodySize":90}}]}}"#,
    ),
    (
        "record",
        r#"{"experiment":"x","date":"2026-01-01","kernel":"6","transfers":[]}"#,
    ),
    ("duration", "1.5 s"),
    ("duration", "25ms"),
    (
        "trace-rules",
        include_str!("../../../crates/systrace/data/idle_rules.toml"),
    ),
    (
        "trace-rules",
        include_str!("../../../crates/systrace/data/task_classes.toml"),
    ),
    (
        "trace-rules",
        include_str!("../../../crates/systrace/data/function_groups.toml"),
    ),
    (
        "trace-rules",
        include_str!("../../../crates/systrace/data/wear_scenarios.toml"),
    ),
    ("mahimahi", "0\n1\n1\n7\n12\n"),
    ("distances", "1.5,8,open\n2 7.5 wall\n# x\n"),
    (
        "radio-profile",
        include_str!("../../../crates/radio/profiles/5g-sa-2020.toml"),
    ),
    (
        "radio-profile",
        include_str!("../../../crates/radio/profiles/cpu-galaxy-s4.toml"),
    ),
    (
        "radio-profile",
        include_str!("../../../crates/radio/profiles/bus-qualcomm.toml"),
    ),
    (
        "radio-profile",
        include_str!("../../../crates/radio/profiles/band-2.4ghz.toml"),
    ),
    (
        "logs",
        "enqueue_ns,depart_ns,link,direction,bytes,src,dst,proto,sport,dport,dropped\n1000,2000,a,down,1500,10.0.0.1,10.0.0.2,6,80,4000,\n3000,,a,up,60,,,,,,queue\n",
    ),
    (
        "logs",
        "time_s,kind,name,mhz,utilisation\n0.0,core,0,1000,0.5\n0.0,core,1,1000,0.1\n1.0,core,0,500,0.2\n",
    ),
    ("logs", "time_s,event,bytes\n1.5,read,100\n1.6,sent,100\n"),
    (
        "energy",
        "enqueue_ns,depart_ns,link,direction,bytes,src,dst,proto,sport,dport,dropped\n1000,2000,a,down,1500,10.0.0.1,10.0.0.2,6,80,4000,\n2000,3000,b,up,1500,,,,,,\n3000,,a,up,60,,,,,,queue\n",
    ),
    (
        "energy",
        "time_s,kind,name,mhz,utilisation\n0.0,core,0,1000,0.5\n1.0,core,0,500,0.2\n",
    ),
    (
        "handover-phases",
        "time_s,interface,state\n0,wifi,connected\n5,wifi,off\n5.5,lte,available\n6,lte,connected\n\ntime_s,interface,app_bytes\n1,wifi,100\n7,lte,100\n",
    ),
    (
        "proc-files",
        "cpu  1 2 3 4 5 6 7 0 0 0\ncpu0 1 2 3 4 5 6 7 0 0 0\n",
    ),
    (
        "proc-files",
        "12 (a b) S 1 12 12 0 -1 4194560 1 0 0 0 10 20 0 0 20 0 1 0 5 1000 10\n",
    ),
    ("trace-text", FTRACE),
    (
        "trace-text",
        "# tracer: nop\n a-1 [000] 1.000001: sched_switch: a:1 [120] R ==> b:2 [120]\n a-1 [000] 2.5: block_rq_issue: 8,0 R 0 () 1 + 8 [sh]\n",
    ),
    (
        "trace-html",
        "<!DOCTYPE html>\n<html>\n  <script class=\"trace-data\" type=\"application/text\">\n# tracer: nop\n a-1 [000] d..2 1.000001: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=120\n  </script>\n</html>\n",
    ),
    (
        "trace-html",
        "<!DOCTYPE html>\n<html><body>\n<script>\n  var linuxPerfData = \"\\\n# tracer: nop\\n\\\n a-1 [000] 1.000001: 0: B|1|x\\n\\\n\";\n</script></body></html>\n",
    ),
    (
        "trace-perf",
        "java  3244 [001] 10.000001:     250000 cpu-clock:\n\tffff 0x1 a (b)\n\n",
    ),
];

/// Decisions for whole sessions: a stream that is written, read and finished, over links that come
/// and die.
fn sessions() -> Vec<(&'static str, Vec<u8>)> {
    let deliver = [10, 40];
    let open = [0, 0];
    let write = |end: u8| [2, 0x60, 200, end, 0];
    let finish = |end: u8| [4, end, 0];
    let bulk = [
        &[0, 0, 0][..],
        &deliver,
        &deliver,
        &open,
        &write(0),
        &deliver,
        &[7, 1],
        &deliver,
        &write(1),
        &write(0),
        &[9, 0],
        &[13, 250],
        &[8, 0, 0],
        &[7, 0x21],
        &deliver,
        &[12],
        &finish(0),
        &finish(1),
        &deliver,
    ];
    vec![
        ("session-pair", bulk.concat()),
        (
            "session-pair",
            vec![4, 1, 8, 10, 9, 0, 0, 10, 9, 5, 0, 0, 6, 1, 0, 14, 60, 0],
        ),
        (
            "hostile-primary",
            vec![
                0, 4, 0, 3, 5, 0, 0, 0, 0, 0, 1, 0, 0, 9, 0, 0, 1, 7, 0, 1, 1, 0,
            ],
        ),
        (
            "hostile-proxy",
            vec![2, 1, 10, 20, 30, 0, 0, 0, 3, 5, 0, 0, 0, 0, 0, 1],
        ),
    ]
}
