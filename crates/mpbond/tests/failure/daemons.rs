//! Daemons as processes, on loopback, and applications that use them.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use mpbond::config::{TrustFile, TrustedDevice};
use mpbond::status::Status;
use mpbond_net::{DeviceId, Identity};
use mpbond_testing::free_address as free;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Whatever is waited for has come by then, or never will.
pub const WITHIN: Duration = Duration::from_secs(30);

/// Waits until something holds.
pub fn until(what: &str, holds: impl FnMut() -> bool) {
    until_within(WITHIN, what, holds);
}

pub fn until_within(limit: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !holds() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A daemon; it is killed when dropped.
pub struct Daemon {
    child: Child,
    log: PathBuf,
}

impl Daemon {
    /// Number of its process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
        if signal == Signal::SIGSTOP {
            until("all threads stand still", || self.stands_still());
        }
    }

    /// Whether no thread goes on. On a busy machine, others than the one that gets a signal run for
    /// a while.
    fn stands_still(&self) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let mut states = tasks.filter_map(|task| {
            let text = std::fs::read_to_string(task.ok()?.path().join("stat")).ok()?;
            // After the name in brackets.
            text.rsplit_once(')')?.1.trim_start().chars().next()
        });
        states.all(|state| state == 'T')
    }

    /// Dies without a word of its own.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends SIGTERM and waits for the end.
    pub fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.ends()
    }

    /// Ends by itself.
    pub fn ends(&mut self) -> ExitStatus {
        let deadline = Instant::now() + WITHIN;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "it does not stop");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    pub fn logs(&self, words: &str) {
        let deadline = Instant::now() + WITHIN;
        while !self.log().contains(words) {
            let log = self.log();
            assert!(Instant::now() < deadline, "\"{words}\" is not in\n{log}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Voluntary context switches of all threads: each is a wake-up that ended in sleep again.
    pub fn wakeups(&self) -> u64 {
        let count = |task: std::fs::DirEntry| {
            let text = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
            let line = text
                .lines()
                .find(|l| l.starts_with("voluntary_ctxt_switches"));
            line.and_then(|l| l.split_whitespace().nth(1)?.parse::<u64>().ok())
        };
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        tasks.filter_map(|task| count(task.unwrap())).sum()
    }

    /// Processor time that it has used.
    pub fn processor_time(&self) -> Duration {
        let stat = format!("/proc/{}/stat", self.child.id());
        let text = std::fs::read_to_string(stat).unwrap();
        // After the name in brackets: state is the first field, utime the 12th, stime the 13th.
        let fields = text.rsplit_once(')').unwrap().1;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        Duration::from_millis(ticks * 10)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A daemon that was started by `mpbond upgrade`; it is killed when dropped.
pub struct Upgraded {
    pub process: u32,
    log: PathBuf,
}

impl Upgraded {
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Upgraded {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.process as i32), Signal::SIGKILL);
    }
}

/// The configurations and keys of a proxy, a helper and a primary that trust each other.
pub struct Bond {
    pub folder: tempfile::TempDir,
    pub proxy: SocketAddr,
    pub helper: SocketAddr,
    pub socks5: SocketAddr,
    pub http: SocketAddr,
}

/// Which ways the primary has.
#[derive(Clone, Copy, PartialEq)]
pub enum Ways {
    Own,
    Helper,
    Both,
}

impl Bond {
    /// `more` are further lines of the primary's file, before its tables, and of the proxy's.
    pub fn new(ways: Ways, primary_more: &str, proxy_more: &str) -> Self {
        let bond = Self {
            folder: tempfile::tempdir().unwrap(),
            proxy: free(),
            helper: free(),
            socks5: free(),
            http: free(),
        };
        for name in ["proxy", "helper"] {
            let file = TrustFile::beside(&bond.file(&format!("{name}.pem")));
            let (id, name) = (bond.id("primary"), "primary".to_owned());
            file.add(&TrustedDevice { id, name }).unwrap();
        }
        let Self {
            proxy,
            helper,
            socks5,
            http,
            ..
        } = &bond;
        let (proxy_id, helper_id) = (bond.id("proxy"), bond.id("helper"));
        bond.write(
            "proxy",
            &format!(
                "listen = \"{proxy}\"\nworkers = 1\n{proxy_more}\n\
                 [destinations]\nallow = \"127.0.0.0/8\"\n"
            ),
        );
        bond.write(
            "helper",
            &format!("name = \"helper\"\nlisten = \"{helper}\"\nproxies = \"{proxy}\"\n"),
        );
        let own = "[[path]]\nname = \"own\"\n";
        let through = format!(
            "[[helper]]\nname = \"helper\"\naddress = \"{helper}\"\nid = \"{helper_id}\"\n"
        );
        let ways = match ways {
            Ways::Own => own.to_owned(),
            Ways::Helper => through,
            Ways::Both => own.to_owned() + &through,
        };
        bond.write(
            "primary",
            &format!(
                "{primary_more}\n[proxy]\naddress = \"{proxy}\"\nid = \"{proxy_id}\"\n{ways}\
                 [socks5]\nlisten = \"{socks5}\"\nopen = true\n[http]\nlisten = \"{http}\"\n"
            ),
        );
        bond
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn id(&self, name: &str) -> DeviceId {
        let key = self.file(&format!("{name}.pem"));
        Identity::load_or_create(key).unwrap().id()
    }

    /// Starts another daemon of this role, with the same configuration but for its status socket,
    /// `next.sock`.
    pub fn start_next(&self, role: &str) -> Daemon {
        self.start_named(role, "next")
    }

    /// The same with the status socket `NAME.sock`.
    pub fn start_named(&self, role: &str, name: &str) -> Daemon {
        let text = std::fs::read_to_string(self.file(&format!("{role}.toml"))).unwrap();
        let text = text.replace(&format!("{role}.sock"), &format!("{name}.sock"));
        std::fs::write(self.file(&format!("{name}.toml")), text).unwrap();
        self.start_with(role, name, "exec \"$0\" \"$@\"")
    }

    /// Replaces the daemon that runs by a new process, as `systemctl reload` does.
    pub fn upgrade(&self, role: &str) -> Result<Upgraded, String> {
        self.upgrade_by(role, "exec \"$0\" \"$@\"")
    }

    /// The same by a line of shell, in which `"$0" "$@"` is the command.
    pub fn upgrade_by(&self, role: &str, line: &str) -> Result<Upgraded, String> {
        let log = self.file(&format!("{role}.log"));
        let out = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .unwrap();
        let done = Command::new("sh")
            .args(["-c", line, env!("CARGO_BIN_EXE_mpbond")])
            .args(["upgrade", role, "--config"])
            .arg(self.file(&format!("{role}.toml")))
            .args(["--", "--log", "debug"])
            .env_remove("RUST_LOG")
            .env("NOTIFY_SOCKET", self.file("notify.sock"))
            .stderr(out)
            .output()
            .unwrap();
        let log_text = std::fs::read_to_string(&log).unwrap();
        if !done.status.success() {
            return Err(log_text);
        }
        let process = self.status(role).unwrap().process;
        Ok(Upgraded { process, log })
    }

    fn write(&self, name: &str, text: &str) {
        let keys = format!("identity = \"{name}.pem\"\nstatus_socket = \"{name}.sock\"\n");
        std::fs::write(self.file(&format!("{name}.toml")), keys + text).unwrap();
    }

    /// Starts a daemon, and waits until it answers.
    pub fn start(&self, role: &str) -> Daemon {
        self.start_by(role, "exec \"$0\" \"$@\"")
    }

    /// The same by a line of shell, in which `"$0" "$@"` is the command.
    pub fn start_by(&self, role: &str, line: &str) -> Daemon {
        self.start_with(role, role, line)
    }

    /// The same with the files of this name.
    pub fn start_with(&self, role: &str, name: &str, line: &str) -> Daemon {
        let mut daemon = self.spawn(role, name, line);
        until(&format!("{name} comes up"), || {
            let ended = daemon.child.try_wait().unwrap();
            assert!(ended.is_none(), "{ended:?}: {}", daemon.log());
            self.status(name).is_some()
        });
        daemon
    }

    /// Starts a daemon by a line of shell, and does not wait until it answers.
    pub fn start_unseen(&self, role: &str, line: &str) -> Daemon {
        self.spawn(role, role, line)
    }

    fn spawn(&self, role: &str, name: &str, line: &str) -> Daemon {
        let log = self.file(&format!("{name}.log"));
        let out = File::options().create(true).append(true).open(&log);
        let child = Command::new("sh")
            .args(["-c", line, env!("CARGO_BIN_EXE_mpbond"), role])
            .args(["--log", "debug", "--config"])
            .arg(self.file(&format!("{name}.toml")))
            .env_remove("RUST_LOG")
            .stderr(out.unwrap())
            .spawn()
            .unwrap();
        Daemon { child, log }
    }

    pub fn status(&self, role: &str) -> Option<Status> {
        mpbond::status_socket::ask(&self.file(&format!("{role}.sock"))).ok()
    }

    /// Waits until the primary has so many subflows that work.
    pub fn joined(&self, subflows: usize) {
        self.joined_within(WITHIN, subflows);
    }

    /// The same within a limit.
    pub fn joined_within(&self, limit: Duration, subflows: usize) {
        until_within(limit, &format!("{subflows} subflows are up"), || {
            let status = self.status("primary");
            let up = |s: &Status| {
                let session = s.sessions.first()?;
                Some(session.subflows.iter().filter(|f| f.state == "up").count())
            };
            status.as_ref().and_then(up) == Some(subflows)
        });
    }

    /// An application's connection over SOCKS5, if it is granted.
    pub fn connect(&self, to: SocketAddr) -> Result<TcpStream, u8> {
        self.ask_socks5(&socks5_request(to))
    }

    /// The same by name.
    pub fn connect_to_name(&self, host: &str, port: u16) -> Result<TcpStream, u8> {
        let mut request = vec![5, 1, 0, 3, host.len() as u8];
        request.extend_from_slice(host.as_bytes());
        request.extend_from_slice(&port.to_be_bytes());
        self.ask_socks5(&request)
    }

    fn ask_socks5(&self, request: &[u8]) -> Result<TcpStream, u8> {
        ask_socks5_at(TcpStream::connect(self.socks5).unwrap(), request)
    }

    /// Whether a small exchange with an [`origin`] works.
    pub fn works(&self, origin: SocketAddr) -> bool {
        self.works_within(Duration::from_secs(10), origin)
    }

    /// Whether it works, and its answer takes no longer than this.
    pub fn works_within(&self, limit: Duration, origin: SocketAddr) -> bool {
        let Ok(mut s) = self.connect(origin) else {
            return false;
        };
        s.set_read_timeout(Some(limit)).unwrap();
        let mut got = [0; 1_000];
        s.write_all(&1_000_u32.to_be_bytes()).is_ok()
            && s.read_exact(&mut got).is_ok()
            && is_pattern(0, &got)
    }
}

/// An application's connection over a SOCKS5 front that it has reached.
pub fn socks5_at(front: TcpStream, to: SocketAddr) -> TcpStream {
    ask_socks5_at(front, &socks5_request(to)).unwrap()
}

fn socks5_request(to: SocketAddr) -> Vec<u8> {
    let SocketAddr::V4(to) = to else {
        panic!("IPv4 only")
    };
    let mut request = vec![5, 1, 0, 1];
    request.extend_from_slice(&to.ip().octets());
    request.extend_from_slice(&to.port().to_be_bytes());
    request
}

fn ask_socks5_at(mut s: TcpStream, request: &[u8]) -> Result<TcpStream, u8> {
    s.set_read_timeout(Some(WITHIN)).unwrap();
    s.write_all(&[5, 1, 0]).unwrap();
    let mut reply = [0; 2];
    s.read_exact(&mut reply).unwrap();
    assert_eq!(reply, [5, 0]);
    s.write_all(request).unwrap();
    let mut reply = [0; 10];
    s.read_exact(&mut reply).unwrap();
    match reply[1] {
        0 => Ok(s),
        code => Err(code),
    }
}

pub fn byte(at: usize) -> u8 {
    (at ^ (at >> 8) ^ (at >> 16)) as u8
}

pub fn is_pattern(from: usize, bytes: &[u8]) -> bool {
    let mut at = bytes.iter().enumerate();
    at.all(|(i, b)| *b == byte(from + i))
}

/// An origin that sends as many bytes as it is asked for in four octets, at some 5 MB/s.
pub fn origin() -> SocketAddr {
    origin_at((Ipv4Addr::LOCALHOST, 0).into())
}

/// The same at this address.
pub fn origin_at(address: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind(address).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut s) = stream else {
                continue;
            };
            thread::spawn(move || {
                let mut want = [0; 4];
                if s.read_exact(&mut want).is_err() {
                    return;
                }
                let want = u32::from_be_bytes(want) as usize;
                let mut at = 0;
                while at < want {
                    let end = (at + 50_000).min(want);
                    let bytes: Vec<u8> = (at..end).map(byte).collect();
                    if s.write_all(&bytes).is_err() {
                        return;
                    }
                    at = end;
                    if at < want {
                        thread::sleep(Duration::from_millis(10));
                    }
                }
                let _ = s.shutdown(Shutdown::Write);
                let _ = s.read(&mut [0; 1]);
            });
        }
    });
    address
}

