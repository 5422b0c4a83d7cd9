//! `mpbond up`: several roles of a device in one process, alone and beside another such device.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use mpbond::config::{TrustFile, TrustedDevice};
use mpbond_net::Identity;
use mpbond_net::control::{Message, RequestId};
use mpbond_testing::namespaces::{is_called_for, play, sh};
use mpbond_testing::{free_address, has_nft, has_tbf};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::apart::{Apart, connect_from, namespace};
use crate::daemons::{Bond, Daemon, WITHIN, Ways, byte, origin, until};
use crate::families::V4;
use crate::lending::{faults, holds_once};
use crate::visitor::{control, runtime, ticket};

/// Line of shell that runs the program as it is.
const PLAIN: &str = "exec \"$0\" \"$@\"";

/// A file of a device that is a primary and lends its link, as `up.toml`.
fn device(bond: &Bond, helper_more: &str) {
    let Bond {
        proxy,
        helper,
        socks5,
        ..
    } = bond;
    let text = format!(
        "identity = \"primary.pem\"\n\
         [primary]\nstatus_socket = \"primary.sock\"\n\
         [primary.proxy]\naddress = \"{proxy}\"\nid = \"{}\"\n\
         [[primary.path]]\nname = \"own\"\n\
         [primary.socks5]\nlisten = \"{socks5}\"\n\
         [helper]\nstatus_socket = \"helper.sock\"\nname = \"laptop\"\n\
         listen = \"{helper}\"\nproxies = \"{proxy}\"\n{helper_more}\n",
        bond.id("proxy")
    );
    std::fs::write(bond.file("up.toml"), text).unwrap();
}

fn start(bond: &Bond) -> Daemon {
    let daemon = bond.start_unseen("up", PLAIN);
    until("both roles answer", || {
        ["primary", "helper"]
            .iter()
            .all(|role| bond.status(role).is_some())
    });
    daemon
}

/// Fields of `/proc/PID/task/*/status`, one for each thread. One may end while they are read.
fn of_threads(process: u32, field: &str) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let text = |folder: PathBuf| std::fs::read_to_string(folder.join("status")).ok();
    let texts = tasks.filter_map(|task| text(task.ok()?.path()));
    let value = |text: String| {
        let line = text.lines().find(|l| l.starts_with(field)).unwrap();
        line.split_once(':').unwrap().1.trim().to_owned()
    };
    texts.map(value).collect()
}

