//! Status socket: a request and its answer, one JSON document, over a Unix socket, for
//! `mpbond status` and `mpbond reload`.

use std::future::{Future, poll_fn};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::error::Elapsed;
use tracing::{debug, warn};

use crate::heap;
use crate::reload::Answer;
use crate::rights::Rights;
use crate::socket_file;
use crate::status::Status;
use crate::status_text::{Report, Text, to_json, whole};

/// Time limit for a client that does not write, and for one that does not read.
const PATIENCE: Duration = Duration::from_secs(2);

/// Interval at which the status is made anew for clients that are not trusted: asking must not keep
/// the thread of the data path busy.
const PUBLIC_EVERY: Duration = Duration::from_secs(1);

/// Time within which a daemon begins its answer, and goes on with it: it makes one of thousands of
/// streams between its other work.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// Permissions of the socket, whatever the umask: every user may ask for the status.
const MODE: u32 = 0o666;

/// Maximum size of an answer.
const MAX_ANSWER_BYTES: u64 = 64 << 20;

/// Size of an answer after which free memory goes back to the system, which takes some 0.2 ms: the
/// lists and texts of thousands of streams would stay in the heap.
const TRIM_BYTES: usize = 256 << 10;

/// Maximum number of clients whose requests are being read or whose answers are being written; more
/// are turned away, unless they are trusted.
const MAX_ASKERS: usize = 64;

/// Requests. Anything else, an empty one included, asks for the status. Daemons of older versions
/// read no request: what they have not read would reset the connection.
const STATUS: &str = "";
const RELOAD: &str = "reload";

/// Maximum size of a request.
const MAX_REQUEST_BYTES: usize = 16;

/// Another daemon of this role runs: it answers at the status socket.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct AnotherDaemon(io::Error);

/// A daemon's status socket; removes its file when dropped.
#[derive(Debug)]
pub struct StatusSocket {
    /// Absent where the file could not be made.
    listener: Option<UnixListener>,
    path: PathBuf,
    /// The file is another process's.
    keeps_file: bool,
}

