//! `mpbond untrust` while a session lives: what is done for that device ends at once, and what is
//! done for others goes on.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use mpbond::config::{
    HelperConfig, PrimaryConfig, ProxyConfig, TrustFile, TrustStore, TrustedDevice,
};
use mpbond::status::Status;
use mpbond_net::{DeviceId, Identity};
use mpbond_testing::free_address as free;

/// All of this takes milliseconds (`--nocapture` shows them). A busy machine gets more, but less
/// than any time-out of the daemons.
const WITHIN: Duration = Duration::from_secs(5);

/// A server that sends without end.
fn origin() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                while stream.write_all(&[7; 1000]).is_ok() {
                    thread::sleep(Duration::from_millis(5));
                }
            });
        }
    });
    address
}

/// Running daemons; they end with the test's process.
struct Bond {
    folder: tempfile::TempDir,
    proxy: SocketAddr,
    helper: SocketAddr,
}

impl Bond {
    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn id(&self, name: &str) -> DeviceId {
        let key = self.file(&format!("{name}.pem"));
        Identity::load_or_create(key).unwrap().id()
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let file = self.file(&format!("{name}.toml"));
        let keys = format!("identity = \"{name}.pem\"\nstatus_socket = \"{name}.sock\"\n");
        std::fs::write(&file, keys + text).unwrap();
        file
    }

    fn trusted(&self, name: &str) -> TrustFile {
        TrustFile::beside(&self.file(&format!("{name}.pem")))
    }

    /// A proxy and a helper that trust these devices.
    fn start(primaries: &[&str]) -> Self {
        let bond = Self {
            folder: tempfile::tempdir().unwrap(),
            proxy: free(),
            helper: free(),
        };
        for name in ["proxy", "helper"] {
            for primary in primaries {
                let id = bond.id(primary);
                let name_ = (*primary).to_owned();
                bond.trusted(name)
                    .add(&TrustedDevice { id, name: name_ })
                    .unwrap();
            }
        }
        let text = format!(
            "listen = \"{}\"\nworkers = 2\n[destinations]\nallow = \"127.0.0.0/8\"\n",
            bond.proxy
        );
        let config = ProxyConfig::load(&bond.write("proxy", &text)).unwrap();
        let trust = Arc::new(TrustStore::new(&config.identity, []));
        thread::spawn(move || mpbond::proxy::run(config, trust).unwrap());
        let text = format!(
            "listen = \"{}\"\nproxies = \"{}\"\n",
            bond.helper, bond.proxy
        );
        let config = HelperConfig::load(&bond.write("helper", &text)).unwrap();
        let trust = Arc::new(TrustStore::new(&config.identity, []));
        thread::spawn(move || mpbond::helper::run(config, trust).unwrap());
        bond
    }

    /// A primary with a path of its own and the helper; gives its SOCKS5 address.
    fn primary(&self, name: &str) -> SocketAddr {
        let socks5 = free();
        let text = format!(
            "on_proxy_loss = \"fail\"\n[proxy]\naddress = \"{}\"\nid = \"{}\"\n[[path]]\nname = \"own\"\n\
             [[helper]]\nname = \"helper\"\naddress = \"{}\"\nid = \"{}\"\n[socks5]\nlisten = \"{socks5}\"\n",
            self.proxy,
            self.id("proxy"),
            self.helper,
            self.id("helper"),
        );
        let config = PrimaryConfig::load(&self.write(name, &text)).unwrap();
        thread::spawn(move || mpbond::primary::run(config).unwrap());
        let up = |s: &Status| s.sessions.iter().any(|s| s.subflows.len() == 2);
        self.wait(name, Duration::from_secs(20), up);
        socks5
    }

