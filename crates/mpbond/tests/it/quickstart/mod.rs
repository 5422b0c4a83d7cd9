//! docs/quickstart.md, followed word by word: its commands are typed at terminals of three
//! machines, its answers answer their questions, and the result is what it promises.
//!
//! The machines are namespaces, each with a root file system over that of this machine: what is
//! installed and written in one is not in the others. [`SUBSTITUTES`] is everything that differs
//! from the document. `make quickstart-test` runs it at the pace of a person.

mod document;

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use document::{Section, agrees, sections};
use mpbond_testing::namespaces::{is_called_for, play, sh};
use mpbond_testing::{Need, has_tbf};

use crate::machine::{self, FOLDER, Machine};
use crate::person::{answer, answer_until, type_at};

/// Differences from the document, with their reasons. A command is followed by what is done in its
/// place.
const SUBSTITUTES: [(&str, &str); 8] = [
    (
        "git clone URL mpbond && cd mpbond",
        "nothing: the source is the one under test",
    ),
    (
        "make dist",
        "dist/deb/build packs the program under test: compiling takes minutes and a network",
    ),
    (
        "scp FILE me@HOST:",
        "the file is copied: no SSH server runs",
    ),
    (
        "ssh -t me@HOST COMMAND",
        "COMMAND is typed at a terminal of that machine: no SSH server runs",
    ),
    (
        "nmcli device wifi hotspot ...",
        "nothing: there is no radio; wlan0 of both is a virtual link with the addresses and routes \
         that NetworkManager gives",
    ),
    (
        "sudo COMMAND",
        "a script of that name runs COMMAND: the user is root",
    ),
    (
        "systemctl COMMAND",
        "a script of that name starts and stops the unit's program as its user: systemd does not run \
         in a namespace",
    ),
    (
        "URL-OF-A-LARGE-FILE",
        "http://files.example.org/large, on this machine",
    ),
];

/// Address of the server, as in the document.
const SERVER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
/// Address of the origin of downloads: a public one, which a proxy connects to.
const ORIGIN: Ipv4Addr = Ipv4Addr::new(93, 184, 216, 34);
/// Own address of the laptop.
const LAPTOP: Ipv4Addr = Ipv4Addr::new(10, 64, 1, 2);
/// Its address at the hotspot.
const HOTSPOT: Ipv4Addr = Ipv4Addr::new(10, 42, 0, 5);
const URL: &str = "http://files.example.org/large";
/// Size of the file: seconds on one link.
const FILE_BYTES: usize = 4 << 20;
/// Maximum duration of pairing laptop and second device.
const PAIRED_WITHIN: Duration = Duration::from_secs(180);

/// Ends of the links of laptop and second device to the Internet.
const LINKS: [&str; 2] = ["far0", "far1"];

/// Links of laptop and second device to the Internet, of 8 Mbit/s each way, the hotspot between
/// them, and the server's link. The Internet is this namespace.
const NETWORK: &str = "
    ip link set lo up
    ip addr add $ORIGIN/32 dev lo
    sysctl -qw net.ipv4.ip_forward=1
    ip link add far0 type veth peer name wwan0 netns $LAPTOP
    ip link add far1 type veth peer name usb0 netns $PHONE
    ip link add far2 type veth peer name eth0 netns $SERVER
    ip addr add 10.64.1.1/24 dev far0
    ip addr add 10.64.2.1/24 dev far1
    ip addr add 203.0.113.254/24 dev far2
    for link in far0 far1 far2; do ip link set $link up; done
    ip route add 10.42.0.0/24 via 10.64.2.2 onlink dev far1
    for link in far0 far1; do
        tc qdisc add dev $link root tbf rate 8mbit burst 32kb latency 100ms
    done";

#[test]
fn the_quick_start_is_true() {
    for (program, need) in [
        ("curl", Need::Curl),
        ("dpkg-deb", Need::Dpkg),
        ("apt", Need::Dpkg),
        ("systemd-tmpfiles", Need::Systemd),
    ] {
        if Command::new(program).arg("--version").output().is_err() {
            return need.is_missing(format_args!("there is no {program}"));
        }
    }
    if machine::can_be_made() && has_tbf() {
        play("-mn", "quickstart::role");
    }
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if is_called_for() {
        Quickstart::start().follow();
    }
}

/// The machines, and what has been seen on them.
struct Quickstart {
    server: Machine,
    phone: Machine,
    laptop: Machine,
    package: PathBuf,
    /// Addresses from which files were asked for.
    seen: Arc<Mutex<Vec<IpAddr>>>,
}

