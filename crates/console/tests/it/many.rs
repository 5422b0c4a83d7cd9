//! Real daemons with ten thousand open connections, and a page that shows them.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use mpbond::config::{TrustFile, TrustedDevice};
use mpbond::status_socket;
use mpbond_net::Identity;
use mpbond_testing::{Need, free_address};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::console::{CONSOLE, Console};

const STREAMS: usize = 10_000;

/// Descriptors of each process: a connection is one of them, and there are few others.
const DESCRIPTORS: u64 = STREAMS as u64 + 1_000;

/// Connections that the kernel holds for a listener which accepts none (`net.core.somaxconn`).
const QUEUE: usize = 4_000;

/// Connections that are opened at a time: fewer than a front has in their handshake.
const AT_ONCE: usize = 200;

/// Time of each measurement.
const WATCHED: Duration = Duration::from_secs(5);

/// Maximum of the memory that a page costs the daemon at any time, and of the console's.
const MAX_MORE_KB: u64 = 1 << 10;
const MAX_CONSOLE_KB: u64 = 20 << 10;

/// Further wake-ups in that time, by chance.
const MAX_MORE_WAKEUPS: u64 = 5;

struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Daemon {
    fn start(folder: &Path, role: &str) -> Self {
        let log = File::create(folder.join(format!("{role}.log"))).unwrap();
        let child = Command::new(CONSOLE.mpbond())
            .args([role, "--config"])
            .arg(folder.join(format!("{role}.toml")))
            .env_remove("RUST_LOG")
            .stderr(log)
            .stdout(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }
}

/// A number in `/proc/PID/FILE`.
fn number(of: &Child, file: &str, key: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/{file}", of.id())).unwrap();
    number_in(&text, key)
}

fn number_in(text: &str, key: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let number = line.unwrap().split_whitespace().next();
    number.unwrap().parse().unwrap()
}

/// Voluntary context switches of all threads: each is a wake-up that ended in sleep again.
fn wakeups(of: &Child) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{}/task", of.id())).unwrap();
    // One may end while they are read.
    let texts = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("status")).ok());
    let counts = texts.map(|text| number_in(&text, "voluntary_ctxt_switches:"));
    counts.sum()
}

/// Sets the peak of the resident memory to what it is now (proc_pid_clear_refs(5)).
fn forget_peak(of: &Child) {
    fs::write(format!("/proc/{}/clear_refs", of.id()), "5").unwrap();
}

fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is_true() {
        assert!(Instant::now() < deadline, "{what}");
        sleep(Duration::from_millis(20));
    }
}

/// A primary with one own path and its proxy. Returns the address of the SOCKS server.
fn start(folder: &Path) -> (SocketAddr, [Daemon; 2]) {
    let id = |name: &str| {
        let file = folder.join(format!("{name}.pem"));
        Identity::load_or_create(file).unwrap().id()
    };
    let [proxy, primary] = ["proxy", "primary"].map(id);
    let trusted = TrustFile::beside(&folder.join("proxy.pem"));
    let name = "primary".to_owned();
    trusted.add(&TrustedDevice { id: primary, name }).unwrap();
    let (at_proxy, socks5) = (free_address(), free_address());
    let write = |name: &str, text: String| {
        let head = format!("identity = \"{name}.pem\"\nstatus_socket = \"{name}.sock\"\n");
        fs::write(folder.join(format!("{name}.toml")), head + &text).unwrap();
    };
    let allow = "[destinations]\nallow = \"127.0.0.0/8\"\n";
    write(
        "proxy",
        format!("listen = \"{at_proxy}\"\nworkers = 1\n{allow}"),
    );
    write(
        "primary",
        format!(
            "[proxy]\naddress = \"{at_proxy}\"\nid = \"{proxy}\"\n[[path]]\nname = \"wifi\"\n\
             [socks5]\nlisten = \"{socks5}\"\n"
        ),
    );
    let daemons = ["proxy", "primary"].map(|role| Daemon::start(folder, role));
    until("the session is up", || {
        let status = status_socket::ask(&folder.join("primary.sock"));
        status.is_ok_and(|status| status.sessions.iter().any(|s| s.state == "up"))
    });
    (socks5, daemons)
}

/// Origins in whose queues connections stay: they need no descriptors.
fn origins() -> Vec<TcpListener> {
    let listen = |_| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let queue = nix::sys::socket::Backlog::new(QUEUE as i32).unwrap();
        nix::sys::socket::listen(&listener, queue).unwrap();
        listener
    };
    (0..STREAMS.div_ceil(QUEUE)).map(listen).collect()
}