    /// How long it takes until a daemon's status is as wanted.
    fn wait(&self, name: &str, most: Duration, wanted: impl Fn(&Status) -> bool) -> Duration {
        let started = Instant::now();
        loop {
            let status = mpbond::status_socket::ask(&self.file(&format!("{name}.sock")));
            if status.as_ref().is_ok_and(&wanted) {
                return started.elapsed();
            }
            assert!(started.elapsed() < most, "it stays like this: {status:#?}");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

fn connect(socks5: SocketAddr, to: SocketAddr) -> TcpStream {
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut s = loop {
        match TcpStream::connect(socks5) {
            Ok(s) => break s,
            Err(e) => assert!(Instant::now() < deadline, "{e}"),
        }
        thread::sleep(Duration::from_millis(10));
    };
    s.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let SocketAddr::V4(to) = to else {
        panic!("IPv4 only")
    };
    let port = to.port().to_be_bytes();
    let request = [&[5, 1, 0, 5, 1, 0, 1][..], &to.ip().octets(), &port].concat();
    s.write_all(&request).unwrap();
    let mut reply = [0; 12];
    s.read_exact(&mut reply).unwrap();
    assert_eq!((reply[0], reply[1], reply[3]), (5, 0, 0));
    s.read_exact(&mut [0; 3000]).unwrap();
    s
}

fn relays(status: &Status, of: DeviceId) -> usize {
    let of = of.to_string();
    status.relays.iter().filter(|r| r.primary == of).count()
}

fn remove(bond: &Bond, at: &str, who: DeviceId) {
    assert!(bond.trusted(at).remove(&who).unwrap());
}

fn is_open(path: &Path) -> bool {
    mpbond::status_socket::ask(path).is_ok()
}

#[test]
fn a_live_session_of_an_untrusted_device_ends_at_once() {
    let origin = origin();
    let bond = Bond::start(&["laptop", "tablet"]);
    let (laptop, tablet) = (bond.id("laptop"), bond.id("tablet"));
    let mut of_laptop = connect(bond.primary("laptop"), origin);
    let mut of_tablet = connect(bond.primary("tablet"), origin);
    bond.wait("proxy", Duration::from_secs(10), |s| s.sessions.len() == 2);
    bond.wait("helper", Duration::from_secs(10), |s| {
        relays(s, laptop) == 1 && relays(s, tablet) == 1
    });

    // The helper first: the session lives on over the primary's own path.
    remove(&bond, "helper", laptop);
    let took = bond.wait("helper", WITHIN, |s| relays(s, laptop) == 0);
    println!("helper: {took:?}");
    let own_only = |s: &Status| s.sessions.iter().all(|s| s.subflows.len() == 1);
    bond.wait("laptop", WITHIN, own_only);
    of_laptop.read_exact(&mut [0; 3000]).unwrap();

    remove(&bond, "proxy", laptop);
    let took = bond.wait("proxy", WITHIN, |s| s.sessions.len() == 1);
    println!("proxy: {took:?}");
    // Its applications do not wait, and the log names the remedy.
    let asked = Instant::now();
    let mut block = vec![0; 1 << 16];
    let end = loop {
        match of_laptop.read(&mut block) {
            Ok(0) => panic!("it looks like an end"),
            Ok(_) => assert!(asked.elapsed() < WITHIN, "it goes on"),
            Err(e) => break e.kind(),
        }
    };
    println!("application: {:?}", asked.elapsed());
    assert_eq!(end, std::io::ErrorKind::ConnectionReset);
    assert!(asked.elapsed() < WITHIN);
    let advice = format!("`mpbond trust {laptop}` on the proxy");
    bond.wait("laptop", WITHIN, |s| {
        s.notes.iter().any(|note| note.contains(&advice))
    });

    // It tries to rejoin and is refused; other devices are not affected.
    thread::sleep(Duration::from_millis(1500));
    bond.wait("proxy", WITHIN, |s| s.sessions.len() == 1);
    bond.wait("helper", WITHIN, |s| {
        relays(s, laptop) == 0 && relays(s, tablet) == 1
    });
    of_tablet.read_exact(&mut [0; 100_000]).unwrap();
    bond.wait("tablet", WITHIN, |s| s.sessions[0].subflows.len() == 2);
    assert!(
        is_open(&bond.file("laptop.sock")),
        "the primary itself goes on"
    );
}