impl StatusSocket {
    /// As [`StatusSocket::bind`], for a daemon, which works without: where the file cannot be made,
    /// a socket that does not listen, and a line in the log.
    ///
    /// # Errors
    /// When another daemon listens there ([`crate::is_lasting`]).
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        match Self::bind(path) {
            Ok(socket) => Ok(socket),
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
                Err(AnotherDaemon(e)).with_context(|| format!("status socket {}", path.display()))
            }
            Err(e) => {
                warn!(
                    error = %e,
                    "no status socket {}: `mpbond status` cannot reach this daemon; `status_socket` \
                     in its configuration names another place",
                    path.display()
                );
                Ok(Self {
                    listener: None,
                    path: path.to_owned(),
                    keeps_file: true,
                })
            }
        }
    }

    /// The listener, if there is one.
    pub fn listener(&self) -> Option<&UnixListener> {
        self.listener.as_ref()
    }

    /// Listens at `path`, replacing the file of a dead daemon; makes its folder if needed.
    ///
    /// # Errors
    /// When another daemon listens there, or the file cannot be made.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let listener = socket_file::listen(path, MODE)?;
        Ok(Self {
            listener: Some(listener),
            path: path.to_owned(),
            keeps_file: false,
        })
    }

    /// The socket at `path` of another process, whose file it stays until
    /// [`taken_over`](Self::taken_over).
    ///
    /// # Errors
    /// It is no listener.
    pub fn inherit(listener: OwnedFd, path: &Path) -> io::Result<Self> {
        let listener = std::os::unix::net::UnixListener::from(listener);
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener: Some(UnixListener::from_std(listener)?),
            path: path.to_owned(),
            keeps_file: true,
        })
    }

    /// The file is this process's from now on.
    pub fn taken_over(&mut self) {
        self.keeps_file = self.listener.is_none();
    }

    /// Another process serves it from now on: its file is kept.
    pub fn hand_over(mut self) {
        self.keeps_file = true;
    }

    /// Answers every request for the status with the current result of `status`, which is told
    /// whether the client may read everything, and every other one with that of `reload`; waits for
    /// ever without a listener.
    pub(crate) async fn serve<F: Future<Output: Into<Report>>>(
        &self,
        status: impl Fn(bool) -> F,
        reload: impl Fn() -> Answer,
    ) {
        self.serve_trusting(|asker| Rights::of(asker) >= Rights::Read, status, reload)
            .await;
    }

    async fn serve_trusting<F: Future<Output: Into<Report>>>(
        &self,
        is_trusted: impl Fn(&UnixStream) -> bool,
        status: impl Fn(bool) -> F,
        reload: impl Fn() -> Answer,
    ) {
        let Some(listener) = &self.listener else {
            return std::future::pending().await;
        };
        // The last answer to a client that is not trusted.
        let mut public: Option<(Instant, Vec<u8>)> = None;
        // In tasks, so that a slow client delays no other.
        let mut asking = JoinSet::new();
        // Answers that are made while they are written, and the next one for clients that are not
        // trusted, with those who wait for it. They belong to this thread, and go on only while
        // this loop waits in its `select!`.
        let mut telling: Vec<Telling> = Vec::new();
        let mut making: Option<Pin<Box<dyn Future<Output = Vec<u8>> + '_>>> = None;
        let mut waiting: Vec<UnixStream> = Vec::new();
        // No client is accepted until then.
        let mut paused = None;
        loop {
            let (asker, request) = tokio::select! {
                () = one_of(&mut telling), if !telling.is_empty() => continue,
                text = made(&mut making), if making.is_some() => {
                    making = None;
                    for asker in waiting.drain(..) {
                        asking.spawn(answer(asker, text.clone()));
                    }
                    public = Some((Instant::now(), text));
                    continue;
                }
                () = until(paused), if paused.is_some() => {
                    paused = None;
                    continue;
                }
                accepted = listener.accept(), if paused.is_none() => {
                    match accepted {
                        Ok((asker, _))
                            if asking.len() + waiting.len() < MAX_ASKERS || is_trusted(&asker) =>
                        {
                            asking.spawn(request_of(asker));
                        }
                        Ok(_) => debug!("too many clients ask for the status"),
                        Err(e) => {
                            warn!(error = %e, "status socket");
                            paused = Some(Instant::now() + PATIENCE);
                        }
                    }
                    continue;
                }
                Some(asked) = asking.join_next() => match asked {
                    Ok(Some(asked)) => asked,
                    Ok(None) | Err(_) => continue,
                },
            };
            if request == RELOAD {
                let result = match Rights::of(&asker) {
                    Rights::Change => reload(),
                    Rights::Read | Rights::Status => Answer::Refused(
                        "only root and the user of the daemon may do this".to_owned(),
                    ),
                };
                asking.spawn(answer(asker, to_json(&result)));
                continue;
            }
            if is_trusted(&asker) {
                let report = status(true);
                telling.push(Box::pin(async move {
                    tell(asker, Text::of(report.await.into())).await;
                }));
                continue;
            }
            let recent = public
                .as_ref()
                .filter(|(at, _)| at.elapsed() < PUBLIC_EVERY);
            if let Some((_, text)) = recent {
                asking.spawn(answer(asker, text.clone()));
                continue;
            }
            waiting.push(asker);
            if making.is_none() {
                let report = status(false);
                making = Some(Box::pin(async move {
                    let Report { mut status, .. } = report.await.into();
                    status.withhold_transfers();
                    whole(status)
                }));
            }
        }
    }
}

/// An answer that is being made and written.
type Telling<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Waits until this time, if there is one, or for ever.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

/// Goes on with this, if there is something, until it has ended.
async fn made(making: &mut Option<Pin<Box<dyn Future<Output = Vec<u8>> + '_>>>) -> Vec<u8> {
    match making {
        Some(making) => making.await,
        None => std::future::pending().await,
    }
}

