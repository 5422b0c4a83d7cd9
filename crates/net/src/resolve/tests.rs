//! Look-ups with a name server of the test.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use domain::base::iana::{Rcode, Rtype};
use domain::base::{Message, MessageBuilder, Ttl};
use domain::rdata::A;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UdpSocket};

use super::*;

/// A server for `*.good` (192.0.2.1), which does not answer `*.dead` and truncates `*.long` over
/// UDP. Everything else does not exist.
struct Server {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
}

fn answer(query: &[u8], over_tcp: bool) -> Option<Vec<u8>> {
    let query = Message::from_octets(query).unwrap();
    let question = query.sole_question().unwrap();
    let name = question.qname().to_string();
    let ends = |with: &str| name.ends_with(with);
    if ends("dead") {
        return None;
    }
    let exists = ends("good") || ends("long");
    let rcode = match exists {
        true => Rcode::NOERROR,
        false => Rcode::NXDOMAIN,
    };
    let builder = MessageBuilder::new_vec();
    let mut message = builder.start_answer(&query, rcode).unwrap();
    if ends("long") && !over_tcp {
        message.header_mut().set_tc(true);
    } else if exists && question.qtype() == Rtype::A {
        let record = (
            question.qname(),
            Ttl::from_secs(60),
            A::from_octets(192, 0, 2, 1),
        );
        message.push(record).unwrap();
    }
    Some(message.finish())
}

impl Server {
    async fn start() -> Self {
        // The UDP port of this number may be that of another test.
        let (tcp, address, udp) = loop {
            let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let address = tcp.local_addr().unwrap();
            if let Ok(udp) = UdpSocket::bind(address).await {
                break (tcp, address, udp);
            }
        };
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        tokio::spawn(async move {
            let mut block = [0; 512];
            loop {
                let (n, from) = udp.recv_from(&mut block).await.unwrap();
                count.fetch_add(1, SeqCst);
                // Forged answers come first: they are ignored.
                let mut forged = block[..n].to_vec();
                forged[0] ^= 1;
                if let Some(text) = answer(&forged, false) {
                    udp.send_to(&text, from).await.unwrap();
                }
                if let Some(text) = answer(&block[..n], false) {
                    udp.send_to(&text, from).await.unwrap();
                }
            }
        });
        tokio::spawn(async move {
            loop {
                let (mut tcp, _) = tcp.accept().await.unwrap();
                let length = tcp.read_u16().await.unwrap();
                let mut query = vec![0; length.into()];
                tcp.read_exact(&mut query).await.unwrap();
                let text = answer(&query, true).unwrap();
                tcp.write_u16(text.len() as u16).await.unwrap();
                tcp.write_all(&text).await.unwrap();
            }
        });
        Self { address, asked }
    }

    fn resolver(&self) -> Rc<Resolver<u8>> {
        let resolver = Resolver::new(config());
        resolver.system.borrow_mut().use_servers(vec![self.address]);
        resolver
    }
}

fn config() -> ResolverConfig {
    ResolverConfig {
        files: Files {
            resolv_conf: "/nonexistent".into(),
            hosts: "/nonexistent".into(),
        },
        further: Vec::new(),
        sockets: Sockets::default(),
        most: 256,
    }
}

async fn addresses(resolver: &Rc<Resolver<u8>>, host: &str) -> Result<Vec<IpAddr>, LookupError> {
    resolver.addresses(host, 0).await
}

fn one() -> Result<Vec<IpAddr>, LookupError> {
    Ok(vec![[192, 0, 2, 1].into()])
}

#[tokio::test]
async fn names_are_asked_for_once_and_forged_answers_ignored() {
    let server = Server::start().await;
    let resolver = server.resolver();
    // At the same time, and again: one query for each family.
    let (a, b) = tokio::join!(
        addresses(&resolver, "www.good"),
        addresses(&resolver, "WWW.good.")
    );
    assert_eq!((a, b), (one(), one()));
    assert_eq!(addresses(&resolver, "www.good").await, one());
    assert_eq!(server.asked.load(SeqCst), 2);
    let nothing = Err(LookupError::NotFound);
    assert_eq!(addresses(&resolver, "www.other").await, nothing);
    assert!(resolver.under_way.borrow().is_empty());
}

