//! Look-ups of names on a byte stream, answered by this host's name servers.
//!
//! At a proxy, a stream to [`Capabilities::NAMES`] ends here. Messages are passed on as they are,
//! so that every type of record can be asked for. Each session has its share of the look-ups under
//! way ([`Resolver`]), to which an answer belongs until it is written, and a bounded number of
//! streams.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::Hash;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use mpbond_intercept::dns::{BadQuery, MAX_QUERY_BYTES, Query, Rcode, take_message};
use mpbond_net::resolve::{Forwarded, MAX_LOOKUPS_EACH, Resolver};
use mpbond_session::{Capabilities, Destination};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::debug;

/// Buffer in each direction.
const DUPLEX_BYTES: usize = 4 << 10;

/// Maximum number of streams of one session. A primary uses one at a time; each may have queries of
/// [`MAX_QUERY_BYTES`] that wait for their turn.
const MAX_STREAMS_EACH: usize = 64;

/// Time limit of writing an answer: a peer that does not read holds answers no longer.
const WRITE_WITHIN: Duration = Duration::from_secs(10);

/// Name servers that are asked.
#[derive(Clone)]
pub(crate) enum Servers {
    /// Those of the system.
    System,
    /// Those that are present when a query comes.
    These(Rc<dyn Fn() -> Vec<SocketAddr>>),
}

/// The destination of look-ups.
pub(crate) fn destination() -> Destination {
    let (host, port) = Capabilities::NAMES;
    Destination::Name {
        host: host.to_owned(),
        port,
    }
}

/// Whether a destination is that of look-ups.
pub(crate) fn is_asked(to: &Destination) -> bool {
    let names = Capabilities::NAMES;
    matches!(to, Destination::Name { host, port } if (host.as_str(), *port) == names)
}

/// Look-ups on streams of sessions with keys of type `K`, on one thread.
pub(crate) struct NameService<K: Hash + Eq + Copy> {
    resolver: Rc<Resolver<K>>,
    /// Number of streams of each session that has any.
    streams: Rc<RefCell<HashMap<K, usize>>>,
    /// Time limit of writing an answer.
    write_within: Duration,
}

impl<K: Hash + Eq + Copy + 'static> NameService<K> {
    pub(crate) fn new(resolver: &Rc<Resolver<K>>) -> Self {
        Self {
            resolver: Rc::clone(resolver),
            streams: Rc::default(),
            write_within: WRITE_WITHIN,
        }
    }

    /// Answers the queries that are written to the result, which is DNS over TCP (RFC 7766), for a
    /// session: by these servers, or those of the system. Ends with it; `None` if the session has
    /// too many such streams. Runs on this thread's `LocalSet`.
    pub(crate) fn serve(&self, session: K, servers: Servers) -> Option<DuplexStream> {
        let place = Place::take(&self.streams, session)?;
        let (ours, theirs) = tokio::io::duplex(DUPLEX_BYTES);
        let (resolver, write_within) = (Rc::clone(&self.resolver), self.write_within);
        crate::task::spawn_local(async move {
            let _place = place;
            let answered = answer_all(&resolver, session, servers, ours, write_within);
            if let Err(e) = answered.await {
                debug!(error = %e, "look-ups on a stream end");
            }
        });
        Some(theirs)
    }
}

/// A stream's place among those of its session; dropping it gives it back.
struct Place<K: Hash + Eq + Copy> {
    streams: Rc<RefCell<HashMap<K, usize>>>,
    session: K,
}

impl<K: Hash + Eq + Copy> Place<K> {
    fn take(streams: &Rc<RefCell<HashMap<K, usize>>>, session: K) -> Option<Self> {
        let mut table = streams.borrow_mut();
        let count = table.entry(session).or_default();
        if *count >= MAX_STREAMS_EACH {
            return None;
        }
        *count += 1;
        Some(Self {
            streams: Rc::clone(streams),
            session,
        })
    }
}

impl<K: Hash + Eq + Copy> Drop for Place<K> {
    fn drop(&mut self) {
        let mut streams = self.streams.borrow_mut();
        if let Some(count) = streams.get_mut(&self.session) {
            *count -= 1;
            if *count == 0 {
                streams.remove(&self.session);
            }
        }
    }
}