/// Goes on with all of these until one or more have ended.
async fn one_of(all: &mut Vec<Telling<'_>>) {
    poll_fn(|cx| {
        let before = all.len();
        all.retain_mut(|one| one.as_mut().poll(cx).is_pending());
        match all.len() < before {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
}

/// Makes and sends an answer part by part. Between two of them, other tasks of the thread go on.
async fn tell(mut asker: UnixStream, text: Text) {
    let mut length = 0;
    let write = async {
        for part in text {
            length += part.len();
            asker.write_all(&part).await?;
            tokio::task::yield_now().await;
        }
        asker.shutdown().await
    };
    note_end(tokio::time::timeout(PATIENCE, write).await);
    if length >= TRIM_BYTES {
        heap::trim();
    }
}

/// Notes in the log that an answer was not written whole.
fn note_end(written: Result<io::Result<()>, Elapsed>) {
    match written {
        Ok(Ok(())) => {}
        Ok(Err(e)) => debug!(error = %e, "a status client went away"),
        Err(_) => debug!("a status client reads too slowly: its answer is cut"),
    }
}

/// Reads a client's request: a line, or what comes before the end. Clients of older versions send
/// nothing, and leave the connection open.
async fn request_of(mut asker: UnixStream) -> Option<(UnixStream, String)> {
    let mut request = Vec::new();
    let read = async {
        while !request.ends_with(b"\n") && request.len() < MAX_REQUEST_BYTES {
            if asker.read_buf(&mut request).await? == 0 {
                break;
            }
        }
        io::Result::Ok(())
    };
    let is_whole = match tokio::time::timeout(PATIENCE, read).await {
        Ok(read) => read.is_ok(),
        Err(_) => request.is_empty(),
    };
    let request = String::from_utf8_lossy(&request).trim().to_owned();
    is_whole.then_some((asker, request))
}

/// Sends an answer. No request follows it.
async fn answer(mut asker: UnixStream, text: Vec<u8>) -> Option<(UnixStream, String)> {
    let write = async {
        asker.write_all(&text).await?;
        asker.shutdown().await
    };
    note_end(tokio::time::timeout(PATIENCE, write).await);
    let length = text.len();
    drop(text);
    if length >= TRIM_BYTES {
        heap::trim();
    }
    None
}

impl Drop for StatusSocket {
    fn drop(&mut self) {
        if !self.keeps_file {
            // It may have been removed already.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Asks the daemon at `path` for its status.
///
/// # Errors
/// When nothing answers there, or not with a status.
pub fn ask(path: &Path) -> io::Result<Status> {
    request(path, STATUS)
}

/// Has the daemon at `path` read its configuration again.
///
/// # Errors
/// When nothing answers there, or not with an answer to this.
pub fn reload(path: &Path) -> io::Result<Answer> {
    request(path, RELOAD)
}

fn request<T: DeserializeOwned>(path: &Path, request: &str) -> io::Result<T> {
    let mut stream = socket_file::connect(path).map_err(in_words)?;
    stream.set_read_timeout(Some(ANSWERS_WITHIN))?;
    stream.write_all(request.as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let mut text = Vec::new();
    let read = stream.take(MAX_ANSWER_BYTES).read_to_end(&mut text);
    read.map_err(in_words)?;
    serde_json::from_slice(&text).map_err(io::Error::from)
}

/// EAGAIN is a full queue at connect(2), or the time limit of a read: in words.
fn in_words(e: io::Error) -> io::Error {
    match e.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(
            io::ErrorKind::TimedOut,
            "no answer: the daemon is stopped or busy",
        ),
        _ => e,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::status::TransferStatus;

    #[tokio::test]
    async fn a_socket_is_for_everybody_and_a_daemon_works_without() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("primary.sock");
        let socket = StatusSocket::open(&path).unwrap();
        assert!(socket.listener().is_some());
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o666, "whatever the umask");
        let second = StatusSocket::open(&path).unwrap_err();
        assert!(
            format!("{second:#}").contains("another daemon"),
            "{second:#}"
        );
        assert!(crate::is_lasting(&second));
        drop(socket);
        // A folder cannot be made where there is a file.
        std::fs::write(folder.path().join("file"), "").unwrap();
        let nowhere = StatusSocket::open(&folder.path().join("file/primary.sock")).unwrap();
        assert!(nowhere.listener().is_none());
        let served = nowhere.serve(
            |_| async { Status::default() },
            || Answer::Refused(String::new()),
        );
        let soon = tokio::time::timeout(Duration::from_millis(50), served);
        assert!(soon.await.is_err(), "it goes on");
    }

    #[tokio::test]
    async fn a_client_that_says_nothing_delays_no_other_and_any_request_has_an_answer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("primary.sock");
        let socket = StatusSocket::bind(&path).unwrap();
        let _silent = std::os::unix::net::UnixStream::connect(&path).unwrap();
        let told = Answer::Wrong("line 1".to_owned());
        let served = socket.serve(
            |is_trusted| async move {
                assert!(is_trusted);
                Status::default()
            },
            || told.clone(),
        );
        let asked = tokio::task::spawn_blocking(move || {
            let long = "x".repeat(MAX_REQUEST_BYTES + 1);
            (ask(&path), reload(&path), request::<Status>(&path, &long))
        });
        let (status, reloaded, other) = tokio::select! {
            () = served => panic!("it ends"),
            asked = asked => asked.unwrap(),
        };
        assert_eq!(status.unwrap(), Status::default());
        assert_eq!(reloaded.unwrap(), told);
        assert_eq!(other.unwrap(), Status::default());
    }

    /// The kernel keeps some 200 kB of an answer.
    #[tokio::test]
    async fn clients_that_do_not_read_are_64_at_most_and_others_have_answers_after_two_seconds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("primary.sock");
        let socket = StatusSocket::bind(&path).unwrap();
        let status = |is_trusted: bool| async move {
            assert!(!is_trusted);
            Status {
                notes: vec!["x".repeat(2 << 20)],
                ..Status::default()
            }
        };
        let reload = || Answer::Refused(String::new());
        let served = socket.serve_trusting(|_| false, status, reload);
        let asked = tokio::task::spawn_blocking(move || {
            let began = Instant::now();
            let silent: Vec<_> = (0..MAX_ASKERS)
                .map(|_| {
                    let mut client = std::os::unix::net::UnixStream::connect(&path).unwrap();
                    client.write_all(b"\n").unwrap();
                    client
                })
                .collect();
            // All of these are being answered.
            for client in &silent {
                client.set_read_timeout(Some(PATIENCE)).unwrap();
                assert_eq!({ client }.read(&mut [0; 1]).unwrap(), 1);
            }
            let is_refused = ask(&path).is_err();
            assert!(is_refused || began.elapsed() > PATIENCE, "one more");
            let deadline = Instant::now() + 10 * PATIENCE;
            while ask(&path).is_err() {
                assert!(Instant::now() < deadline, "none is dropped");
            }
            std::thread::sleep(2 * PATIENCE);
            for mut client in silent {
                let rest = client.read_to_end(&mut Vec::new()).unwrap();
                assert!(rest < 1 << 20, "{rest} octets");
            }
        });
        tokio::select! {
            () = served => panic!("it ends"),
            asked = asked => asked.unwrap(),
        }
    }

    /// Otherwise the client would have its answer cut after two seconds.
    #[tokio::test]
    async fn an_answer_goes_on_in_parts_while_another_one_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("primary.sock");
        let socket = StatusSocket::bind(&path).unwrap();
        // More than the kernel keeps.
        let many = || {
            let mut parts = 0..20;
            let part = move || parts.next().map(|_| vec![TransferStatus::default(); 256]);
            Report {
                status: Status::default(),
                further: Box::new(part),
            }
        };
        let (asked, is_read) = (Cell::new(0), tokio::sync::Notify::new());
        let status = |_| {
            asked.set(asked.get() + 1);
            let is_first = asked.get() == 1;
            let is_read = &is_read;
            async move {
                if !is_first {
                    is_read.notified().await;
                }
                many()
            }
        };
        let reload = || Answer::Refused(String::new());
        let served = socket.serve_trusting(|_| true, status, reload);
        let clients = async {
            let mut clients = Vec::new();
            for number in 1..=2 {
                let mut client = UnixStream::connect(&path).await.unwrap();
                client.write_all(b"\n").await.unwrap();
                clients.push(client);
                while asked.get() < number {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            for mut client in clients {
                let mut text = Vec::new();
                let mut some = vec![0; 32 << 10];
                loop {
                    let read = client.read(&mut some).await.unwrap();
                    if read == 0 {
                        break;
                    }
                    text.extend_from_slice(&some[..read]);
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                assert!(text.len() > 1 << 19, "{}", text.len());
                let status: Status = serde_json::from_slice(&text).unwrap();
                assert_eq!(status.transfers.len(), 20 * 256);
                is_read.notify_one();
            }
        };
        tokio::select! {
            () = served => panic!("it ends"),
            read = tokio::time::timeout(5 * PATIENCE, clients) => read.unwrap(),
        }
    }

    #[tokio::test]
    async fn a_status_for_those_who_are_not_trusted_is_made_once_and_delays_no_other() {
        const STRANGERS: usize = 3;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("primary.sock");
        let socket = StatusSocket::bind(&path).unwrap();
        let (asked, is_made) = (Cell::new(0), tokio::sync::Notify::new());
        let (is_asked, are_strangers) = (tokio::sync::Notify::new(), Cell::new(true));
        let status = |is_trusted: bool| {
            asked.set(asked.get() + usize::from(!is_trusted));
            is_asked.notify_one();
            let is_made = &is_made;
            async move {
                if !is_trusted {
                    is_made.notified().await;
                }
                Status::default()
            }
        };
        let reload = || Answer::Refused("no".to_owned());
        let served = socket.serve_trusting(|_| !are_strangers.get(), status, reload);
        let told = async |mut client: UnixStream| {
            let mut text = Vec::new();
            client.read_to_end(&mut text).await.unwrap();
            text
        };
        let begin = async |request: &[u8]| {
            let mut client = UnixStream::connect(&path).await.unwrap();
            client.write_all(request).await.unwrap();
            client
        };
        let clients = async {
            let mut strangers = vec![begin(b"\n").await];
            is_asked.notified().await;
            are_strangers.set(false);
            let whole: Status = serde_json::from_slice(&told(begin(b"\n").await).await).unwrap();
            assert_eq!(whole, Status::default());
            assert!(!told(begin(b"reload\n").await).await.is_empty());
            are_strangers.set(true);
            for _ in 1..STRANGERS {
                strangers.push(begin(b"\n").await);
            }
            // They are read, and wait. One sleep may be no turn of the server on a busy machine.
            for _ in 0..10 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            is_made.notify_one();
            for stranger in strangers {
                let text = told(stranger).await;
                let status: Status = serde_json::from_slice(&text).unwrap();
                assert!(status.transfers_withheld);
            }
            assert_eq!(asked.get(), 1);
        };
        tokio::select! {
            () = served => panic!("it ends"),
            told = tokio::time::timeout(PATIENCE, clients) => told.unwrap(),
        }
    }

    #[tokio::test]
    async fn clients_and_daemons_that_know_no_requests_have_their_answers() {
        let folder = tempfile::tempdir().unwrap();
        let older = folder.path().join("older.sock");
        let listener = std::os::unix::net::UnixListener::bind(&older).unwrap();
        let answers = std::thread::spawn(move || {
            let (mut asker, _) = listener.accept().unwrap();
            asker.write_all(&to_json(&Status::default())).unwrap();
        });
        let status = tokio::task::spawn_blocking(move || ask(&older));
        assert_eq!(status.await.unwrap().unwrap(), Status::default());
        answers.join().unwrap();

        let path = folder.path().join("newer.sock");
        let socket = StatusSocket::bind(&path).unwrap();
        let served = socket.serve(
            |_| async { Status::default() },
            || Answer::Refused(String::new()),
        );
        let silent = tokio::task::spawn_blocking(move || {
            let mut silent = std::os::unix::net::UnixStream::connect(&path).unwrap();
            let mut text = Vec::new();
            silent.read_to_end(&mut text).unwrap();
            serde_json::from_slice::<Status>(&text).unwrap()
        });
        tokio::select! {
            () = served => panic!("it ends"),
            status = silent => assert_eq!(status.unwrap(), Status::default()),
        }
    }

    /// A client that asks while a daemon starts finds no socket or gets an answer, never a dead
    /// socket; a file left by a dead daemon is replaced.
    #[tokio::test]
    async fn a_socket_that_can_be_found_listens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("primary.sock");
        let (asked, stop) = (path.clone(), std::sync::atomic::AtomicBool::new(false));
        let attempts = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let asker = scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    if let Err(e) = std::os::unix::net::UnixStream::connect(&asked) {
                        assert_eq!(e.kind(), io::ErrorKind::NotFound);
                    }
                    attempts.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                }
            });
            for _ in 0..500 {
                let socket = StatusSocket::bind(&path).unwrap();
                let again = StatusSocket::bind(&path).unwrap_err();
                assert_eq!(again.kind(), io::ErrorKind::AddrInUse);
                // Unlinked first, and no attempt has found it any more: a listener that is gone
                // refuses.
                std::fs::remove_file(&path).unwrap();
                let before = attempts.load(std::sync::atomic::Ordering::Relaxed);
                while attempts.load(std::sync::atomic::Ordering::Relaxed) < before + 2
                    && !asker.is_finished()
                {
                    std::thread::yield_now();
                }
                drop(socket);
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            asker.join().unwrap();
        });
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let socket = StatusSocket::bind(&path).unwrap();
        drop(socket);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