#[test]
fn the_roles_of_a_device_are_one_process_that_is_confined_as_a_whole() {
    let bond = Bond::new(Ways::Own, "", "");
    device(&bond, "");
    let origin = origin();
    let _proxy = bond.start("proxy");
    let mut up = start(&bond);
    bond.joined(1);
    assert!(bond.works(origin));
    let of = |role| bond.status(role).unwrap();
    let (primary, helper) = (of("primary"), of("helper"));
    assert_eq!(
        (primary.process, helper.process),
        (up.process(), up.process())
    );
    assert_eq!(
        (primary.role.as_str(), helper.role.as_str()),
        ("primary", "helper")
    );
    for status in [&primary, &helper] {
        let sandbox = status.sandbox.as_ref().unwrap();
        assert!(sandbox.problems.is_empty(), "{sandbox:?}");
    }
    // The thread that has only waited, too.
    assert!(
        of_threads(up.process(), "NoNewPrivs")
            .iter()
            .all(|v| v == "1")
    );
    assert!(of_threads(up.process(), "Seccomp").iter().all(|v| v == "2"));
    // Either role is reloaded from its section.
    let file = bond.file("up.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text + "enabled = false\n").unwrap();
    up.signal(Signal::SIGHUP);
    let off = |note: &String| note.contains("lending is switched off");
    until("the helper lends no more", || {
        of("helper").notes.iter().any(off)
    });
    assert!(of("primary").needs_restart.is_empty());

    assert!(up.stop().success(), "{}", up.log());
    for socket in ["primary.sock", "primary.api", "helper.sock"] {
        assert!(!bond.file(socket).exists(), "{socket} is left");
    }
}

#[test]
fn a_role_that_does_not_start_stops_the_others_with_its_error() {
    let bond = Bond::new(Ways::Own, "", "");
    device(&bond, "");
    let _taken = std::net::TcpListener::bind(bond.helper).unwrap();
    let mut up = bond.start_unseen("up", PLAIN);
    assert_eq!(up.ends().code(), Some(1));
    let log = up.log();
    let last = log.lines().last().unwrap();
    assert!(last.contains("the helper: "), "{log}");
    assert!(last.contains(&bond.helper.to_string()), "{log}");
    for socket in ["primary.sock", "primary.api", "helper.sock"] {
        assert!(!bond.file(socket).exists(), "{socket} is left");
    }
    assert!(TcpStream::connect(bond.socks5).is_err());
}

#[test]
fn a_wrong_section_is_named_and_nothing_starts() {
    let bond = Bond::new(Ways::Own, "", "");
    for (more, problem) in [
        (
            "buffer = \"1 B\"",
            "up.toml:16: helper.buffer: from \"64 KiB\"",
        ),
        ("uplnk = 1", "up.toml:16: helper.uplnk: unknown key"),
        (
            "sandbox = false",
            "up.toml:16: helper.sandbox: belongs before the sections",
        ),
        ("[router]", "up.toml:16: router: unknown key"),
        ("[[helper]]", "up.toml:16: helper: duplicate key"),
    ] {
        device(&bond, more);
        let mut up = bond.start_unseen("up", PLAIN);
        assert_eq!(up.ends().code(), Some(2), "{more}");
        let log = up.log();
        assert!(
            log.lines().last().unwrap().contains(problem),
            "{problem}: {log}"
        );
        assert!(!bond.file("primary.sock").exists());
    }
}

#[test]
fn a_device_is_upgraded_as_a_whole() {
    let bond = Bond::new(Ways::Own, "", "");
    device(&bond, "");
    let origin = origin();
    let _proxy = bond.start("proxy");
    let mut up = start(&bond);
    bond.joined(1);
    let log = bond.file("next.log");
    let upgrade = |role| {
        let next = Command::new(env!("CARGO_BIN_EXE_mpbond"))
            .args(["upgrade", role, "--config"])
            .arg(bond.file("up.toml"))
            .stderr(std::fs::File::create(&log).unwrap())
            .output()
            .unwrap();
        (next.status.code(), std::fs::read_to_string(&log).unwrap())
    };
    // The helper would stay with the process before.
    let (code, text) = upgrade("primary");
    assert_eq!(code, Some(2), "{text}");
    assert!(
        text.contains("has 2 roles, not only that of a primary"),
        "{text}"
    );
    // A section that was removed, though its socket had a place of its own.
    let file = bond.file("up.toml");
    let whole = std::fs::read_to_string(&file).unwrap();
    let (primary, _) = whole.split_once("[helper]").unwrap();
    std::fs::write(&file, primary).unwrap();
    let (code, text) = upgrade("up");
    assert_eq!(code, Some(2), "{text}");
    assert!(
        text.contains("up.toml has sections for 1: restart"),
        "{text}"
    );
    assert_eq!(bond.status("helper").unwrap().process, up.process());
    std::fs::write(&file, &whole).unwrap();
    // Roles of two processes, as their own commands start them.
    let keys = "identity = \"other.pem\"\nstatus_socket = \"other.sock\"\n";
    let listen = free_address();
    let text = format!(
        "{keys}name = \"other\"\nlisten = \"{listen}\"\nproxies = \"{}\"\n",
        bond.proxy
    );
    std::fs::write(bond.file("other.toml"), text).unwrap();
    let mut other = bond.start_with("helper", "other", PLAIN);
    std::fs::write(&file, whole.replace("helper.sock", "other.sock")).unwrap();
    let (code, text) = upgrade("up");
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("stop both, and start both"), "{text}");
    assert!(other.stop().success());
    std::fs::write(&file, whole).unwrap();
    let (code, text) = upgrade("up");
    assert_eq!(code, Some(0), "{text}");
    let process = bond.status("primary").unwrap().process;
    let _next = Killed(process);
    assert_ne!(process, up.process());
    assert_eq!(bond.status("helper").unwrap().process, process);
    assert!(up.ends().success(), "{}", up.log());
    assert!(bond.works(origin));
}