impl Quickstart {
    fn start() -> Self {
        machine::prepare();
        let package = package(Path::new(FOLDER));
        let [server, phone, laptop] = ["server", "phone", "laptop"].map(Machine::start);
        let ids = [("SERVER", &server), ("PHONE", &phone), ("LAPTOP", &laptop)];
        let mut lines = NETWORK.replace("$ORIGIN", &ORIGIN.to_string());
        for (variable, machine) in ids {
            lines = lines.replace(&format!("${variable}"), &machine.process.to_string());
        }
        sh(&lines);
        server.network(
            "ip addr add 203.0.113.1/24 dev eth0
             ip link set eth0 up
             ip route add default via 203.0.113.254",
        );
        phone.network(
            "ip addr add 10.64.2.2/24 dev usb0
             ip link set usb0 up
             ip route add default via 10.64.2.1
             tc qdisc add dev usb0 root tbf rate 8mbit burst 32kb latency 100ms",
        );
        laptop.network(
            "ip addr add 10.64.1.2/24 dev wwan0
             ip link set wwan0 up
             ip route add default via 10.64.1.1 metric 700
             tc qdisc add dev wwan0 root tbf rate 8mbit burst 32kb latency 100ms",
        );
        for machine in [&server, &laptop] {
            let mut hosts = std::fs::File::options();
            let mut hosts = hosts.append(true).open(machine.file("etc/hosts")).unwrap();
            writeln!(hosts, "{ORIGIN} files.example.org").unwrap();
        }
        Self {
            seen: origin(),
            server,
            phone,
            laptop,
            package,
        }
    }

    /// Opens the hotspot of the second device.
    fn hotspot(&self) {
        let (phone, laptop) = (self.phone.process, self.laptop.process);
        sh(&format!(
            "ip link add wlan0 netns {phone} type veth peer name wlan0 netns {laptop}"
        ));
        self.phone.network(
            "ip addr add 10.42.0.1/24 dev wlan0
             ip link set wlan0 up
             sysctl -qw net.ipv4.ip_forward=1",
        );
        self.laptop.network(
            "ip addr add 10.42.0.5/24 dev wlan0
             ip link set wlan0 up
             ip route add default via 10.42.0.1 metric 600",
        );
    }

    fn follow(self) {
        println!("In place of what the document says:");
        for (command, replacement) in SUBSTITUTES {
            println!("  {command}: {replacement}");
        }
        let text = repository().join("docs/quickstart.md");
        let mut sections = sections(&std::fs::read_to_string(text).unwrap());
        let mut section = |title: &str| {
            let next = sections.pop_front().unwrap();
            assert_eq!(next.title, title, "the document has another section");
            next
        };
        self.install(&section("1. Build once, install on all three"));

        let server = self.set_up_server(&section("2. The server"));
        for command in section("3. The hotspot").commands() {
            let is_hotspot = command.starts_with("nmcli device wifi hotspot ");
            assert!(is_hotspot, "{command}");
            self.hotspot();
        }
        let second = section("4. The second device");
        self.pair(&server, &second, &section("5. The laptop"));
        self.download(&section("6. The first bonded download"));
        let all_programs = section("7. All programs, without settings");
        self.files(&section("What has been written"));
        self.all_programs(&all_programs);
        self.ordinary_user();
    }

    /// An ordinary user has files and daemons of its own: a service would not read them.
    fn ordinary_user(&self) {
        let said = self.runs(
            &self.server,
            "install -d -o nobody /tmp/nobody
             setpriv --reuid nobody --regid nogroup --clear-groups env HOME=/tmp/nobody \
                 mpbond setup --role proxy --server 203.0.113.1",
        );
        let hint =
            "Written: /tmp/nobody/.config/mpbond/proxy.toml\nStart the proxy: mpbond proxy\n";
        assert!(said.contains(hint), "{said}");
    }

    /// Sets the server up; returns what it shows.
    fn set_up_server(&self, section: &Section) -> String {
        let mut terminal = type_at(&self.server, &only(section));
        answer(&mut [(&mut terminal, section.dialogue())], |text, _| {
            text.to_owned()
        });
        println!("{}", terminal.screen());
        terminal.screen()
    }

