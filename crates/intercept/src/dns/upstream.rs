use std::collections::{HashMap, VecDeque};
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

/// How long opening a stream, writing a query or waiting for any answer may
/// take before the next resolver gets its chance. Half of the time that a
/// look-up has, so that there is a second try.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// How long an unused connection is kept (RFC 7766, §6.2.3: a few seconds).
const IDLE: Duration = Duration::from_secs(10);

/// How often a query is asked: once more when a connection breaks under it
/// (RFC 7766, §6.2.4).
const MAX_TRIES: u32 = 2;

/// Room for one read of answers.
const READ_BYTES: usize = 4096;

/// Opens byte streams to resolvers, by way of the session as a rule.
///
/// Any `Fn(Destination) -> Future<Output = io::Result<Stream>>` will do.
pub trait Dial: Send + Sync + 'static {
    /// The byte stream.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// Opens one. It is dropped when it takes more than two seconds.
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

/// A look-up on its way. Dropping it means that there will be no answer.
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

    /// Whether the client still waits and there are tries left.
    fn is_worth_a_try(&self) -> bool {
        self.tries < MAX_TRIES && !self.answer.is_closed()
    }
}

/// Asks resolvers, one connection at a time.
pub(super) struct Upstream<D> {
    dial: Arc<D>,
    resolvers: Vec<Destination>,
    /// Index of the resolver that is asked first.
    current: usize,
    lookups: mpsc::Receiver<Lookup>,
    /// To be asked again, or first of all on the next connection.
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

    /// Runs until no stub is left to ask.
    pub async fn run(mut self) {
        loop {
            self.waiting.retain(Lookup::is_worth_a_try);
            if self.waiting.is_empty() {
                match self.lookups.recv().await {
                    Some(lookup) => self.waiting.push_back(lookup),
                    None => return,
                }
            }
            match self.connect().await {
                Some(stream) => self.converse(stream).await,
                // They get SERVFAIL now: no resolver is to be had.
                None => self.waiting.clear(),
            }
        }
    }

    /// A stream to the first resolver that is to be had.
    async fn connect(&mut self) -> Option<D::Stream> {
        for _ in 0..self.resolvers.len() {
            let resolver = self.resolvers.get(self.current)?.clone();
            match timeout(PATIENCE, self.dial.dial(resolver.clone())).await {
                Ok(Ok(stream)) => return Some(stream),
                Ok(Err(error)) => debug!(%resolver, %error, "can't reach a resolver"),
                Err(_) => debug!(%resolver, "a resolver can't be reached in time"),
            }
            self.next_resolver();
        }
        None
    }

    fn next_resolver(&mut self) {
        self.current = (self.current + 1) % self.resolvers.len().max(1);
    }

    /// Uses a connection until it ends; unanswered look-ups wait for the next.
    async fn converse(&mut self, stream: D::Stream) {
        let mut talk = Conversation::new(stream);
        let outcome = loop {
            if let Some(lookup) = self.waiting.pop_front() {
                match talk.ask(lookup).await {
                    Ok(()) => continue,
                    Err(error) => break Err(error),
                }
            }
            let deadline = talk.deadline;
            tokio::select! {
                lookup = self.lookups.recv() => match lookup {
                    Some(lookup) => self.waiting.push_back(lookup),
                    None => break Ok(()),
                },
                heard = talk.hear() => match heard {
                    Ok(()) => {}
                    Err(error) => break Err(error),
                },
                () = sleep_until(deadline) => break match talk.asked.is_empty() {
                    true => Ok(()),
                    false => Err(io::ErrorKind::TimedOut.into()),
                },
            }
        };
        if let Err(error) = outcome {
            debug!(%error, unanswered = talk.asked.len(), "a resolver's connection ended");
            // One that closes an idle connection is in its right; one that
            // leaves questions unanswered may be no better next time.
            if !talk.asked.is_empty() {
                self.next_resolver();
            }
        }
        self.waiting.extend(talk.asked.into_values());
    }
}

/// One connection: messages with a length in front (RFC 1035, §4.2.2).
struct Conversation<S> {
    reader: tokio::io::ReadHalf<S>,
    writer: tokio::io::WriteHalf<S>,
    heard: BytesMut,
    asked: HashMap<u16, Lookup>,
    next_id: u16,
    /// When the connection is given up if nothing is heard.
    deadline: Instant,
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Conversation<S> {
    fn new(stream: S) -> Self {
        let (reader, writer) = split(stream);
        Self {
            reader,
            writer,
            heard: BytesMut::new(),
            asked: HashMap::new(),
            next_id: 0,
            deadline: Instant::now() + IDLE,
        }
    }

    /// Sends a query under an id that is free here. The stub bounds how many
    /// look-ups there are, far below the number of ids.
    async fn ask(&mut self, mut lookup: Lookup) -> io::Result<()> {
        if !lookup.is_worth_a_try() {
            return Ok(());
        }
        while self.asked.contains_key(&self.next_id) {
            self.next_id = self.next_id.wrapping_add(1);
        }
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        lookup.tries += 1;
        let message = lookup.query.with_id(id);
        if self.asked.is_empty() {
            self.deadline = Instant::now() + PATIENCE;
        }
        self.asked.insert(id, lookup);
        write_message(&mut self.writer, &message).await
    }

    /// Reads a piece, and hands out the answers that it completes. Cancel-safe.
    async fn hear(&mut self) -> io::Result<()> {
        // Look-ups whose clients have given up would keep the connection from
        // ever being idle.
        self.asked.retain(|_, lookup| !lookup.answer.is_closed());
        self.heard.reserve(READ_BYTES);
        if self.reader.read_buf(&mut self.heard).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        while let Some(message) = take_message(&mut self.heard) {
            let Some(id) = id(&message) else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            // Answers that nobody waits for any more, or to other questions.
            if !self
                .asked
                .get(&id)
                .is_some_and(|l| l.query.is_answered_by(&message))
            {
                continue;
            }
            if let Some(lookup) = self.asked.remove(&id) {
                // The client may have given up; the answer is lost then.
                drop(lookup.answer.send(message));
            }
            let limit = if self.asked.is_empty() {
                IDLE
            } else {
                PATIENCE
            };
            self.deadline = Instant::now() + limit;
        }
        Ok(())
    }
}

/// Writes a message with its length in front, in one piece.
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
    timeout(PATIENCE, write)
        .await
        .map_err(|_| io::ErrorKind::TimedOut)?
}

/// The first message in `buffer`, if it is complete.
pub(super) fn take_message(buffer: &mut BytesMut) -> Option<Bytes> {
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

    /// Only the second resolver answers, and the first is left after
    /// [`PATIENCE`]; an idle connection is closed and a new one made.
    #[tokio::test(start_paused = true)]
    async fn silent_resolvers_are_left_and_idle_ones_too() {
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
        assert_eq!(since.elapsed().as_secs(), PATIENCE.as_secs());
        assert_eq!(*log.lock().unwrap(), ["192.0.2.1:53", "192.0.2.2:53"]);

        // The good one is kept, as long as it is used.
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

    /// When nobody answers, a look-up is given up after its second try.
    #[tokio::test(start_paused = true)]
    async fn two_tries() {
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
        assert_eq!(since.elapsed().as_secs(), 2 * PATIENCE.as_secs());
        assert_eq!(dials.lock().unwrap().len(), 2);
    }
}
