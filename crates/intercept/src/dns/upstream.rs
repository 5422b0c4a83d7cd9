//! The resolver side of the DNS stub: one multiplexed connection with retries.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::debug;

use super::message::{Query, id};
use crate::Destination;

/// Timeout of opening a stream, writing a query and waiting for any response, after which the next
/// resolver is tried. Half the timeout of a look-up, so that it gets a second attempt.
pub(super) const TIMEOUT: Duration = Duration::from_secs(2);

/// Idle timeout of a connection (RFC 7766, section 6.2.3: a few seconds).
const IDLE: Duration = Duration::from_secs(10);

/// Maximum number of attempts of a look-up: one retry when its connection breaks (RFC 7766,
/// section 6.2.4).
const MAX_TRIES: u32 = 2;

/// Buffer space for one read.
const READ_BYTES: usize = 4096;

/// Opens byte streams to resolvers, usually through the session.
///
/// Implemented by every `Fn(Destination) -> Future<Output = io::Result<Stream>>`.
pub trait Dial: Send + Sync + 'static {
    /// Type of the byte stream.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// Opens a stream. The future is dropped after two seconds.
    fn dial(&self, to: Destination) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl<F, Fut, S> Dial for F
where
    F: Fn(Destination) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = io::Result<S>> + Send,
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    type Stream = S;

    fn dial(&self, to: Destination) -> impl Future<Output = io::Result<S>> + Send {
        self(to)
    }
}

/// A pending look-up. Dropping it reports that there is no response.
#[derive(Debug)]
pub(super) struct Lookup {
    pub query: Arc<Query>,
    pub answer: oneshot::Sender<Bytes>,
    tries: u32,
}

impl Lookup {
    pub fn new(query: Arc<Query>) -> (Self, oneshot::Receiver<Bytes>) {
        let (answer, receiver) = oneshot::channel();
        let lookup = Self {
            query,
            answer,
            tries: 0,
        };
        (lookup, receiver)
    }

    /// Whether the client is waiting and attempts are left.
    fn can_be_tried(&self) -> bool {
        self.tries < MAX_TRIES && !self.answer.is_closed()
    }
}

/// Forwards look-ups to resolvers, over one connection at a time.
pub(super) struct Upstream<D> {
    dial: Arc<D>,
    resolvers: Vec<Destination>,
    /// Index of the resolver in use.
    current: usize,
    lookups: mpsc::Receiver<Lookup>,
    /// Look-ups to be sent first on the next connection.
    waiting: VecDeque<Lookup>,
}

impl<D: Dial> Upstream<D> {
    pub fn new(dial: Arc<D>, resolvers: Vec<Destination>, lookups: mpsc::Receiver<Lookup>) -> Self {
        Self {
            dial,
            resolvers,
            current: 0,
            lookups,
            waiting: VecDeque::new(),
        }
    }

    /// Runs until the stub is dropped.
    pub async fn run(mut self) {
        loop {
            self.waiting.retain(Lookup::can_be_tried);
            if self.waiting.is_empty() {
                match self.lookups.recv().await {
                    Some(lookup) => self.waiting.push_back(lookup),
                    None => return,
                }
            }
            match self.connect().await {
                Some(stream) => self.use_connection(stream).await,
                // No resolver can be reached: they get SERVFAIL now.
                None => self.waiting.clear(),
            }
        }
    }

    /// A stream to the first resolver that can be reached.
    async fn connect(&mut self) -> Option<D::Stream> {
        for _ in 0..self.resolvers.len() {
            let resolver = self.resolvers.get(self.current)?.clone();
            match timeout(TIMEOUT, self.dial.dial(resolver.clone())).await {
                Ok(Ok(stream)) => return Some(stream),
                Ok(Err(error)) => debug!(%resolver, %error, "cannot connect to a resolver"),
                Err(_) => debug!(%resolver, "timeout connecting to a resolver"),
            }
            self.next_resolver();
        }
        None
    }

    fn next_resolver(&mut self) {
        self.current = (self.current + 1) % self.resolvers.len().max(1);
    }