/// Answers in any order (RFC 7766, section 7). At the limit, queries wait; while an answer is
/// written, nothing is read.
async fn answer_all<K>(
    resolver: &Rc<Resolver<K>>,
    session: K,
    servers: Servers,
    stream: DuplexStream,
    write_within: Duration,
) -> io::Result<()>
where
    K: Hash + Eq + Copy + 'static,
{
    let (mut reader, mut writer) = tokio::io::split(stream);
    let mut received = BytesMut::new();
    let mut answers = JoinSet::new();
    let mut ended = false;
    while !ended || !answers.is_empty() {
        let room = answers.len() < MAX_LOOKUPS_EACH;
        if room && let Some(message) = take_query(&mut received)? {
            let (resolver, servers) = (Rc::clone(resolver), servers.clone());
            answers.spawn_local(async move { answer(&resolver, session, servers, &message).await });
            continue;
        }
        tokio::select! {
            Some(answered) = answers.join_next() => {
                // A message that is no query has no answer.
                if let Ok(Some(answer)) = answered {
                    let written = timeout(write_within, writer.write_all(&answer.framed));
                    written.await.map_err(|_| io::ErrorKind::TimedOut)??;
                }
            }
            read = reader.read_buf(&mut received), if room && !ended => ended = read? == 0,
        }
    }
    Ok(())
}

/// Removes the first message, if it is complete.
///
/// # Errors
/// One whose length is above [`MAX_QUERY_BYTES`], as soon as the length is there.
fn take_query(received: &mut BytesMut) -> io::Result<Option<Vec<u8>>> {
    let length = received.first_chunk().copied().map(u16::from_be_bytes);
    if length.is_some_and(|length| usize::from(length) > MAX_QUERY_BYTES) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a query has more than {MAX_QUERY_BYTES} octets"),
        ));
    }
    // A copy, which does not keep the buffer.
    Ok(take_message(received).map(|message| message.to_vec()))
}

/// An answer, with its length before it.
struct Answer<K: Hash + Eq + Copy> {
    framed: Vec<u8>,
    /// Keeps the share of the look-ups under way.
    _forwarded: Option<Forwarded<K>>,
}

impl<K: Hash + Eq + Copy> Answer<K> {
    fn new(message: &[u8], forwarded: Option<Forwarded<K>>) -> Option<Self> {
        let length = u16::try_from(message.len()).ok()?;
        Some(Self {
            framed: [&length.to_be_bytes(), message].concat(),
            _forwarded: forwarded,
        })
    }
}

/// The answer to a message; none to one that is no query.
async fn answer<K>(
    resolver: &Resolver<K>,
    session: K,
    servers: Servers,
    message: &[u8],
) -> Option<Answer<K>>
where
    K: Hash + Eq + Copy + 'static,
{
    let query = match Query::parse(message) {
        Ok(query) => query,
        Err(BadQuery::Answer(answer)) => return Answer::new(&answer, None),
        Err(BadQuery::Ignore) => return None,
    };
    let is_answer = |octets: &[u8]| query.is_answered_by(octets);
    let servers = match servers {
        Servers::System => None,
        Servers::These(present) => Some(present()),
    };
    let forwarded = resolver.forward(message, is_answer, session, servers);
    match forwarded.await {
        Ok(mut forwarded) => {
            let octets = std::mem::take(&mut forwarded.octets);
            Answer::new(&query.over_tcp(&octets), Some(forwarded))
        }
        Err(_) => Answer::new(&query.error(Rcode::ServFail), None),
    }
}

#[cfg(test)]
mod tests {
    use mpbond_net::resolve::{Files, ResolverConfig, Sockets};
    use tokio::net::UdpSocket;
    use tokio::task::LocalSet;
    use tokio::time::Instant;

    use super::*;

    fn service() -> NameService<u8> {
        NameService::new(&Resolver::new(ResolverConfig {
            files: Files {
                resolv_conf: "/nonexistent".into(),
                hosts: "/nonexistent".into(),
            },
            further: Vec::new(),
            sockets: Sockets::default(),
            most: 256,
        }))
    }