    /// Sets laptop and second device up, and pairs them.
    fn pair(&self, server: &str, second: &Section, laptop: &Section) {
        let begun = Instant::now();
        let mut waits = type_at(&self.phone, &only(second));
        answer_until(
            &mut [(&mut waits, second.dialogue())],
            |text, _| text.to_owned(),
            |screens| screens.iter().any(|screen| screen.contains("MPBOND:PAIR/")),
        );
        let commands = laptop.commands();
        let [routes, setup, doctor] = &commands[..] else {
            panic!("three commands: {commands:?}");
        };
        let routes = self.runs(&self.laptop, routes);
        let mut defaults = routes.lines().filter(|line| line.starts_with("default "));
        assert!(defaults.any(|line| line.contains("dev wwan0")), "{routes}");
        let mut calls = type_at(&self.laptop, setup);
        let mut both = [
            (&mut waits, second.dialogue()),
            (&mut calls, laptop.dialogue()),
        ];
        answer(&mut both, |text, screens| {
            let screens = screens.iter().map(String::as_str);
            filled(text, &screens.chain([server]).collect::<Vec<_>>())
        });
        let took = begun.elapsed();
        println!("{}\n{}", waits.screen(), calls.screen());
        println!(
            "laptop and second device were set up and paired in {:.1} s",
            took.as_secs_f64()
        );
        assert!(took < PAIRED_WITHIN, "{took:?}");
        let found = self.runs(&self.laptop, doctor);
        assert!(found.contains("nothing fails"), "{found}");
    }

    /// Installs the package on every machine, as the document does on one.
    fn install(&self, section: &Section) {
        let host = format!("me@{SERVER}");
        let mut installed = 0;
        for command in section.commands() {
            if command.starts_with("git clone ") || command == "make dist" {
                continue;
            }
            if let Some(copy) = command.strip_prefix("scp ") {
                let (file, to) = copy.split_once(' ').unwrap();
                assert_eq!(to, format!("{host}:"));
                let name = Path::new(file).file_name().unwrap().to_str().unwrap();
                for machine in [&self.server, &self.phone, &self.laptop] {
                    let to = machine.file(&format!("root/{name}"));
                    std::fs::copy(&self.package, to).unwrap();
                }
            } else if let Some(command) = command.strip_prefix(&format!("ssh -t {host} ")) {
                let machines = [&self.server, &self.phone, &self.laptop];
                let mut terminals = machines.map(|machine| type_at(machine, command));
                let mut all: Vec<_> = terminals.iter_mut().map(|t| (t, Vec::new())).collect();
                answer(&mut all, |_, _| String::new());
                installed += all.len();
            } else {
                panic!("an unknown command: {command}");
            }
        }
        assert_eq!(installed, 3);
    }

    /// Types a command that has no questions; returns its screen.
    fn runs(&self, machine: &Machine, command: &str) -> String {
        let mut terminal = type_at(machine, command);
        answer(&mut [(&mut terminal, Vec::new())], |_, _| String::new());
        terminal.screen()
    }

    /// Duration of a command on the laptop, from when it has been typed.
    fn duration(&self, command: &str) -> Duration {
        let mut terminal = type_at(&self.laptop, command);
        let begun = Instant::now();
        answer(&mut [(&mut terminal, Vec::new())], |_, _| String::new());
        begun.elapsed()
    }

    /// A download over both links is faster than over one, and comes from the server.
    fn download(&self, section: &Section) {
        let commands = section.commands();
        let [download, status, others @ ..] = &commands[..] else {
            panic!("two commands or more: {commands:?}");
        };
        let download = download.replace("URL-OF-A-LARGE-FILE", URL);
        let direct = self.duration(&format!("curl --interface wwan0 -o /dev/null {URL}"));
        let mut watch = type_at(&self.laptop, status);
        let before = LINKS.map(sent);
        let bonded = self.duration(&download);
        let carried = LINKS.map(sent);
        watch.shows("wwan0");
        watch.shows("phone");
        watch.interrupt();
        println!(
            "a download takes {:.1} s over one link, and {:.1} s over both",
            direct.as_secs_f64(),
            bonded.as_secs_f64()
        );
        let octets = [carried[0] - before[0], carried[1] - before[1]];
        let least = octets.into_iter().min().unwrap();
        // On a busy machine, a link may carry less than it could.
        assert!(least > FILE_BYTES as u64 / 100, "{octets:?} octets");
        if bonded >= direct || least < FILE_BYTES as u64 / 4 {
            let why = format_args!("the links were not used well: {octets:?} octets");
            Need::Idle.is_missing(why);
        }
        let seen = self.seen.lock().unwrap();
        assert_eq!(*seen, [IpAddr::from(LAPTOP), IpAddr::from(SERVER)]);
        for command in others {
            self.runs(&self.laptop, command);
        }
    }

