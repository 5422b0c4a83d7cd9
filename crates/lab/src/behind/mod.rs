//! Any program behind one emulated link.
//!
//! Two hosts: `inside`, where the program runs, and `outside`, at the link's
//! far end. Everything that comes out of the link there is taken by a relay in
//! user space, which connects onward from the caller's own network
//! ([`relay`]). So no rule, route or device is ever made in the caller's
//! network, nothing is left there however this ends, and it is the same for
//! root and for ordinary users. The price: TCP connections end at the link's
//! far end and are continued by others, and beside TCP only DNS is carried.

mod relay;

use std::ffi::OsString;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::str::FromStr;
use std::sync::Arc;

use mpbond_radio::Profiles;
use mpbond_sim::link::{LinkSpec, Medium, Shared, SharedMedium, SharedRadio};
use nix::mount::{MsFlags, mount};
use rtnetlink::RouteMessageBuilder;
use rtnetlink::packet_route::route::RouteScope;

use crate::conditions::told_if_late;
use crate::device::Means;
use crate::error::{Doing, Error, Result};
use crate::foreground;
use crate::host::Host;
use crate::isolate::Inside;
use crate::links::read_recording;
use crate::player::{Clock, Logs, PlayedLink, Player};

/// Addresses of the link's ends: of the block for networks between customers
/// and providers (RFC 6598), which hardly any caller's network uses.
const INSIDE: Ipv4Addr = Ipv4Addr::new(100, 64, 77, 1);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(100, 64, 77, 2);
const DEVICE: &str = "link";

/// A link for one program.
#[derive(Debug, Clone)]
pub struct BehindOptions {
    /// Towards the program.
    pub down: LinkSpec,
    /// Away from it.
    pub up: LinkSpec,
    /// Both directions share airtime.
    pub half_duplex: bool,
    /// Profile of the program's radio.
    pub radio: Option<String>,
    /// Fixes losses and jitter.
    pub seed: u64,
    /// What is written down of every packet.
    pub logs: Logs,
    /// Services behind the gateway's ports; other ports of it lead to the same
    /// ports of the caller's loopback address.
    pub forwards: Vec<Forward>,
    /// The program and its arguments; the person's shell when empty.
    pub program: Vec<OsString>,
}

/// `PORT=HOST:PORT`: connections to the gateway's port go there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forward {
    /// The gateway's port.
    pub port: u16,
    /// Where to, as the caller resolves it: `HOST:PORT`.
    pub to: String,
}

impl FromStr for Forward {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" is no forward: write PORT=HOST:PORT");
        let (port, to) = text.split_once('=').ok_or_else(wrong)?;
        let (host, far_port) = to.rsplit_once(':').ok_or_else(wrong)?;
        let port: u16 = port.parse().map_err(|_| wrong())?;
        let far_port: u16 = far_port.parse().map_err(|_| wrong())?;
        if port == 0 || far_port == 0 || host.is_empty() {
            return Err(wrong());
        }
        Ok(Self {
            port,
            to: to.to_owned(),
        })
    }
}

/// Runs a program behind an emulated link and returns its exit code.
///
/// In its environment `MPBOND_GATEWAY` is the address at the link's far end;
/// connections to it go to the caller's own loopback services, or where a
/// [`Forward`] says.
///
/// Like [`crate::run()`], this runs the calling program a second time,
/// isolated; see [`crate::isolate::isolated`].
///
/// # Errors
/// [`Error::Experiment`] for a recording or radio that is not there,
/// [`Error::Missing`] where the machine lacks something, others when the link
/// cannot be made.
pub fn behind(options: &BehindOptions) -> Result<u8> {
    let resolve = |what: &str, spec: &LinkSpec| {
        spec.resolve(|file| read_recording(Path::new(file)))
            .map_err(|e| Error::Experiment(format!("{what}: {e}")))
    };
    let (down, up) = (
        resolve("--down", &options.down)?,
        resolve("--up", &options.up)?,
    );
    let shared = shared(options)?;
    let forwards = options.forwards.clone();
    let serve = move |line| relay::serve(line, GATEWAY, forwards);
    foreground::with_terminal(Some(Box::new(serve)), |isolated| {
        let (inside, outside) = (Host::new("inside")?, Host::new("outside")?);
        for host in [&inside, &outside] {
            host.refuse_ipv6();
            for key in ["all", "default"] {
                host.sysctl(&format!("net.ipv4.conf.{key}.rp_filter"), "0")?;
            }
        }
        let mut means = Means::choose()?;
        let near = means.make(&inside, DEVICE)?;
        let far = means.make(&outside, DEVICE)?;
        connect(&inside, INSIDE, Ipv4Addr::UNSPECIFIED, 0)?;
        connect(&outside, GATEWAY, INSIDE, 32)?;
        hand_over(&outside, isolated)?;
        resolve_at_the_gateway(isolated)?;
        let link = PlayedLink {
            name: DEVICE.to_owned(),
            near,
            far,
            down,
            up,
            shared,
        };
        let player = Player::start(vec![link], Clock::start(), options.seed, &options.logs)?;
        player.begin(Vec::new())?;
        let env = [("MPBOND_GATEWAY", GATEWAY.to_string())];
        let code = foreground::run(&inside, &options.program, &env);
        let conditions = player.conditions()?;
        player.stop()?;
        told_if_late(&conditions);
        Ok(code)
    })
}

