//! Proxy and primary together on loopback, TLS on, one stream; beside a plain TLS forwarder made
//! of tokio-rustls, which has the same hops and copies bytes and no more. Both by turns in one run.
//!
//! `THROUGHPUT_ROUNDS` (5) and `THROUGHPUT_GB` (1) change length and size.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use mpbond::config::{
    Destinations, FrontAddress, OnProxyLoss, PathConfig, PrimaryConfig, ProxyConfig, ProxyRef,
};
use mpbond_net::{DeviceId, Identity};
use mpbond_session::{BufferDelay, FeedbackRule, ReinjectionRule, SchedulerKind};
use nix::sys::resource::{UsageWho, getrusage};
use tokio::io::copy_bidirectional_with_sizes;
use tokio_rustls::rustls;
use tokio_rustls::{TlsAcceptor, TlsConnector};

fn free() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap()
}

/// Sends as many bytes as it is asked for.
fn origin() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let block = vec![7u8; 1 << 20];
        for s in listener.incoming() {
            let mut s = s.unwrap();
            let mut want = [0; 8];
            if s.read_exact(&mut want).is_err() {
                continue;
            }
            let mut left = u64::from_be_bytes(want) as usize;
            while left > 0 {
                let n = left.min(block.len());
                if s.write_all(&block[..n]).is_err() {
                    break;
                }
                left -= n;
            }
        }
    });
    address
}

/// A primary and a proxy with one direct subflow; returns the SOCKS5 front.
fn bonded(folder: &Path) -> SocketAddr {
    let file = |name: &str| folder.join(name);
    let id = |name: &str| Identity::load_or_create(file(name)).unwrap().id();
    let (proxy_id, primary_id) = (id("proxy.pem"), id("primary.pem"));
    let (listen, socks5) = (free(), free());
    let proxy = ProxyConfig {
        listen: vec![listen],
        identity: file("proxy.pem"),
        status_socket: file("proxy.sock"),
        metrics: None,
        sandbox: true,
        trust: vec![primary_id],
        scheduler: SchedulerKind::Mpbond,
        reinjection: ReinjectionRule::default(),
        feedback: FeedbackRule::default(),
        buffer_delay: BufferDelay::default(),
        congestion: None,
        resume_for: Duration::from_secs(60),
        destinations: Destinations {
            allow: vec!["127.0.0.0/8".parse().unwrap()],
            deny: Vec::new(),
        },
        serve: None,
        workers: Some(1),
        memory_bytes: None,
        ..ProxyConfig::default()
    };
    let trust = Arc::new(move |id: &DeviceId| *id == primary_id);
    thread::spawn(move || mpbond::proxy::run(proxy, trust).unwrap());
    let primary = PrimaryConfig {
        identity: file("primary.pem"),
        status_socket: file("primary.sock"),
        metrics: None,
        sandbox: true,
        take_over: false,
        scheduler: SchedulerKind::Mpbond,
        reinjection: ReinjectionRule::default(),
        buffer_delay: BufferDelay::default(),
        feedback: FeedbackRule::default(),
        congestion: None,
        resume_for: Duration::from_secs(60),
        on_proxy_loss: OnProxyLoss::Fail,
        proxy: ProxyRef::at(listen, proxy_id),
        paths: vec![PathConfig {
            name: "own".to_owned(),
            interface: None,
            source: None,
            proxy: Vec::new(),
            backup: false,
        }],
        helpers: Vec::new(),
        socks5: Some(FrontAddress::at(socks5)),
        http: None,
        transparent: None,
        policy: None,
    };
    thread::spawn(move || mpbond::primary::run(primary).unwrap());
    let deadline = Instant::now() + Duration::from_secs(10);
    while Instant::now() < deadline {
        let status = mpbond::status_socket::ask(&file("primary.sock"));
        if status.is_ok_and(|s| s.sessions.iter().any(|s| s.state == "up")) {
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    socks5
}

/// Two plain forwarders with TLS 1.3 between them; returns where clients connect.
fn plain(origin: SocketAddr) -> SocketAddr {
    let key = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let certificate = key.cert.der().clone();
    let private =
        rustls::pki_types::PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = &[&rustls::version::TLS13];
    let server = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], private)
        .unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let (near, far) = (free(), free());
    const BUFFER: usize = 256 << 10;
    let run = |f: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>| {
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(f);
        });
    };
    let acceptor = TlsAcceptor::from(Arc::new(server));
    run(Box::pin(async move {
        let listener = tokio::net::TcpListener::bind(far).await.unwrap();
        while let Ok((tcp, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut tls = acceptor.accept(tcp).await.unwrap();
                let mut out = tokio::net::TcpStream::connect(origin).await.unwrap();
                let _ = copy_bidirectional_with_sizes(&mut tls, &mut out, BUFFER, BUFFER).await;
            });
        }
    }));
    let connector = TlsConnector::from(Arc::new(client));
    run(Box::pin(async move {
        let listener = tokio::net::TcpListener::bind(near).await.unwrap();
        while let Ok((mut tcp, _)) = listener.accept().await {
            let connector = connector.clone();
            tokio::spawn(async move {
                let out = tokio::net::TcpStream::connect(far).await.unwrap();
                let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
                let mut tls = connector.connect(name, out).await.unwrap();
                let _ = copy_bidirectional_with_sizes(&mut tcp, &mut tls, BUFFER, BUFFER).await;
            });
        }
    }));
    thread::sleep(Duration::from_millis(200));
    near
}

