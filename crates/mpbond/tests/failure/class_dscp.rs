//! Traffic classes that follow the DSCP of applications' sockets.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use mpbond_testing::has_nft;
use mpbond_testing::namespaces::{is_called_for, play, sh};
use mpbond_testing::sshd;
use socket2::SockRef;

use crate::apart::Apart;
use crate::daemons::{Bond, Ways, until};
use crate::families::V4;
use crate::log_flood::start;

/// Code points in IP_TOS.
const CS1: u32 = 8 << 2;
const EF: u32 = 46 << 2;

const SSH_PORT: u16 = 2_222;

/// Whether both ends have an open stream of this class.
fn both_have(bond: &Bond, class: &str) -> bool {
    ["primary", "proxy"].iter().all(|role| {
        let status = bond.status(role).unwrap();
        let session = status.sessions.first();
        session.is_some_and(|s| s.streams_by_class.contains_key(class))
    })
}

/// Whether an end has an open stream of this class.
fn either_has(bond: &Bond, class: &str) -> bool {
    ["primary", "proxy"].iter().any(|role| {
        let status = bond.status(role).unwrap();
        let mut sessions = status.sessions.iter();
        sessions.any(|s| s.streams_by_class.contains_key(class))
    })
}

fn exchange(tcp: &mut TcpStream, origin: &mut TcpStream) {
    tcp.write_all(b"?").unwrap();
    origin.read_exact(&mut [0]).unwrap();
    origin.write_all(b"!").unwrap();
    tcp.read_exact(&mut [0]).unwrap();
}

/// A mark that is there when the client is accepted, one that is set before the first answer, and
/// one that is set later, while bytes move.
#[test]
fn the_class_follows_the_dscp_of_the_clients_socket() {
    let bond = Bond::new(Ways::Own, "", "");
    let _daemons = [start(&bond, "proxy"), start(&bond, "primary")];
    bond.joined(1);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to = listener.local_addr().unwrap();
    let mut client = bond.connect(to).unwrap();
    let (mut origin, _) = listener.accept().unwrap();
    until("it begins as bulk", || both_have(&bond, "bulk"));
    SockRef::from(&client).set_tos_v4(EF).unwrap();
    exchange(&mut client, &mut origin);
    until("the first answer shows it", || both_have(&bond, "realtime"));
    SockRef::from(&client).set_tos_v4(CS1).unwrap();
    until("later bytes show it", || {
        exchange(&mut client, &mut origin);
        both_have(&bond, "background")
    });
    assert!(!both_have(&bond, "realtime"));
    drop(client);

    // Before it says where it leads, the front has accepted it.
    let socket = TcpStream::connect(bond.http).unwrap();
    SockRef::from(&socket).set_tos_v4(EF).unwrap();
    let request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n");
    (&socket).write_all(request.as_bytes()).unwrap();
    until("it is there at the begin", || both_have(&bond, "realtime"));
}

#[test]
fn terminals_and_copies_of_openssh_have_their_classes() {
    if has_nft() && sshd().is_some() {
        play("-Urnm", "class_dscp::role");
    }
}

/// Ends with its value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server of SSH with a user `tester`. It runs as that user, in a namespace where no other
/// exists, and terminals have no group of their own.
fn serve_ssh(folder: &Path) -> Running {
    let at = folder.display();
    sh(&format!(
        "chmod 755 {at}
         ssh-keygen -q -t ed25519 -N \"\" -f {at}/host
         ssh-keygen -q -t ed25519 -N \"\" -f {at}/user
         cp /etc/passwd {at}/passwd
         echo \"tester:x:1000:1000::{at}:/bin/sh\" >> {at}/passwd
         mount --bind {at}/passwd /etc/passwd
         echo \"tester:x:1000:\" > {at}/group
         mount --bind {at}/group /etc/group"
    ));
    let config = format!(
        "ListenAddress {V4}:{SSH_PORT}\nHostKey {at}/host\nAuthorizedKeysFile {at}/user.pub\n\
         PidFile none\nStrictModes no\nSubsystem sftp internal-sftp\n"
    );
    fs::write(folder.join("sshd_config"), config).unwrap();
    let mut command = Command::new("unshare");
    command.args(["-U", "--map-user=1000", "--map-group=1000"]);
    command.arg(sshd().unwrap()).args(["-D", "-e", "-f"]);
    command.arg(folder.join("sshd_config"));
    let log = File::create(folder.join("sshd.log")).unwrap();
    let server = Running(command.stdin(Stdio::null()).stderr(log).spawn().unwrap());
    until("the server listens", || {
        TcpStream::connect((V4, SSH_PORT)).is_ok()
    });
    server
}