fn shared(options: &BehindOptions) -> Result<Shared> {
    let radio = |name: &String| -> Result<SharedRadio> {
        let profiles = Profiles::shipped().map_err(Error::run)?;
        let profile = profiles
            .radio(name)
            .map_err(|e| Error::Experiment(format!("--radio: {e}")))?;
        Ok(SharedRadio {
            owner: "inside".to_owned(),
            profile: Arc::new(profile.clone()),
        })
    };
    Ok(Shared {
        medium: options.half_duplex.then(|| SharedMedium {
            name: DEVICE.to_owned(),
            medium: Medium::default(),
            half_duplex: true,
        }),
        near_radio: options.radio.as_ref().map(radio).transpose()?,
        far_radio: None,
    })
}

/// Gives the link's device on `host` an address, and a route over it.
fn connect(host: &Host, own: Ipv4Addr, to: Ipv4Addr, prefix: u8) -> Result<()> {
    host.netlink("set its address and route", async |nl| {
        for name in ["lo", DEVICE] {
            let index = index(name)?;
            let up = rtnetlink::LinkUnspec::new_with_index(index).up().build();
            nl.link().set(up).execute().await?;
        }
        let link = index(DEVICE)?;
        nl.address()
            .add(link, IpAddr::V4(own), 32)
            .execute()
            .await?;
        let route = RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(to, prefix)
            .output_interface(link)
            .scope(RouteScope::Link)
            .build();
        nl.route().add(route).execute().await
    })
}

fn index(name: &str) -> Result<u32, rtnetlink::Error> {
    nix::net::if_::if_nametoindex(name)
        .map_err(|e| rtnetlink::Error::NamespaceError(format!("no device {name}: {e}")))
}

/// Makes all TCP and DNS that comes out of the link go to two sockets, and
/// gives those to the relay.
fn hand_over(outside: &Host, isolated: &Inside) -> Result<()> {
    let (tcp, dns) = outside
        .enter(|| -> std::io::Result<_> {
            let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
            Ok((TcpListener::bind(any)?, UdpSocket::bind(any)?))
        })?
        .doing("cannot listen at the link's far end")?;
    let ports = tcp
        .local_addr()
        .and_then(|tcp| Ok((tcp.port(), dns.local_addr()?.port())))
        .doing("cannot listen at the link's far end")?;
    redirect(outside, ports.0, ports.1)?;
    relay::send(isolated.line(), [tcp.as_fd(), dns.as_fd()])
        .doing("cannot hand sockets to the relay")
}

fn redirect(outside: &Host, tcp: u16, dns: u16) -> Result<()> {
    // nft wants closing braces on lines of their own.
    let rules = format!(
        "table ip link {{
            chain arriving {{
                type nat hook prerouting priority -100; policy accept;
                meta l4proto tcp redirect to :{tcp}
                udp dport 53 redirect to :{dns}
            }}
        }}
        "
    );
    let missing = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::NotFound => Error::Missing(
            "nft is missing, with which connections are led out of the link: install the package \
             nftables (apt-get install nftables)"
                .into(),
        ),
        _ => Error::run(format!("cannot run nft: {e}")),
    };
    let mut nft = outside
        .command("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(missing)?;
    if let Some(mut stdin) = nft.stdin.take() {
        stdin
            .write_all(rules.as_bytes())
            .doing("cannot talk to nft")?;
    }
    let output = nft.wait_with_output().doing("cannot wait for nft")?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    let why = why.lines().next().unwrap_or_default();
    Err(Error::Missing(format!(
        "this kernel cannot redirect connections (nft: {why})"
    )))
}

/// Lets programs ask the gateway for names: the caller's own servers may be
/// on addresses that mean something else inside.
fn resolve_at_the_gateway(isolated: &Inside) -> Result<()> {
    let ours: PathBuf = isolated.scratch().join("resolv.conf");
    std::fs::write(&ours, format!("nameserver {GATEWAY}\n")).at("write", &ours)?;
    let none = None::<&str>;
    // Where there is no such file, programs do without names outside, too.
    let _ = mount(
        Some(&ours),
        "/etc/resolv.conf",
        none,
        MsFlags::MS_BIND,
        none,
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwards_are_read() {
        let forward: Forward = "80=web.example:8080".parse().unwrap();
        assert_eq!(
            (forward.port, forward.to.as_str()),
            (80, "web.example:8080")
        );
        assert!("443=[::1]:8443".parse::<Forward>().is_ok());
        for bad in [
            "", "80", "80=", "80=host", "0=a:1", "a=b:1", "80=:1", "1=a:0",
        ] {
            let e = bad.parse::<Forward>().unwrap_err();
            assert!(e.contains("PORT=HOST:PORT"), "{bad}: {e}");
        }
    }
}