    fn nobody() -> Servers {
        Servers::These(Rc::new(Vec::new))
    }

    /// A query for `www.example A`, with its length.
    fn query(id: u8) -> Vec<u8> {
        let header = [0, 29, 0, id, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        [&header[..], b"\x03www\x07example\x00\x00\x01\x00\x01"].concat()
    }

    async fn read(stream: &mut DuplexStream) -> io::Result<Vec<u8>> {
        let mut message = vec![0; stream.read_u16().await?.into()];
        stream.read_exact(&mut message).await?;
        Ok(message)
    }

    #[tokio::test]
    async fn malformed_messages_do_not_end_the_look_ups_of_others() {
        let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr().unwrap();
        let servers = Servers::These(Rc::new(move || vec![address]));
        let talk = async {
            let mut stream = service().serve(0, servers).unwrap();
            stream.write_all(&query(1)).await.unwrap();
            let mut block = [0; 512];
            let (n, from) = server.recv_from(&mut block).await.unwrap();
            // Without a header; a response; without a question, which is answered.
            stream.write_all(&[0, 0, 0, 1, 7]).await.unwrap();
            let mut response = query(2);
            response[4] = 0x81;
            stream.write_all(&response).await.unwrap();
            let empty = [0, 12, 0, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            stream.write_all(&empty).await.unwrap();
            assert_eq!(read(&mut stream).await.unwrap()[..4], [0, 3, 0x81, 0x81]);
            block[2] = 0x81;
            server.send_to(&block[..n], from).await.unwrap();
            assert_eq!(read(&mut stream).await.unwrap()[..3], [0, 1, 0x81]);
        };
        let talk = timeout(Duration::from_secs(30), talk);
        LocalSet::new().run_until(talk).await.unwrap();
    }

    #[tokio::test]
    async fn a_query_on_a_stream_has_at_most_1024_octets() {
        let talk = async {
            let service = service();
            // As many octets that are no question.
            let mut stream = service.serve(0, nobody()).unwrap();
            let mut long = vec![0; 2 + 1024];
            long[..5].copy_from_slice(&[4, 0, 0, 1, 1]);
            stream.write_all(&long).await.unwrap();
            assert_eq!(read(&mut stream).await.unwrap()[..4], [0, 1, 0x81, 0x81]);
            stream.write_all(&[4, 1]).await.unwrap();
            let end = read(&mut stream).await.unwrap_err();
            assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
        };
        let talk = timeout(Duration::from_secs(30), talk);
        LocalSet::new().run_until(talk).await.unwrap();
    }

    #[tokio::test]
    async fn a_peer_that_does_not_read_is_not_read_and_ends_in_time() {
        let talk = async {
            let write_within = Duration::from_secs(1);
            let service = NameService {
                write_within,
                ..service()
            };
            let mut stream = service.serve(0, nobody()).unwrap();
            let start = Instant::now();
            let mut written = 0;
            while stream.write_all(&query(1)).await.is_ok() {
                written += query(1).len();
            }
            // Both buffers, one read, and what waits as look-ups.
            assert!(written < 4 * DUPLEX_BYTES, "{written}");
            assert!(start.elapsed() >= write_within);
        };
        LocalSet::new().run_until(talk).await;
    }

    #[tokio::test]
    async fn a_device_has_64_streams_of_look_ups() {
        let talk = async {
            let service = service();
            let serve = |device| service.serve(device, nobody());
            let mut streams: Vec<_> = (0..64).filter_map(|_| serve(0)).collect();
            assert_eq!(streams.len(), 64);
            assert!(serve(0).is_none());
            assert!(serve(1).is_some());
            streams.pop();
            while service.streams.borrow().get(&0) == Some(&64) {
                tokio::task::yield_now().await;
            }
            assert!(serve(0).is_some());
            drop(streams);
            while !service.streams.borrow().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        let talk = timeout(Duration::from_secs(30), talk);
        LocalSet::new().run_until(talk).await.unwrap();
    }
}