    /// Uses a connection until it ends; unanswered look-ups are kept for the next.
    async fn use_connection(&mut self, stream: D::Stream) {
        let mut connection = Connection::new(stream);
        let outcome = loop {
            if let Some(lookup) = self.waiting.pop_front() {
                match connection.send(lookup).await {
                    Ok(()) => continue,
                    Err(error) => break Err(error),
                }
            }
            let deadline = connection.deadline;
            tokio::select! {
                lookup = self.lookups.recv() => match lookup {
                    Some(lookup) => self.waiting.push_back(lookup),
                    None => break Ok(()),
                },
                received = connection.receive() => match received {
                    Ok(()) => {}
                    Err(error) => break Err(error),
                },
                () = sleep_until(deadline) => break match connection.pending.is_empty() {
                    true => Ok(()),
                    false => Err(io::ErrorKind::TimedOut.into()),
                },
            }
        };
        if let Err(error) = outcome {
            debug!(%error, unanswered = connection.pending.len(), "connection to a resolver ended");
            // Closing an idle connection is normal; a resolver that leaves queries unanswered is
            // replaced.
            if !connection.pending.is_empty() {
                self.next_resolver();
            }
        }
        self.waiting.extend(connection.pending.into_values());
    }
}

/// Looks up all these queries at once, without a stub: the resolvers' responses, each under the id
/// of its connection; `None` where there is no response.
pub async fn look_up(
    queries: impl IntoIterator<Item = Query>,
    resolvers: Vec<Destination>,
    dial: impl Dial,
) -> Vec<Option<Bytes>> {
    let (lookups, answers): (Vec<_>, Vec<_>) = queries
        .into_iter()
        .map(|query| Lookup::new(Arc::new(query)))
        .unzip();
    let (sender, receiver) = mpsc::channel(lookups.len().max(1));
    let asking = async {
        for lookup in lookups {
            // An error drops the look-up, which is its answer.
            drop(sender.send(lookup).await);
        }
        let mut responses = Vec::new();
        for answer in answers {
            responses.push(answer.await.ok());
        }
        responses
    };
    let upstream = Upstream::new(Arc::new(dial), resolvers, receiver);
    tokio::select! {
        responses = asking => responses,
        // Ends only with the sender, which the other branch holds.
        () = upstream.run() => Vec::new(),
    }
}