#[tokio::test]
async fn long_answers_come_over_tcp() {
    let server = Server::start().await;
    let resolver = server.resolver();
    assert_eq!(addresses(&resolver, "www.long").await, one());
}

#[tokio::test]
async fn literals_and_bad_names_are_not_asked_for() {
    let server = Server::start().await;
    let resolver = server.resolver();
    assert_eq!(addresses(&resolver, "192.0.2.1").await, one());
    let v6 = addresses(&resolver, "2001:db8::1").await;
    assert_eq!(v6, Ok(vec!["2001:db8::1".parse().unwrap()]));
    let long = format!("{}.good", "x".repeat(64));
    for bad in ["", ".", "a..good", &long] {
        let nothing = Err(LookupError::NotFound);
        assert_eq!(addresses(&resolver, bad).await, nothing, "{bad}");
    }
    assert_eq!(server.asked.load(SeqCst), 0);
}

#[tokio::test]
async fn search_domains_apply_to_names_without_a_dot() {
    let server = Server::start().await;
    let resolver = server.resolver();
    resolver.system.borrow_mut().search(&["bad", "good"]);
    assert_eq!(addresses(&resolver, "www").await, one());
    let nothing = Err(LookupError::NotFound);
    assert_eq!(addresses(&resolver, "www.www").await, nothing);
    assert_eq!(addresses(&resolver, "www.").await, nothing);
}