/// A connection whose answer is still to be read.
fn ask(socks5: SocketAddr, to: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(socks5).unwrap();
    let port = to.port().to_be_bytes();
    let request = [5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1, port[0], port[1]];
    stream.write_all(&request).unwrap();
    stream
}

fn is_answered(stream: &mut TcpStream) {
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer[3], 0, "{answer:?}");
}

/// What the primary does while this goes on: memory at its peak, and wake-ups.
fn watch(primary: &Child, what: &str) -> (u64, u64) {
    forget_peak(primary);
    let before = wakeups(primary);
    sleep(WATCHED);
    let (peak, more) = (
        number(primary, "status", "VmHWM:"),
        wakeups(primary).saturating_sub(before),
    );
    println!("figure: {what}: primary {peak} kB at its peak, {more} wake-ups in {WATCHED:?}");
    (peak, more)
}

/// A page that shows what the console has, until it is dropped.
struct Page {
    console: Console,
    samples: Arc<AtomicUsize>,
}

impl Page {
    fn open(socket: &Path) -> Self {
        let console = Console::start(socket.to_str().unwrap());
        let mut page = console.connect();
        let (port, bearer) = (console.port, console.bearer());
        let head = format!("GET /stream HTTP/1.1\r\nHost: localhost:{port}\r\n{bearer}\r\n");
        page.write_all(head.as_bytes()).unwrap();
        let samples = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&samples);
        thread::spawn(move || {
            let mut block = vec![0; 1 << 16];
            let mut last = Vec::new();
            while let Ok(octets @ 1..) = page.read(&mut block) {
                last.extend_from_slice(&block[..octets]);
                while let Some(end) = last.iter().position(|octet| *octet == b'\n') {
                    let line: Vec<_> = last.drain(..=end).collect();
                    let is_sample = String::from_utf8_lossy(&line).contains("\"sample\":{");
                    count.fetch_add(usize::from(is_sample), Ordering::Relaxed);
                }
            }
        });
        let page = Self { console, samples };
        until("the page shows something", || page.samples() > 0);
        page
    }

    fn samples(&self) -> usize {
        self.samples.load(Ordering::Relaxed)
    }
}

#[test]
fn a_page_with_ten_thousand_real_streams_costs_their_primary_less_than_a_mebibyte() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    if hard < DESCRIPTORS {
        return Need::Root.is_missing(format_args!("{hard} descriptors"));
    }
    let queue = fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    let queue: usize = queue.trim().parse().unwrap();
    if queue < QUEUE {
        let why = format_args!("net.core.somaxconn is {queue}; {QUEUE} are needed");
        return Need::Root.is_missing(why);
    }
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (socks5, daemons) = start(folder.path());
    let primary = &daemons[1].0;
    let socket = folder.path().join("primary.sock");

    let page = Page::open(&socket);
    let (_, few) = watch(primary, "a page, and no stream");
    drop(page);

    let (origins, began) = (origins(), Instant::now());
    let mut open = Vec::new();
    while open.len() < STREAMS {
        let to = origins[open.len() / QUEUE].local_addr().unwrap();
        let mut some: Vec<_> = (0..AT_ONCE).map(|_| ask(socks5, to)).collect();
        some.iter_mut().for_each(is_answered);
        open.extend(some);
    }
    let took = began.elapsed();
    println!("figure: {STREAMS} connections are open after {took:.1?}");
    until("nothing is left to do", || {
        let before = wakeups(primary);
        sleep(Duration::from_millis(500));
        wakeups(primary) == before
    });
    let [at_proxy, alone] = daemons.each_ref().map(|d| number(&d.0, "status", "VmRSS:"));
    println!("figure: ten thousand streams: primary {alone} kB, proxy {at_proxy} kB");

    let page = Page::open(&socket);
    let before = page.samples();
    // An answer is written in more parts while the console gets no processor.
    let look = || watch(primary, "the same, and a page");
    let (mut watched, mut many) = look();
    for _ in 0..2 {
        if many > few + MAX_MORE_WAKEUPS {
            (watched, many) = look();
        }
    }
    let shown = page.samples() - before;
    let peak = number(&page.console.child, "status", "VmHWM:");
    println!("figure: console {peak} kB at its peak, {shown} samples");
    let status = status_socket::ask(&socket).unwrap();
    assert_eq!(status.transfers.len(), open.len());
    assert!(shown >= 2, "{shown} samples");
    assert!(peak < MAX_CONSOLE_KB, "console: {peak} kB");
    assert!(watched <= alone + MAX_MORE_KB, "{watched} kB after {alone}");
    assert!(
        many <= few + MAX_MORE_WAKEUPS,
        "{many} wake-ups after {few}"
    );
}