/// One connection to a resolver: messages with a length prefix (RFC 1035, section 4.2.2).
struct Connection<S> {
    reader: tokio::io::ReadHalf<S>,
    writer: tokio::io::WriteHalf<S>,
    received: BytesMut,
    /// Look-ups by id. The next connection gets those without an answer in the order of their ids.
    pending: BTreeMap<u16, Lookup>,
    next_id: u16,
    /// Instant at which the connection is closed if nothing is received.
    deadline: Instant,
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Connection<S> {
    fn new(stream: S) -> Self {
        let (reader, writer) = split(stream);
        Self {
            reader,
            writer,
            received: BytesMut::new(),
            pending: BTreeMap::new(),
            next_id: 0,
            deadline: Instant::now() + IDLE,
        }
    }

    /// Sends a query under an unused id. The stub limits look-ups to far less than the number of
    /// ids.
    async fn send(&mut self, mut lookup: Lookup) -> io::Result<()> {
        if !lookup.can_be_tried() {
            return Ok(());
        }
        while self.pending.contains_key(&self.next_id) {
            self.next_id = self.next_id.wrapping_add(1);
        }
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        lookup.tries += 1;
        let message = lookup.query.with_id(id);
        if self.pending.is_empty() {
            self.deadline = Instant::now() + TIMEOUT;
        }
        self.pending.insert(id, lookup);
        write_message(&mut self.writer, &message).await
    }

    /// Reads once and delivers the responses completed by it. Cancel-safe.
    async fn receive(&mut self) -> io::Result<()> {
        // Look-ups whose clients have given up would keep the connection from becoming idle.
        self.pending.retain(|_, lookup| !lookup.answer.is_closed());
        self.received.reserve(READ_BYTES);
        if self.reader.read_buf(&mut self.received).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        while let Some(message) = take_message(&mut self.received) {
            let Some(id) = id(&message) else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            // Late responses, or responses to other questions.
            if !self
                .pending
                .get(&id)
                .is_some_and(|l| l.query.is_answered_by(&message))
            {
                continue;
            }
            if let Some(lookup) = self.pending.remove(&id) {
                // The client may have given up; the response is discarded then.
                drop(lookup.answer.send(message));
            }
            let limit = if self.pending.is_empty() {
                IDLE
            } else {
                TIMEOUT
            };
            self.deadline = Instant::now() + limit;
        }
        Ok(())
    }
}

/// Writes a message with its length prefix in one call.
pub(super) async fn write_message(
    writer: &mut (impl AsyncWrite + Unpin),
    message: &[u8],
) -> io::Result<()> {
    let length = u16::try_from(message.len()).map_err(|_| io::ErrorKind::InvalidData)?;
    let framed = [&length.to_be_bytes(), message].concat();
    let write = async {
        writer.write_all(&framed).await?;
        writer.flush().await
    };
    timeout(TIMEOUT, write)
        .await
        .map_err(|_| io::ErrorKind::TimedOut)?
}

/// Removes the first message with a length prefix (RFC 1035, section 4.2.2) from `buffer`, if it is
/// complete.
pub fn take_message(buffer: &mut BytesMut) -> Option<Bytes> {
    let length = usize::from(u16::from_be_bytes(*buffer.first_chunk()?));
    if buffer.len() < 2 + length {
        return None;
    }
    buffer.advance(2);
    Some(buffer.split_to(length).freeze())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::io::duplex;

    use super::super::message::tests::{query, response};
    use super::*;

    fn resolvers() -> Vec<Destination> {
        [1, 2]
            .map(|n| Destination::from_ip([192, 0, 2, n].into(), 53))
            .into()
    }

    fn lookup(id: u16) -> (Lookup, oneshot::Receiver<Bytes>) {
        Lookup::new(Arc::new(Query::parse(&query(id, None)).unwrap()))
    }

    /// Only the second resolver answers, and the first is abandoned after [`TIMEOUT`]; an idle
    /// connection is closed and a new one opened.
    #[tokio::test(start_paused = true)]
    async fn silent_resolvers_and_idle_connections_are_abandoned() {
        let log = Arc::new(Mutex::new(Vec::new()));
        let dial = {
            let log = Arc::clone(&log);
            move |to: Destination| {
                log.lock().unwrap().push(to.to_string());
                let answers = to == resolvers()[1];
                let (near, mut far) = duplex(1 << 16);
                tokio::spawn(async move {
                    let mut buffer = BytesMut::new();
                    while far.read_buf(&mut buffer).await.unwrap_or(0) > 0 {
                        while answers && let Some(query) = take_message(&mut buffer) {
                            write_message(&mut far, &response(&query, 4)).await.unwrap();
                        }
                    }
                });
                std::future::ready(io::Result::Ok(near))
            }
        };
        let (sender, receiver) = mpsc::channel(8);
        tokio::spawn(Upstream::new(Arc::new(dial), resolvers(), receiver).run());

        let since = Instant::now();
        let (one, answer) = lookup(1);
        sender.send(one).await.unwrap();
        answer.await.unwrap();
        assert_eq!(since.elapsed().as_secs(), TIMEOUT.as_secs());
        assert_eq!(*log.lock().unwrap(), ["192.0.2.1:53", "192.0.2.2:53"]);

        // The working connection is kept as long as it is used.
        for pause in [IDLE / 2, IDLE * 2] {
            let (two, answer) = lookup(2);
            sender.send(two).await.unwrap();
            answer.await.unwrap();
            assert_eq!(log.lock().unwrap().len(), 2);
            tokio::time::sleep(pause).await;
        }
        let (three, answer) = lookup(3);
        sender.send(three).await.unwrap();
        answer.await.unwrap();
        assert_eq!(log.lock().unwrap()[2..], ["192.0.2.2:53"]);
    }

    /// When no resolver answers, a look-up fails after its second attempt.
    #[tokio::test(start_paused = true)]
    async fn look_ups_have_two_attempts() {
        let dials = Arc::new(Mutex::new(Vec::new()));
        let dial = {
            let dials = Arc::clone(&dials);
            move |_| {
                let (near, far) = duplex(1 << 16);
                dials.lock().unwrap().push(far);
                std::future::ready(io::Result::Ok(near))
            }
        };
        let (sender, receiver) = mpsc::channel(8);
        tokio::spawn(Upstream::new(Arc::new(dial), resolvers(), receiver).run());
        let since = Instant::now();
        let (one, answer) = lookup(1);
        sender.send(one).await.unwrap();
        assert!(answer.await.is_err());
        assert_eq!(since.elapsed().as_secs(), 2 * TIMEOUT.as_secs());
        assert_eq!(dials.lock().unwrap().len(), 2);
    }
}