/// The connections of a helper to proxies leave by the device's links, past the rules by which its
/// own primary takes the connections of applications.
#[test]
fn what_is_lent_is_not_intercepted_by_the_own_primary() {
    if has_nft() {
        play("-Urnm", "up::role_intercepted");
    }
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role_intercepted() {
    if !is_called_for() {
        return;
    }
    let mut apart = Apart::new();
    sh(&format!("ip addr add {V4}/32 dev lo"));
    apart.there(&["route add default via 10.9.0.1"]);
    apart.bond.helper.set_ip([10, 9, 0, 2].into());
    let bond = &apart.bond;
    // Another proxy than that of the primary, whose address the rules let through.
    let proxy = std::net::TcpListener::bind((V4, 4433)).unwrap();
    proxy.set_nonblocking(true).unwrap();
    let (own, helper, id) = (bond.proxy.port(), bond.helper, bond.id("proxy"));
    let text = format!(
        "identity = \"helper.pem\"\n\
         [primary]\nstatus_socket = \"primary.sock\"\non_proxy_loss = \"fail\"\n\
         [primary.proxy]\naddress = \"10.9.0.1:{own}\"\nid = \"{id}\"\n\
         [[primary.path]]\nname = \"own\"\n[primary.transparent]\n\
         [helper]\nstatus_socket = \"helper.sock\"\nlisten = \"{helper}\"\n\
         proxies = \"{V4}:4433\"\n"
    );
    std::fs::write(bond.file("up.toml"), text).unwrap();
    let line = format!("exec nsenter -t {} -n \"$0\" \"$@\"", apart.pid());
    let _up = bond.start_unseen("up", &line);
    until("both roles answer", || {
        bond.status("primary").is_some() && bond.status("helper").is_some()
    });
    // An application's connection is taken, and refused.
    let taken = connect_from(apart.pid(), (V4, 4433).into());
    let is_refused = |mut s: TcpStream| s.read(&mut [0; 1]).is_err();
    assert!(taken.is_err() || taken.is_ok_and(is_refused));
    assert!(proxy.accept().is_err(), "it came direct");
    let ask = Message::InitMp {
        request: RequestId(1),
        proxy: (V4, 4433).into(),
        others: Vec::new(),
        max_segment_bytes: None,
    };
    runtime().block_on(async {
        let mut control = control(bond).await;
        ticket(&mut control, &ask).await.unwrap();
    });
    until("the helper's connection arrives", || proxy.accept().is_ok());
}

/// A process that is killed when this is dropped.
struct Killed(u32);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.0 as i32), Signal::SIGKILL);
    }
}

/// A process that is killed and waited for when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Rate of each device's own link, and size and number of the files of each download.
const MBPS: u32 = 8;
const BYTES: usize = 2_000_000;
const FILES: usize = 3;

/// Pause between two files of a download, in which the other device has both links: somewhat longer
/// than a file takes over both.
const PAUSE: Duration = Duration::from_millis(1_300);

#[test]
fn two_devices_lend_to_each_other_while_both_download() {
    if has_tbf() {
        play("-Urnm", "up::role");
    }
}

/// A device in a network namespace of its own.
struct Device {
    holder: Child,
    up: Option<Child>,
    folder: std::path::PathBuf,
    socks5: SocketAddr,
}

