//! Accounts of caps against the packet log and the capture of an emulated link, to the byte: real
//! daemons, one of them behind the link (`mpbond link`), which loses packets.
//!
//! The role behind the link is an ignored test of this program.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use mpbond::config::{TrustFile, TrustedDevice};
use mpbond::status::Status;
use mpbond_net::{DeviceId, Identity};
use mpbond_testing::namespaces::is_called_for;
use mpbond_testing::{Need, free_address};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::programs::{LAB, mpbond};

/// Whatever is waited for has come by then.
const WITHIN: Duration = Duration::from_secs(60);

/// Variable with the folder, for the role behind the link.
const FOLDER: &str = "MPBOND_TEST_FOLDER";

/// Address of the far end of the link, at which this machine's services are.
const GATEWAY: &str = "100.64.77.2";

/// Flags of TCP.
const FIN: u8 = 1;
const SYN: u8 = 2;

/// The cap in bytes.
const CAP: u64 = 6_000_000;

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + WITHIN;
    while !holds() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Files of the daemons.
struct Folder(PathBuf);

impl Folder {
    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn id(&self, role: &str) -> DeviceId {
        let key = self.file(&format!("{role}.pem"));
        Identity::load_or_create(key).unwrap().id()
    }

    fn write(&self, role: &str, text: &str) {
        let keys = format!("identity = \"{role}.pem\"\nstatus_socket = \"{role}.sock\"\n");
        std::fs::write(self.file(&format!("{role}.toml")), keys + text).unwrap();
    }

    /// A device trusts the primary.
    fn trusts(&self, role: &str) {
        let file = TrustFile::beside(&self.file(&format!("{role}.pem")));
        let (id, name) = (self.id("primary"), "primary".to_owned());
        file.add(&TrustedDevice { id, name }).unwrap();
    }

    fn start(&self, role: &str) -> Daemon {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.file(&format!("{role}.log")));
        let child = Command::new(mpbond())
            .args([role, "--config"])
            .arg(self.file(&format!("{role}.toml")))
            .env_remove("RUST_LOG")
            .stderr(log.unwrap())
            .spawn();
        let daemon = Daemon(child.unwrap());
        until(role, || self.status(role).is_some());
        daemon
    }

    fn status(&self, role: &str) -> Option<Status> {
        mpbond::status_socket::ask(&self.file(&format!("{role}.sock"))).ok()
    }

    /// Starts the primary, and waits until its only link works.
    fn start_primary(&self) -> Daemon {
        let primary = self.start("primary");
        until("the link is up", || {
            let status = self.status("primary");
            status.is_some_and(|status| status.links.iter().all(|link| link.state == "up"))
        });
        primary
    }

    fn used(&self) -> u64 {
        let status = self.status("primary").unwrap();
        status.links[0].cap.as_ref().unwrap().used_bytes
    }

    /// The account of the link in the file of a primary that has stopped.
    fn account(&self, link: &str) -> toml::Value {
        let text = std::fs::read_to_string(self.file("primary.usage")).unwrap();
        let accounts: toml::Value = toml::from_str(&text).unwrap();
        accounts["link"][link].clone()
    }
}

/// A daemon; it is killed when dropped.
struct Daemon(Child);

impl Daemon {
    fn stop(&mut self) {
        kill(Pid::from_raw(self.0.id() as i32), Signal::SIGTERM).unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server that sends as many bytes as the first four ask for, reads until the end, and closes.
fn origin() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || serve(stream.ok()?));
        }
    });
    address
}

/// Reads and writes of it end in time.
fn bounded(stream: &TcpStream) {
    stream.set_read_timeout(Some(WITHIN)).unwrap();
    stream.set_write_timeout(Some(WITHIN)).unwrap();
}

fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&to, WITHIN).unwrap();
    bounded(&stream);
    stream
}

fn serve(mut stream: TcpStream) -> Option<()> {
    bounded(&stream);
    let mut asked = [0; 4];
    stream.read_exact(&mut asked).ok()?;
    let bytes = vec![7; u32::from_be_bytes(asked) as usize];
    stream.write_all(&bytes).ok()?;
    std::io::copy(&mut stream, &mut std::io::sink()).ok()?;
    Some(())
}