/// A download that goes on aside.
pub struct Download {
    thread: thread::JoinHandle<(usize, std::io::Result<()>)>,
}

/// Begins one of `bytes`, and waits until some have come.
pub fn download(bond: &Bond, origin: SocketAddr, bytes: u32) -> Download {
    download_over(bond.connect(origin).unwrap(), bytes)
}

/// The same over this connection to an [`origin`].
pub fn download_over(mut s: TcpStream, bytes: u32) -> Download {
    s.set_read_timeout(Some(WITHIN)).unwrap();
    s.write_all(&bytes.to_be_bytes()).unwrap();
    let mut first = [0; 100_000];
    s.read_exact(&mut first).unwrap();
    assert!(is_pattern(0, &first));
    let thread = thread::spawn(move || {
        s.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        let mut at = first.len();
        let mut block = vec![0; 1 << 16];
        loop {
            match s.read(&mut block) {
                Ok(0) => return (at, Ok(())),
                Ok(n) => {
                    assert!(is_pattern(at, &block[..n]), "wrong bytes after {at}");
                    at += n;
                }
                Err(e) => return (at, Err(e)),
            }
        }
    });
    Download { thread }
}

impl Download {
    /// How many bytes came, or how it broke.
    pub fn end(self) -> std::io::Result<usize> {
        let (came, result) = self.end_with_count();
        result.map(|()| came)
    }

    /// How many bytes came before it ended or broke.
    pub fn end_with_count(self) -> (usize, std::io::Result<()>) {
        self.thread.join().unwrap()
    }

    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }
}

/// A path as text.
pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