impl Drop for Device {
    fn drop(&mut self) {
        for child in [self.up.as_mut(), Some(&mut self.holder)]
            .into_iter()
            .flatten()
        {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Device {
    /// Number `n` has the link `wanN` of this rate to the proxy (10.21.0.1).
    fn new(n: u8, folder: &Path) -> Self {
        let holder = namespace();
        let pid = holder.id();
        sh(&format!(
            "ip link add wan{n} type veth peer name wan netns {pid}
             ip addr add 10.21.{n}.1/24 dev wan{n}
             ip link set wan{n} up gso_max_segs 1
             tc qdisc add dev wan{n} root tbf rate {MBPS}mbit burst 16kb latency 200ms
             nsenter -t {pid} -n sh -ec 'ip link set lo up
                 ip addr add 10.21.{n}.2/24 dev wan
                 ip link set wan up
                 ip route add default via 10.21.{n}.1'"
        ));
        let folder = folder.join(format!("device{n}"));
        std::fs::create_dir(&folder).unwrap();
        Self {
            holder,
            up: None,
            folder,
            socks5: SocketAddr::from((Ipv4Addr::LOCALHOST, 1080)),
        }
    }

    fn id(&self) -> mpbond_net::DeviceId {
        id(&self.folder)
    }

    /// Writes the file of a device that uses and lends to the other one, and starts it.
    fn up(&mut self, own: u8, other: &Self, proxy: &Path) {
        let text = format!(
            "[primary]\nstatus_socket = \"primary.sock\"\n\
             [primary.proxy]\naddress = \"10.21.0.1:4433\"\nid = \"{}\"\n\
             [[primary.path]]\nname = \"own\"\ninterface = \"wan\"\n\
             [[primary.helper]]\nname = \"other\"\naddress = \"10.22.0.{}:4434\"\nid = \"{}\"\n\
             [helper]\nstatus_socket = \"helper.sock\"\nname = \"device {own}\"\n\
             listen = \"10.22.0.{own}:4434\"\nproxies = \"10.21.0.1:4433\"\n",
            id(proxy),
            3 - own,
            other.id()
        );
        let file = self.folder.join("device.toml");
        std::fs::write(&file, format!("identity = \"identity.pem\"\n{text}")).unwrap();
        trusts(&self.folder, &[other.id()]);
        let log = std::fs::File::create(self.folder.join("log")).unwrap();
        let pid = self.holder.id().to_string();
        let up = Command::new("nsenter")
            .args([
                "-t",
                &pid,
                "-n",
                env!("CARGO_BIN_EXE_mpbond"),
                "up",
                "--config",
            ])
            .arg(&file)
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.up = Some(up);
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    fn status(&self, role: &str) -> Option<mpbond::status::Status> {
        mpbond::status_socket::ask(&self.folder.join(format!("{role}.sock"))).ok()
    }

    fn has_both(&self) -> bool {
        let status = self.status("primary");
        let session = status.as_ref().and_then(|status| status.sessions.first());
        session.is_some_and(|s| s.subflows.iter().filter(|f| f.state == "up").count() == 2)
    }

    /// Octets that its helper has relayed to the other device.
    fn lent(&self) -> u64 {
        let status = self.status("helper").unwrap();
        status.relayed.iter().map(|r| r.bytes_down).sum()
    }

    /// A connection of an application, through the primary.
    fn connect(&self, to: SocketAddr) -> TcpStream {
        let mut s = connect_from(self.holder.id(), self.socks5).unwrap();
        let SocketAddr::V4(v4) = to else {
            panic!("IPv4 only")
        };
        let mut request = vec![5, 1, 0, 5, 1, 0, 1];
        request.extend(v4.ip().octets());
        request.extend(to.port().to_be_bytes());
        s.write_all(&request).unwrap();
        let mut reply = [0; 12];
        s.read_exact(&mut reply).unwrap();
        assert_eq!(reply[..4], [5, 0, 5, 0]);
        s
    }
}

fn id(folder: &Path) -> mpbond_net::DeviceId {
    Identity::load_or_create(folder.join("identity.pem"))
        .unwrap()
        .id()
}

fn trusts(folder: &Path, ids: &[mpbond_net::DeviceId]) {
    let file = TrustFile::beside(&folder.join("identity.pem"));
    for id in ids {
        let name = "another".to_owned();
        file.add(&TrustedDevice { id: *id, name }).unwrap();
    }
}

/// Downloads a file, and writes it; returns the time.
fn fetch(mut s: TcpStream, to: &Path) -> Duration {
    let began = Instant::now();
    s.set_read_timeout(Some(WITHIN)).unwrap();
    s.write_all(&(BYTES as u32).to_be_bytes()).unwrap();
    let mut file = vec![0; BYTES];
    s.read_exact(&mut file).unwrap();
    let took = began.elapsed();
    std::fs::write(to, file).unwrap();
    took
}

fn sha256(file: &Path) -> String {
    let text = sh(&format!("sha256sum {}", file.display()));
    text.split_whitespace().next().unwrap().to_owned()
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    sh("ip link set lo up
        ip addr add 10.21.0.1/32 dev lo");
    let mut devices = [Device::new(1, root), Device::new(2, root)];
    let [one, other] = devices.each_ref().map(|device| device.holder.id());
    sh(&format!(
        "nsenter -t {one} -n ip link add pipe type veth peer name pipe netns {other}
         nsenter -t {one} -n ip addr add 10.22.0.1/24 dev pipe
         nsenter -t {one} -n ip link set pipe up
         nsenter -t {other} -n ip addr add 10.22.0.2/24 dev pipe
         nsenter -t {other} -n ip link set pipe up"
    ));
    let origin = crate::daemons::origin_at((Ipv4Addr::new(10, 21, 0, 1), 0).into());
    let wanted = root.join("wanted");
    std::fs::write(&wanted, (0..BYTES).map(byte).collect::<Vec<_>>()).unwrap();
    let wanted = sha256(&wanted);

    // One after the other, without anything of mpbond's.
    let alone = devices.each_ref().map(|device| {
        let file = device.folder.join("alone");
        let took = fetch(connect_from(device.holder.id(), origin).unwrap(), &file);
        assert_eq!(sha256(&file), wanted);
        took
    });

    let proxy = root.join("proxy");
    std::fs::create_dir(&proxy).unwrap();
    trusts(&proxy, &devices.each_ref().map(Device::id));
    let file = proxy.join("proxy.toml");
    std::fs::write(
        &file,
        "identity = \"identity.pem\"\nstatus_socket = \"proxy.sock\"\nworkers = 1\n\
         listen = \"10.21.0.1:4433\"\n[destinations]\nallow = \"10.21.0.0/16\"\n",
    )
    .unwrap();
    let started = Command::new(env!("CARGO_BIN_EXE_mpbond"))
        .args(["proxy", "--config"])
        .arg(&file)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _proxy = Running(started);
    let [one, other] = &mut devices;
    one.up(1, other, &proxy);
    other.up(2, one, &proxy);
    for device in &devices {
        until(&format!("both paths: {}", device.log()), || {
            device.has_both()
        });
    }
    holds_once(|| {
        let before = devices.each_ref().map(Device::lent);
        let bonded = thread::scope(|scope| {
            let fetch_all = |(n, device): (u32, &Device)| {
                // One has both links while the other one pauses.
                thread::sleep(PAUSE * n);
                let files = (0..FILES).map(|number| {
                    let file = device.folder.join(number.to_string());
                    let took = fetch(device.connect(origin), &file);
                    thread::sleep(PAUSE);
                    assert_eq!(sha256(&file), wanted);
                    took
                });
                files.sum::<Duration>() / FILES as u32
            };
            let threads = [(0, &devices[0]), (1, &devices[1])]
                .map(|device| scope.spawn(move || fetch_all(device)));
            threads.map(|thread| thread.join().unwrap())
        });
        println!("alone {alone:?}, bonded {bonded:?}");
        let found = [0, 1].map(|n| {
            let (device, alone, bonded) = (&devices[n], alone[n], bonded[n]);
            let lent = device.lent() - before[n];
            faults([
                (
                    bonded < alone.mul_f64(0.85),
                    format!("{bonded:?} and not {alone:?}: {}", device.log()),
                ),
                (lent > (FILES * BYTES / 5) as u64, format!("lent {lent}")),
            ])
        });
        found.concat()
    });
    for device in &mut devices {
        let up = device.up.as_mut().unwrap();
        kill(Pid::from_raw(up.id() as i32), Signal::SIGTERM).unwrap();
        assert!(up.wait().unwrap().success());
        assert!(device.status("primary").is_none() && device.status("helper").is_none());
    }
}
