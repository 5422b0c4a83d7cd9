//! Whether resolvers answer: through the session, and directly.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context as _;
use mpbond_manager::LinkId;
use mpbond_session::Destination;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpSocket, UdpSocket};
use tokio::time::{Instant, timeout};

use crate::names;
use crate::speed::{Links, Pipe, Single};

/// Time for which an answer is waited for: as long as the stub waits, and the time of a session.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Time for which the answer to a datagram is waited for, and number of attempts.
const DATAGRAM_WITHIN: Duration = Duration::from_millis(1_500);
const ATTEMPTS: u32 = 2;

/// Maximum size of an answer that is read.
const MAX_ANSWER_BYTES: usize = 4_096;

/// Buffer for a message in each direction.
const DUPLEX_BYTES: usize = 4 << 10;

/// A query for the name servers of the root, which every resolver knows or finds (RFC 1035, section
/// 4.1): id 0x6d70, recursion desired, one question.
const QUERY: [u8; 17] = [
    0x6d, 0x70, 0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1,
];

/// Result of a look-up.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// It was answered within this time.
    In(Duration),
    /// The resolver answers that it cannot, in these words (RFC 1035, section 4.1.1), within this
    /// time.
    Failed(&'static str, Duration),
    /// It has ended the connection after this time, without an answer.
    Closed(Duration),
    /// There was no answer within this time.
    None(Duration),
    /// The kernel or the host refuses, for this reason.
    NotAsked(String),
}

impl Answer {
    /// Whether the resolver is of use.
    pub fn is_good(&self) -> bool {
        matches!(self, Self::In(_))
    }

    fn of(message: &[u8], took: Duration) -> Self {
        match message.get(3).map(|flags| flags & 0x0f) {
            Some(0 | 3) => Self::In(took),
            Some(2) => Self::Failed("\"server failure\"", took),
            Some(5) => Self::Failed("\"refused\"", took),
            _ => Self::Failed("an error", took),
        }
    }
}

/// A verb phrase of which the resolver is the subject.
impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |took: &Duration| mpbond_units::human::millis(took.as_secs_f64() * 1e3);
        match self {
            Self::In(took) => write!(f, "answers in {}", ms(took)),
            Self::Failed(code, took) => {
                write!(f, "answers {code} in {}: it cannot look names up", ms(took))
            }
            Self::Closed(took) => {
                write!(
                    f,
                    "ends the connection after {}, without an answer",
                    ms(took)
                )
            }
            Self::None(took) => write!(f, "does not answer within {} s", took.as_secs_f64()),
            Self::NotAsked(why) => write!(f, "cannot be asked: {why}"),
        }
    }
}

/// A session of its own, for look-ups.
pub struct Session<'a> {
    session: Single,
    /// Of a session through a helper.
    pipe: Option<Pipe<'a>>,
}

impl<'a> Session<'a> {
    /// One over this link. Links are the paths, and then the helpers.
    ///
    /// # Errors
    /// The link does not lead to the proxy.
    pub async fn open(links: &'a Links<'a>, link: LinkId) -> anyhow::Result<Self> {
        let paths = &links.config.paths;
        if let Some(path) = paths.get(link.0) {
            let (session, pipe) = (links.over(link, path).await?, None);
            return Ok(Self { session, pipe });
        }
        let helper = links.config.helpers.get(link.0 - paths.len());
        let helper = helper.context("there is no such link")?;
        let mut pipe = Pipe::open(links, helper).await?;
        let session = pipe.session(link, helper).await?;
        let pipe = Some(pipe);
        Ok(Self { session, pipe })
    }

    /// Whether the proxy looks names up with its own resolver.
    pub fn proxy_answers(&self) -> bool {
        self.session.answers_look_ups()
    }