/// Code points of OpenSSH 7.8 to 10.0 for terminals and for the rest.
const USUAL: &str = "-o 'IPQoS=af21 cs1'";

/// Whether this client has Debian's code points by default: 4 for terminals, 2 for the rest.
fn has_those_of_debian() -> bool {
    let mut asked = Command::new("ssh");
    asked.args(["-F", "/dev/null", "-G", "host"]);
    let asked = asked.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&asked.stdout);
    text.lines().any(|line| line == "ipqos lowdelay throughput")
}

/// Starts a client in the primary's namespace, with these code points.
fn client(apart: &Apart, line: &str, code_points: &str) -> Running {
    let pid = apart.pid();
    let options = format!(
        "-F /dev/null -i {} -o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=no \
         -o BatchMode=yes -o LogLevel=ERROR {code_points}",
        apart.bond.file("user").display()
    );
    let line = line.replace("OPTIONS", &options);
    let mut command = Command::new("nsenter");
    command.args(["-t", &pid.to_string(), "-n", "sh", "-c"]);
    command.arg(format!("exec {line}"));
    let command = command.stdin(Stdio::piped()).stdout(Stdio::null());
    Running(command.spawn().unwrap())
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    let apart = Apart::with("[transparent]\nmode = \"redirect\"\n", "");
    sh(&format!("ip addr add {V4}/32 dev lo"));
    apart.there(&["route add default via 10.9.0.1"]);
    let bond = &apart.bond;
    let path = bond.file("proxy.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(path, text.replace("127.0.0.0/8", "11.0.0.0/8")).unwrap();
    let at = bond.file("host");
    let folder = at.parent().unwrap();
    let _server = serve_ssh(folder);
    let _proxy = bond.start("proxy");
    let _primary = apart.start_primary();
    bond.joined(1);
    let file = folder.join("file");
    File::create(&file).unwrap().set_len(100 << 20).unwrap();
    let debian = has_those_of_debian().then_some("");
    for code_points in [USUAL].into_iter().chain(debian) {
        see_classes(&apart, &file, code_points);
    }
}

/// A terminal and a copy of a file by clients with these code points.
fn see_classes(apart: &Apart, file: &Path, code_points: &str) {
    let bond = &apart.bond;
    let lines = "while sleep 0.1; do echo line; done";
    let to = format!("tester@{V4}");
    let terminal = format!("ssh OPTIONS -tt -p {SSH_PORT} {to} '{lines}'");
    let terminal = client(apart, &terminal, code_points);
    until("a terminal is interactive", || {
        both_have(bond, "interactive")
    });
    assert!(!both_have(bond, "background"));
    drop(terminal);
    // 2 Mbit/s, for as long as it is looked at.
    let file = file.display();
    let copy = format!("scp OPTIONS -l 2000 -P {SSH_PORT} {file} {to}:/dev/null");
    let copy = client(apart, &copy, code_points);
    until("a copy is background", || both_have(bond, "background"));
    drop(copy);
    until("both are over", || {
        ["interactive", "background"]
            .iter()
            .all(|class| !either_has(bond, class))
    });
}
