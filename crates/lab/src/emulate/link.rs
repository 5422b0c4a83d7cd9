//! The emulated link of one program, and running the program.

use std::ffi::OsString;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use mpbond_radio::Profiles;
use mpbond_sim::link::{LinkSpec, Medium, Shared, SharedMedium, SharedRadio};
use nix::mount::{MsFlags, mount};
use rtnetlink::RouteMessageBuilder;
use rtnetlink::packet_route::route::RouteScope;

use super::forward::Forward;
use super::relay;
use crate::error::{Doing, Error, Result};
use crate::experiment::read_recording;
use crate::isolate::Inside;
use crate::network::device::Means;
use crate::network::foreground;
use crate::network::host::Host;
use crate::player::{Clock, Logs, PlayedLink, Player};
use crate::transfer::conditions::told_if_late;

/// Addresses of the ends of the link, from the block for carrier-grade NAT (RFC 6598), which few
/// networks of callers use.
const INSIDE: Ipv4Addr = Ipv4Addr::new(100, 64, 77, 1);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(100, 64, 77, 2);
const DEVICE: &str = "link";

/// A link for one program.
#[derive(Debug, Clone)]
pub struct EmulateOptions {
    /// Direction to the program.
    pub down: LinkSpec,
    /// Direction from the program.
    pub up: LinkSpec,
    /// Whether both directions share airtime.
    pub half_duplex: bool,
    /// Profile of the program's radio.
    pub radio: Option<String>,
    /// Seed of losses and jitter.
    pub seed: u64,
    /// Logs of packets.
    pub logs: Logs,
    /// Targets of the gateway's ports; other ports lead to the same port of the caller's loopback
    /// address.
    pub forwards: Vec<Forward>,
    /// Program and arguments; the person's shell when empty.
    pub program: Vec<OsString>,
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
pub fn emulate(options: &EmulateOptions) -> Result<u8> {
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

fn shared(options: &EmulateOptions) -> Result<Shared> {
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
            retries: 0,
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

/// Redirects TCP and DNS from the link to two sockets, and hands those to the relay.
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
        .doing("cannot pass sockets to the relay")
}

fn redirect(outside: &Host, tcp: u16, dns: u16) -> Result<()> {
    // nft needs closing braces on separate lines.
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

/// Makes the gateway the name server: the caller's name servers may have addresses that mean
/// something else inside.
fn resolve_at_the_gateway(isolated: &Inside) -> Result<()> {
    let ours: PathBuf = isolated.scratch().join("resolv.conf");
    std::fs::write(&ours, format!("nameserver {GATEWAY}\n")).at("write", &ours)?;
    let none = None::<&str>;
    // Without such a file, programs have no name server outside either.
    let _ = mount(
        Some(&ours),
        "/etc/resolv.conf",
        none,
        MsFlags::MS_BIND,
        none,
    );
    Ok(())
}
