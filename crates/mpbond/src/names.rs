//! Look-ups of names on a byte stream, answered by this host's name servers.
//!
//! At a proxy, a stream to [`Capabilities::NAMES`] ends here. Messages are passed on as they are,
//! so that every type of record can be asked for; each session has its share of the look-ups under
//! way ([`Resolver`]).

use std::hash::Hash;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use bytes::BytesMut;
use mpbond_intercept::dns::{BadQuery, Query, Rcode, take_message};
use mpbond_net::resolve::{MAX_LOOKUPS_EACH, Resolver};
use mpbond_session::{Capabilities, Destination};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::task::JoinSet;
use tracing::debug;

/// Buffer in each direction.
const DUPLEX_BYTES: usize = 4 << 10;

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

/// Answers the queries that are written to the result, which is DNS over TCP (RFC 7766), for a
/// session: by these servers, or those of the system. Ends with it. Runs on this thread's
/// `LocalSet`.
pub(crate) fn serve<K>(resolver: &Rc<Resolver<K>>, session: K, servers: Servers) -> DuplexStream
where
    K: Hash + Eq + Copy + 'static,
{
    let (ours, theirs) = tokio::io::duplex(DUPLEX_BYTES);
    let resolver = Rc::clone(resolver);
    tokio::task::spawn_local(async move {
        if let Err(e) = answer_all(&resolver, session, servers, ours).await {
            debug!(error = %e, "look-ups on a stream end");
        }
    });
    theirs
}

/// Answers in any order (RFC 7766, section 7). At the limit, queries wait.
async fn answer_all<K>(
    resolver: &Rc<Resolver<K>>,
    session: K,
    servers: Servers,
    stream: DuplexStream,
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
        if room && let Some(message) = take_message(&mut received) {
            let (resolver, servers) = (Rc::clone(resolver), servers.clone());
            answers.spawn_local(async move { answer(&resolver, session, servers, &message).await });
            continue;
        }
        tokio::select! {
            answered = answers.join_next(), if !answers.is_empty() => {
                let answer = answered.and_then(Result::ok).flatten();
                let answer = answer.ok_or(io::ErrorKind::InvalidData)?;
                let length = u16::try_from(answer.len()).map_err(io::Error::other)?;
                writer.write_all(&[&length.to_be_bytes(), &answer[..]].concat()).await?;
            }
            read = reader.read_buf(&mut received), if room && !ended => ended = read? == 0,
        }
    }
    Ok(())
}

/// The answer to a message; none to what is no query.
async fn answer<K>(
    resolver: &Resolver<K>,
    session: K,
    servers: Servers,
    message: &[u8],
) -> Option<Vec<u8>>
where
    K: Hash + Eq + Copy + 'static,
{
    let query = match Query::parse(message) {
        Ok(query) => query,
        Err(BadQuery::Answer(answer)) => return Some(answer.to_vec()),
        Err(BadQuery::Ignore) => return None,
    };
    let is_answer = |octets: &[u8]| query.is_answered_by(octets);
    let servers = match servers {
        Servers::System => None,
        Servers::These(present) => Some(present()),
    };
    let forwarded = resolver.forward(message, is_answer, session, servers);
    let answer = match forwarded.await {
        Ok(answer) => query.over_tcp(&answer),
        Err(_) => query.error(Rcode::ServFail),
    };
    Some(answer.to_vec())
}