    /// Asks the proxy's resolver, or this one through the proxy.
    ///
    /// # Errors
    /// The session or its stream ends.
    pub async fn ask(&mut self, resolver: Option<SocketAddr>) -> anyhow::Result<Answer> {
        let to = match resolver {
            None => names::destination(),
            Some(address) => Destination::Addr(address),
        };
        let mut stream = self.session.stream(to, DUPLEX_BYTES)?;
        let attend = async {
            match &mut self.pipe {
                Some(pipe) => pipe.attend().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            answer = over_stream(&mut stream) => Ok(answer),
            e = self.session.lost() => Err(e),
            e = attend => Err(e),
        }
    }
}

/// Asks over a stream, with lengths before messages (RFC 1035, section 4.2.2). A stream that ends
/// is no answer.
async fn over_stream(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> Answer {
    let begun = Instant::now();
    let exchange = async {
        let length = (QUERY.len() as u16).to_be_bytes();
        stream.write_all(&[&length[..], &QUERY].concat()).await?;
        let mut length = [0; 2];
        stream.read_exact(&mut length).await?;
        let length = usize::from(u16::from_be_bytes(length));
        let mut message = vec![0; length.min(MAX_ANSWER_BYTES)];
        stream.read_exact(&mut message).await?;
        io::Result::Ok(message)
    };
    match timeout(ANSWER_WITHIN, exchange).await {
        Ok(Ok(message)) if is_answer(&message) => Answer::of(&message, begun.elapsed()),
        Ok(_) => Answer::Closed(begun.elapsed()),
        Err(_) => Answer::None(ANSWER_WITHIN),
    }
}

/// Asks a resolver by datagrams, with this mark of the socket.
pub async fn by_datagram(resolver: SocketAddr, mark: Option<u32>) -> Answer {
    let begun = Instant::now();
    let mut last = Answer::None(DATAGRAM_WITHIN * ATTEMPTS);
    for _ in 0..ATTEMPTS {
        match timeout(DATAGRAM_WITHIN, datagram(resolver, mark)).await {
            Ok(Ok(message)) => return Answer::of(&message, begun.elapsed()),
            Ok(Err(e)) => last = Answer::NotAsked(e.to_string()),
            Err(_) => {}
        }
    }
    last
}

async fn datagram(resolver: SocketAddr, mark: Option<u32>) -> io::Result<Vec<u8>> {
    let any: SocketAddr = match resolver {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).await?;
    if let Some(mark) = mark {
        SockRef::from(&socket).set_mark(mark)?;
    }
    socket.connect(resolver).await?;
    socket.send(&QUERY).await?;
    let mut message = vec![0; MAX_ANSWER_BYTES];
    loop {
        let octets = socket.recv(&mut message).await?;
        if let Some(answer) = message.get(..octets).filter(|m| is_answer(m)) {
            return Ok(answer.to_vec());
        }
    }
}

/// Asks a resolver over a connection, with this mark of the socket.
pub async fn by_connection(resolver: SocketAddr, mark: Option<u32>) -> Answer {
    let connect = async {
        let socket = match resolver {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        if let Some(mark) = mark {
            SockRef::from(&socket).set_mark(mark)?;
        }
        socket.connect(resolver).await
    };
    match timeout(ANSWER_WITHIN, connect).await {
        Ok(Ok(mut tcp)) => over_stream(&mut tcp).await,
        Ok(Err(e)) => Answer::NotAsked(e.to_string()),
        Err(_) => Answer::None(ANSWER_WITHIN),
    }
}

/// Whether a message answers the query.
fn is_answer(message: &[u8]) -> bool {
    message.len() >= 12 && message.starts_with(&[0x6d, 0x70]) && message.get(2) >= Some(&0x80)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_resolver_that_fails_is_told_from_one_that_is_dead() {
        for (flags, expected) in [
            (0x80, "answers in"),
            (0x82, "answers \"server failure\" in"),
            (0x85, "answers \"refused\" in"),
        ] {
            let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let address = server.local_addr().unwrap();
            let serve = async {
                let mut query = [0; 64];
                let (octets, from) = server.recv_from(&mut query).await.unwrap();
                assert_eq!(query[..octets], QUERY);
                // Another message first.
                server.send_to(&query[..4], from).await.unwrap();
                query[2..4].copy_from_slice(&[0x81, flags]);
                server.send_to(&query[..octets], from).await.unwrap();
            };
            let (answer, ()) = tokio::join!(by_datagram(address, None), serve);
            assert!(answer.to_string().starts_with(expected), "{answer}");
            assert_eq!(answer.is_good(), flags == 0x80);
            // Its socket is closed.
            drop(server);
            for answer in [
                by_datagram(address, None).await,
                by_connection(address, None).await,
            ] {
                let said = answer.to_string();
                assert!(
                    said.starts_with("cannot be asked: Connection refused"),
                    "{said}"
                );
            }
        }
    }
}