/// Sends so many bytes and receives so many, over an open connection. Returns the bytes that came
/// before nothing did for 5 s.
fn transfer(mut stream: TcpStream, down: u32, up: usize) -> usize {
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    stream.write_all(&down.to_be_bytes()).unwrap();
    let mut came = 0;
    let mut block = [0; 65_536];
    while came < down as usize {
        match stream.read(&mut block) {
            Ok(0) | Err(_) => return came,
            Ok(count) => came += count,
        }
    }
    stream.write_all(&vec![9; up]).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let _ = stream.read(&mut block);
    came
}

/// A connection through a primary; none where it is refused.
fn over_socks(socks5: SocketAddr, to: SocketAddr) -> Option<TcpStream> {
    let mut stream = connect(socks5);
    stream.write_all(&[5, 1, 0, 5, 1, 0, 1]).unwrap();
    stream.write_all(&[127, 0, 0, 1]).unwrap();
    stream.write_all(&to.port().to_be_bytes()).unwrap();
    let mut reply = [0; 12];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(reply[..3], [5, 0, 5]);
    (reply[3] == 0).then_some(stream)
}

/// Starts a role of this program behind a link that loses packets.
fn behind_a_link(folder: &Folder, role: &str) -> Child {
    let mut command = LAB.command(["link", "--down", "20", "--up", "10"]);
    command.args(["--delay", "5ms", "--loss", "0.003", "--packet-log"]);
    command.arg(folder.file("log.csv"));
    command.arg("--pcap").arg(folder.file("pcap"));
    command.arg("--").arg(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", role, "--nocapture"]);
    command.env("MPBOND_TEST_ROLE", "1").env(FOLDER, &folder.0);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Waits for its end; false where the machine allows no link.
fn ends(link: Child) -> bool {
    let output = link.wait_with_output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    if output.status.code() == Some(3) {
        Need::Namespaces.is_missing(&said);
        return false;
    }
    assert!(output.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
    true
}

fn here() -> Folder {
    Folder(std::env::var_os(FOLDER).unwrap().into())
}

/// Bytes that passed the interface at the near end of the link, by its packet log: what was sent,
/// also if the link lost it then, and what arrived.
fn passed(log: &Path) -> u64 {
    // Without TUN devices, links are of Ethernet.
    let tun = File::options().read(true).write(true).open("/dev/net/tun");
    let header = if tun.is_ok() { 0 } else { 14 };
    let text = std::fs::read_to_string(log).unwrap();
    let packets = text.lines().skip(1).map(|line| {
        let columns: Vec<&str> = line.split(',').collect();
        let passes = columns[3] == "up" || columns[10].is_empty();
        let bytes: u64 = columns[4].parse().unwrap();
        if passes { bytes + header } else { 0 }
    });
    packets.sum()
}

/// Bytes received and sent by the interface at this end of the link.
fn counter() -> u64 {
    let text = std::fs::read_to_string("/proc/net/dev").unwrap();
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.trim().strip_prefix("link:"));
    let columns = line.unwrap().split_whitespace();
    let columns: Vec<u64> = columns.map(|column| column.parse().unwrap()).collect();
    columns[0] + columns[8]
}

/// The counter when nothing has passed for a second.
fn settled() -> u64 {
    let mut last = (counter(), Instant::now());
    until("nothing passes", || {
        let now = counter();
        if now != last.0 {
            last = (now, Instant::now());
        }
        last.1.elapsed() > Duration::from_secs(1)
    });
    last.0
}

#[test]
fn the_account_of_an_own_link_has_all_bytes_of_the_packet_log_over_restarts_and_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let folder = Folder(folder.path().to_owned());
    let (proxy, origin) = (free_address(), origin());
    folder.trusts("proxy");
    folder.write(
        "proxy",
        &format!("listen = \"{proxy}\"\n[destinations]\nallow = \"127.0.0.0/8\"\n"),
    );
    folder.write(
        "primary",
        &format!(
            "on_proxy_loss = \"fail\"\npolicy = \"policy.toml\"\n\
             [proxy]\naddress = \"{GATEWAY}:{}\"\nid = \"{}\"\n\
             [[path]]\nname = \"own\"\ninterface = \"link\"\n\
             [socks5]\nlisten = \"127.0.0.1:1080\"\nopen = true\n",
            proxy.port(),
            folder.id("proxy")
        ),
    );
    let policy = format!(
        "[policy]\nzone = \"UTC\"\n[[link]]\nname = \"own\"\ncap = {{ bytes = \"{CAP} B\" }}\n"
    );
    std::fs::write(folder.file("policy.toml"), policy).unwrap();
    std::fs::write(folder.file("origin"), origin.to_string()).unwrap();
    let _proxy = folder.start("proxy");
    if !ends(behind_a_link(&folder, "caps::own_link")) {
        return;
    }
    let figures = std::fs::read_to_string(folder.file("figures")).unwrap();
    let figures: Vec<u64> = figures.split(' ').map(|n| n.parse().unwrap()).collect();
    let [before, used, tail] = figures[..] else {
        panic!("{figures:?}");
    };
    let logged = passed(&folder.file("log.csv"));
    eprintln!(
        "figure: cap {CAP}, account {used}, after its last reading {tail}, before its first one \
         {before}; packet log {logged}"
    );
    assert_eq!(before + used + tail, logged, "to the byte");
    // What follows the last reading: the ends of TCP connections.
    assert!(tail < 1_000, "{tail}");
    assert!(used >= CAP, "{used}");
}

#[test]
#[ignore = "a role of another test"]
fn own_link() {
    if !is_called_for() {
        return;
    }
    let folder = here();
    let origin = std::fs::read_to_string(folder.file("origin")).unwrap();
    let origin: SocketAddr = origin.parse().unwrap();
    let socks5 = SocketAddr::from((Ipv4Addr::LOCALHOST, 1080));
    let through = |down, up| transfer(over_socks(socks5, origin).unwrap(), down, up);
    let direct = |down| {
        let to = SocketAddr::new(GATEWAY.parse().unwrap(), origin.port());
        assert_eq!(transfer(connect(to), down, 0), down as usize);
    };
    let before = counter();
    // The status counts until now: between two looks at the kernel's counter.
    let check = |what: &str| {
        let least = counter();
        let used = folder.used() + before;
        let most = counter();
        assert!(
            (least..=most).contains(&used),
            "{what}: {used} {least} {most}"
        );
    };
    let mut primary = folder.start_primary();
    assert_eq!(through(1_000_000, 300_000), 1_000_000);
    check("a transfer");
    primary.stop();
    // Another program, while no primary runs.
    direct(400_000);
    let mut primary = folder.start_primary();
    check("a restart");
    assert_eq!(through(200_000, 0), 200_000);
    // Another program, while the primary has nothing to do.
    settled();
    direct(300_000);
    check("another program");
    assert_eq!(through(300_000, 0), 300_000);
    // A crash: all that the file lacks is in the interface's counter.
    primary.0.kill().unwrap();
    primary.0.wait().unwrap();
    primary = folder.start_primary();
    check("a crash");
    // What is under way arrives, as the link's relay and the origin's kernel hold some MB.
    let came = through(40_000_000, 0);
    assert!(came < 15_000_000, "{came}");
    check("the cap is used up");
    assert!(folder.used() >= CAP);
    let used_up = settled();
    assert!(over_socks(socks5, origin).is_none(), "it is used up");
    primary.stop();
    let end = settled();
    // The attempt, keep-alives and the ends of connections, but no transfer.
    assert!(end - used_up < 50_000, "{used_up} {end}");
    let account = folder.account("own");
    let number = |value: &toml::Value| value.as_integer().unwrap() as u64;
    let used = number(&account["account"]["used_bytes"]);
    let reading = number(&account["interface"]["last"]["bytes"]);
    assert_eq!(before + used, reading);
    let figures = format!("{before} {used} {}", end - reading);
    std::fs::write(folder.file("figures"), figures).unwrap();
}

#[test]
fn the_account_of_a_helper_has_the_octets_that_tcp_has_carried_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = Folder(folder.path().to_owned());
    let (proxy, socks5, origin) = (free_address(), free_address(), origin());
    for role in ["proxy", "helper"] {
        folder.trusts(role);
    }
    folder.write(
        "proxy",
        &format!("listen = \"{proxy}\"\n[destinations]\nallow = \"127.0.0.0/8\"\n"),
    );
    // The primary is on this side of the link: its pipe is a Unix socket.
    let pipe = format!("unix:{}", folder.file("pipe.sock").display());
    let far = format!("{GATEWAY}:{}", proxy.port());
    folder.write(
        "helper",
        &format!(
            "name = \"helper\"\nlisten = [\"127.0.0.1:4434\", \"{pipe}\"]\nproxies = \"{far}\"\n\
             max_bytes_per_month = \"1 GB\"\n"
        ),
    );
    folder.write(
        "primary",
        &format!(
            "on_proxy_loss = \"fail\"\npolicy = \"policy.toml\"\n\
             [proxy]\naddress = \"{far}\"\nid = \"{}\"\n\
             [[helper]]\nname = \"helper\"\naddress = \"{pipe}\"\nid = \"{}\"\n\
             [socks5]\nlisten = \"{socks5}\"\nopen = true\n",
            folder.id("proxy"),
            folder.id("helper")
        ),
    );
    let policy =
        "[policy]\nzone = \"UTC\"\n[[link]]\nname = \"helper\"\ncap = { bytes = \"1 GB\" }\n";
    std::fs::write(folder.file("policy.toml"), policy).unwrap();
    let _proxy = folder.start("proxy");
    let mut link = behind_a_link(&folder, "caps::helper");
    while !folder.file("pipe.sock").exists() {
        if link.try_wait().unwrap().is_some() {
            // Without namespaces.
            assert!(!ends(link), "the helper has ended");
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    let through = |down, up| transfer(over_socks(socks5, origin).unwrap(), down, up);
    for _ in 0..2 {
        // Over a restart of the primary.
        let mut primary = folder.start_primary();
        assert_eq!(through(1_500_000, 400_000), 1_500_000);
        assert_eq!(through(1_000, 0), 1_000);
        // What is under way when a primary stops, as the acknowledgement of a last FIN, is counted
        // by the helper alone.
        let lent = || folder.status("helper").unwrap().budget.unwrap().used_bytes;
        let mut last = (folder.used(), Instant::now());
        until("nothing is under way", || {
            let used = folder.used();
            if used != last.0 || used != lent() {
                last = (used, Instant::now());
            }
            last.1.elapsed() > Duration::from_secs(1)
        });
        primary.stop();
    }
    std::fs::write(folder.file("stop"), "").unwrap();
    assert!(ends(link));
    let used = folder.account("helper")["account"]["used_bytes"].as_integer();
    let used = used.unwrap() as u64;
    let text = std::fs::read_to_string(folder.file("helper.budget")).unwrap();
    let budget: toml::Value = toml::from_str(&text).unwrap();
    let lent = budget["used_bytes"].as_integer().unwrap() as u64;
    let carried = octets(&std::fs::read(folder.file("pcap/link.pcap")).unwrap());
    let logged = passed(&folder.file("log.csv"));
    eprintln!(
        "figure: account {used}, of the helper {lent}, octets of TCP in the capture {carried}; IP \
         packets in the log {logged}, {:.2} % more",
        100.0 * (logged as f64 / used as f64 - 1.0)
    );
    assert_eq!((used, lent), (carried, carried), "to the byte");
    assert!(used > 2 * 1_900_000);
}

#[test]
#[ignore = "a role of another test"]
fn helper() {
    if !is_called_for() {
        return;
    }
    let folder = here();
    let mut helper = folder.start("helper");
    until("the transfers are over", || folder.file("stop").exists());
    settled();
    helper.stop();
    settled();
}

/// Octets that TCP has carried, each once, by the sequence numbers in a capture of IP packets.
fn octets(capture: &[u8]) -> u64 {
    let mut rest = &capture[24..];
    // First number, octets so far, and all of them, once a FIN has told.
    let mut ends: HashMap<[u8; 12], (u32, u32, u32)> = HashMap::new();
    let word = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
    while let Some((head, more)) = rest.split_at_checked(16) {
        let length = u32::from_le_bytes(head[8..12].try_into().unwrap()) as usize;
        let (packet, more) = more.split_at(length);
        rest = more;
        if packet[0] >> 4 != 4 || packet[9] != 6 {
            continue;
        }
        let total = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
        let tcp = &packet[usize::from(packet[0] & 15) * 4..total];
        let payload = tcp.len() - usize::from(tcp[12] >> 4) * 4;
        let mut flow = [0; 12];
        flow[..8].copy_from_slice(&packet[12..20]);
        flow[8..].copy_from_slice(&tcp[..4]);
        let sequence = word(&tcp[4..8]);
        let first = (sequence.wrapping_add(1), 0, u32::MAX);
        let (first, most, all) = ends.entry(flow).or_insert(first);
        if tcp[13] & SYN != 0 {
            continue;
        }
        let end = sequence.wrapping_add(payload as u32).wrapping_sub(*first);
        if tcp[13] & FIN != 0 {
            *all = end;
        }
        // An acknowledgement with the number before the first octet is a keep-alive.
        if end < 1 << 31 {
            *most = end.max(*most);
        }
    }
    // A FIN takes a number of its own.
    let octets = |(_, most, all): &(u32, u32, u32)| u64::from(*most.min(all));
    ends.values().map(octets).sum()
}