    /// A program without settings uses both links while the primary runs, and connects directly
    /// after that.
    fn all_programs(&self, section: &Section) {
        let commands = section.commands();
        let [setup, download, stop] = &commands[..] else {
            panic!("three commands: {commands:?}");
        };
        let mut terminal = type_at(&self.laptop, setup);
        answer(&mut [(&mut terminal, section.dialogue())], |text, _| {
            text.to_owned()
        });
        println!("{}", terminal.screen());
        let download = download.replace("URL-OF-A-LARGE-FILE", URL);
        self.seen.lock().unwrap().clear();
        let before = LINKS.map(sent);
        self.runs(&self.laptop, &download);
        let carried = LINKS.map(sent);
        for ((link, before), after) in LINKS.iter().zip(before).zip(carried) {
            // On a busy machine, a link may carry less than it could.
            let octets = after - before;
            assert!(octets > FILE_BYTES as u64 / 100, "{link}: {octets} octets");
        }
        self.runs(&self.laptop, stop);
        self.runs(&self.laptop, &download);
        // Then by the default route of the lowest metric: that of the hotspot, without NAT here.
        let seen = self.seen.lock().unwrap();
        assert_eq!(*seen, [IpAddr::from(SERVER), IpAddr::from(HOTSPOT)]);
    }

    /// The files are those of the document.
    fn files(&self, section: &Section) {
        let machines = [
            (&self.server, "proxy"),
            (&self.phone, "helper"),
            (&self.laptop, "primary"),
        ];
        let shown = section.files();
        assert_eq!(shown.len(), machines.len());
        for ((machine, role), shown) in machines.into_iter().zip(shown) {
            let path = machine.file(&format!("etc/mpbond/{role}.toml"));
            let text = std::fs::read_to_string(path).unwrap();
            let written = toml::Value::Table(text.parse().unwrap());
            assert!(
                agrees(&written, &toml::Value::Table(shown.clone())),
                "the document has\n{shown}\nand written is\n{text}"
            );
        }
    }
}

/// The only command of a section.
fn only(section: &Section) -> String {
    match &section.commands()[..] {
        [command] => command.clone(),
        several => panic!("one command: {several:?}"),
    }
}

/// An answer of the document, with what devices have shown in the place of examples: a text that
/// goes on after "...", and a code.
fn filled(answer: &str, screens: &[&str]) -> String {
    let is_code = |word: &str| {
        word.len() == 9
            && word.char_indices().all(|(i, c)| match i {
                4 => c == '-',
                _ => c.is_ascii_digit(),
            })
    };
    let words = || screens.iter().flat_map(|screen| screen.split_whitespace());
    let answer = answer.split(' ').map(|word| {
        let found = match word.strip_suffix("...") {
            Some(beginning) => words().find(|shown| shown.starts_with(beginning)),
            None if is_code(word) => words().find(|shown| is_code(shown)),
            None => Some(word),
        };
        found.unwrap_or_else(|| panic!("no device has shown \"{word}\""))
    });
    answer.collect::<Vec<_>>().join(" ")
}

/// Octets that a link of this namespace has carried towards a device.
fn sent(link: &str) -> u64 {
    let path = format!("/sys/class/net/{link}/statistics/tx_bytes");
    std::fs::read_to_string(path)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

fn repository() -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    path.canonicalize().unwrap()
}

/// The Debian package of the program under test, without its symbols.
fn package(folder: &Path) -> PathBuf {
    let programs = folder.join("programs");
    std::fs::create_dir(&programs).unwrap();
    let built = sh(&format!(
        "strip -o {programs}/mpbond {program}
         DEB_COMPRESSION=none SOURCE_DATE_EPOCH=1700000000 \
             {repository}/dist/deb/build {programs} $(dpkg --print-architecture) {folder}",
        programs = programs.display(),
        program = env!("CARGO_BIN_EXE_mpbond"),
        repository = repository().display(),
        folder = folder.display(),
    ));
    PathBuf::from(built.trim())
}

/// Serves the file, one connection at a time; returns the list of those who ask for it.
fn origin() -> Arc<Mutex<Vec<IpAddr>>> {
    let listener = TcpListener::bind((ORIGIN, 80)).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let clients = Arc::clone(&seen);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = BufReader::new(&stream).lines();
            let Some(Ok(first)) = request.next() else {
                continue;
            };
            if !first.starts_with("GET /large ") {
                continue;
            }
            while request
                .next()
                .is_some_and(|l| l.is_ok_and(|l| !l.is_empty()))
            {}
            clients
                .lock()
                .unwrap()
                .push(stream.peer_addr().unwrap().ip());
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {FILE_BYTES}\r\n\r\n");
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(&vec![b'x'; FILE_BYTES]);
        }
    });
    seen
}