fn over_socks5(front: SocketAddr, to: SocketAddr) -> TcpStream {
    let mut s = TcpStream::connect(front).unwrap();
    let SocketAddr::V4(to) = to else {
        unreachable!("loopback is IPv4 here")
    };
    let mut request = vec![5, 1, 0, 5, 1, 0, 1];
    request.extend_from_slice(&to.ip().octets());
    request.extend_from_slice(&to.port().to_be_bytes());
    s.write_all(&request).unwrap();
    s.read_exact(&mut [0; 12]).unwrap();
    s
}

fn cpu() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}

/// Gbit/s and CPU seconds a gigabit of one download, origin and client included.
fn download(mut s: TcpStream, bytes: u64) -> (f64, f64) {
    let mut buffer = vec![0; 1 << 20];
    let (start, cpu_before) = (Instant::now(), cpu());
    s.write_all(&bytes.to_be_bytes()).unwrap();
    let mut left = bytes;
    while left > 0 {
        let n = s.read(&mut buffer).unwrap();
        assert!(n > 0, "ended {left} bytes too early");
        left -= n as u64;
    }
    let gigabits = bytes as f64 * 8e-9;
    (
        gigabits / start.elapsed().as_secs_f64(),
        (cpu() - cpu_before) / gigabits,
    )
}

fn median(mut v: Vec<f64>) -> f64 {
    v.sort_by(f64::total_cmp);
    v[v.len() / 2]
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(default)
}

fn main() {
    let bytes = number("THROUGHPUT_GB", 1) * 1_000_000_000;
    let folder = tempfile::tempdir().unwrap();
    let origin = origin();
    let front = bonded(folder.path());
    let near = plain(origin);
    let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..number("THROUGHPUT_ROUNDS", 5).max(1) {
        let a = download(over_socks5(front, origin), bytes);
        let b = download(TcpStream::connect(near).unwrap(), bytes);
        ratios.push(a.0 / b.0);
        ours.push(a);
        theirs.push(b);
    }
    let show = |name: &str, all: &[(f64, f64)]| {
        let rate = median(all.iter().map(|x| x.0).collect());
        let cost = median(all.iter().map(|x| x.1).collect());
        println!(
            "{name:<28} {rate:>6.2} Gbit/s   {cost:.3} CPU-s/Gbit (client and origin included)"
        );
        rate
    };
    let rate = show("mpbond, one stream, TLS", &ours);
    show("plain tokio-rustls forwarder", &theirs);
    let ratio = median(ratios);
    let verdict = |reached| if reached { "reached" } else { "MISSED" };
    println!(
        "throughput {rate:.2} Gbit/s   target 5   {}",
        verdict(rate > 5.0)
    );
    println!("ratio {ratio:.2}   target 0.6   {}", verdict(ratio >= 0.6));
}