/// A session that asks for 3,000 names that nobody answers does not delay another.
#[tokio::test]
async fn names_that_nobody_answers_do_not_delay_another_session() {
    let server = Server::start().await;
    let resolver = server.resolver();
    let local = tokio::task::LocalSet::new();
    let other = async {
        for n in 0..3_000 {
            let resolver = Rc::clone(&resolver);
            tokio::task::spawn_local(async move {
                let host = format!("n{n}.dead");
                if let Ok(mut lookup) = resolver.look_up(&host, 1).await {
                    while lookup.next().await.is_some() {}
                }
            });
        }
        while server.asked.load(SeqCst) < MAX_LOOKUPS_EACH {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(addresses(&resolver, "www.good").await, one());
        assert!(
            server.asked.load(SeqCst) < 1_000,
            "the session's are bounded"
        );
    };
    local.run_until(other).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_silent_costs_two_seconds_and_all_of_them_seven() {
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let server = Server {
        address: silent.local_addr().unwrap(),
        asked: Arc::default(),
    };
    let resolver = server.resolver();
    let start = Instant::now();
    let nothing = Err(LookupError::NoAnswer);
    assert_eq!(addresses(&resolver, "www.good").await, nothing);
    assert_eq!(start.elapsed().as_secs(), 7);
    // A failure is kept for a second.
    assert_eq!(addresses(&resolver, "www.good").await, nothing);
    assert_eq!(start.elapsed().as_secs(), 7);
}

#[tokio::test]
async fn further_servers_take_the_place_of_those_on_this_host() {
    let [system, further] = [Server::start().await, Server::start().await];
    let resolver = Resolver::<u8>::new(ResolverConfig {
        further: vec![further.address],
        ..config()
    });
    resolver
        .system
        .borrow_mut()
        .use_servers(vec![system.address]);
    assert_eq!(addresses(&resolver, "www.good").await, one());
    let asked = [&system, &further].map(|server| server.asked.load(SeqCst));
    assert_eq!(asked, [0, 2]);
}

/// A server that answers for IPv4 alone.
#[tokio::test]
async fn a_family_that_nobody_answers_for_costs_50_ms() {
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let server = Server {
        address: udp.local_addr().unwrap(),
        asked: Arc::default(),
    };
    tokio::spawn(async move {
        let mut block = [0; 512];
        loop {
            let (n, from) = udp.recv_from(&mut block).await.unwrap();
            let is_v6 = block[n - 3] == 28;
            if !is_v6 && let Some(text) = answer(&block[..n], false) {
                udp.send_to(&text, from).await.unwrap();
            }
        }
    });
    let resolver = server.resolver();
    let found = timeout(system::SERVER_WITHIN, addresses(&resolver, "www.good"));
    assert_eq!(found.await.unwrap(), one());
}

/// A query for the addresses of a name, as an application sends it.
fn query(host: &str) -> Vec<u8> {
    let mut builder = MessageBuilder::new_vec();
    builder.header_mut().set_id(7);
    let mut question = builder.question();
    let name: domain::base::Name<Vec<u8>> = host.parse().unwrap();
    question.push((name, Rtype::A)).unwrap();
    question.finish()
}

#[tokio::test]
async fn queries_are_passed_on_as_they_are() {
    let server = Server::start().await;
    let resolver = server.resolver();
    for (host, rcode) in [
        ("www.good", Rcode::NOERROR),
        ("www.long", Rcode::NOERROR),
        ("www.other", Rcode::NXDOMAIN),
    ] {
        let answer = resolver
            .forward(&query(host), |_| true, 0, None)
            .await
            .unwrap();
        let answer = Message::from_octets(answer.octets).unwrap();
        assert_eq!(answer.header().rcode(), rcode, "{host}");
        assert!(!answer.header().tc(), "{host}");
        assert_eq!(answer.sole_question().unwrap().qname().to_string(), host);
    }
    // None that is an answer, and none to what is no message.
    let short = Duration::from_millis(100);
    resolver.system.borrow_mut().use_times(short, 2);
    for message in [query("www.dead"), vec![0], Vec::new()] {
        let answer = resolver.forward(&message, |_| true, 0, None).await;
        assert_eq!(answer.unwrap_err(), LookupError::NoAnswer);
    }
    let other = resolver
        .forward(&query("www.good"), |_| false, 0, None)
        .await;
    assert_eq!(other.unwrap_err(), LookupError::NoAnswer);
}

/// The first packet is lost.
#[tokio::test]
async fn a_query_that_is_passed_on_is_sent_again() {
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let server = Server {
        address: udp.local_addr().unwrap(),
        asked: Arc::default(),
    };
    let asked = Arc::clone(&server.asked);
    tokio::spawn(async move {
        let mut block = [0; 512];
        loop {
            let (n, from) = udp.recv_from(&mut block).await.unwrap();
            let is_lost = asked.fetch_add(1, SeqCst) == 0;
            if !is_lost && let Some(text) = answer(&block[..n], false) {
                udp.send_to(&text, from).await.unwrap();
            }
        }
    });
    let resolver = server.resolver();
    let short = Duration::from_millis(200);
    resolver.system.borrow_mut().use_times(short, 5);
    for servers in [None, Some(vec![server.address])] {
        server.asked.store(0, SeqCst);
        let query = query("www.good");
        let answer = resolver.forward(&query, |_| true, 0, servers);
        let answer = answer.await.unwrap();
        let answer = Message::from_octets(answer.octets).unwrap();
        assert_eq!(answer.header().rcode(), Rcode::NOERROR);
        assert!(server.asked.load(SeqCst) >= 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_query_that_nobody_answers_is_passed_on_for_seven_seconds() {
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let server = Server {
        address: silent.local_addr().unwrap(),
        asked: Arc::default(),
    };
    let resolver = server.resolver();
    let start = Instant::now();
    let query = query("www.good");
    let found = resolver.forward(&query, |_| true, 0, None);
    assert_eq!(found.await.unwrap_err(), LookupError::NoAnswer);
    assert_eq!(start.elapsed().as_secs(), 7);
}

#[tokio::test]
async fn a_look_up_that_has_ended_counts_no_more() {
    let server = Server::start().await;
    let resolver = server.resolver();
    let mut ended = Vec::new();
    for n in 0..=MAX_LOOKUPS_EACH {
        let host = format!("n{n}.good");
        let lookup = timeout(Duration::from_secs(5), resolver.look_up(&host, 0)).await;
        let mut lookup = lookup.expect("another one is under way").unwrap();
        while lookup.next().await.is_some() {}
        ended.push(lookup);
    }
}

#[tokio::test]
async fn answers_that_are_kept_count_as_look_ups_under_way() {
    let server = Server::start().await;
    let resolver = server.resolver();
    let query = query("www.good");
    let mut kept = Vec::new();
    for _ in 0..MAX_LOOKUPS_EACH {
        let answer = resolver.forward(&query, |_| true, 0, None).await;
        kept.push(answer.unwrap());
    }
    let next = resolver.forward(&query, |_| true, 0, None);
    let mut next = std::pin::pin!(next);
    let within = Duration::from_millis(50);
    assert!(timeout(within, next.as_mut()).await.is_err());
    assert!(resolver.forward(&query, |_| true, 1, None).await.is_ok());
    kept.pop();
    next.await.unwrap();
}
