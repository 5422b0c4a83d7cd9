//! Connections over Unix sockets in place of RFCOMM.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use super::*;

const WITHIN: Duration = Duration::from_secs(60);

/// A server at a socket whose other ends are given to the test, or fail.
fn served(
    most: usize,
    channels: &str,
    connect: impl Fn(u8) -> io::Result<()> + Clone + Send + 'static,
) -> (tempfile::TempDir, PathBuf, Receiver<(u8, UnixStream)>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    let listener = socket_file::listen(&path).unwrap();
    let pool = Pool::new(channels.parse().unwrap());
    let (give, take) = channel();
    let give = std::sync::Arc::new(Mutex::new(give));
    thread::spawn(move || {
        let connections = Connections::new(most, Activity::default());
        serve(&listener, &connections, move |_| {
            let (far, lease) = first_free(&pool, |channel| {
                connect(channel)?;
                let (far, other) = UnixStream::pair()?;
                other.set_read_timeout(Some(WITHIN))?;
                give.lock().unwrap().send((channel, other)).unwrap();
                Ok(far.into())
            })?;
            let device = "00:1A:7D:DA:71:13".parse().unwrap();
            Ok((far, Line { device, lease }))
        })
    });
    (folder, path, take)
}

fn client(path: &std::path::Path) -> UnixStream {
    let client = UnixStream::connect(path).unwrap();
    client.set_read_timeout(Some(WITHIN)).unwrap();
    client
}

/// Nothing arrives but the end.
fn is_closed(mut client: UnixStream) -> bool {
    matches!(client.read(&mut [0; 1]), Ok(0))
}

#[test]
fn each_connection_has_a_channel_of_its_own_and_gives_it_back() {
    let (_folder, path, others) = served(8, "22-24", |_| Ok(()));
    let mut open = Vec::new();
    for n in [22, 23, 24] {
        let mut near = client(&path);
        let (channel, mut far) = others.recv_timeout(WITHIN).unwrap();
        assert_eq!(channel, n);
        near.write_all(&[n]).unwrap();
        let mut got = [0];
        far.read_exact(&mut got).unwrap();
        assert_eq!(got, [n]);
        open.push((near, far));
    }
    assert!(is_closed(client(&path)), "no channel is left");
    let (near, mut far) = open.remove(1);
    drop(near);
    assert_eq!(far.read(&mut [0; 1]).unwrap(), 0);
    // The channel is free once the thread has ended.
    let deadline = Instant::now() + WITHIN;
    let (channel, _kept) = loop {
        let near = client(&path);
        match others.recv_timeout(Duration::from_millis(100)) {
            Ok((channel, far)) => break (channel, (near, far)),
            Err(e) => assert!(Instant::now() < deadline, "{e}"),
        }
    };
    assert_eq!(channel, 23);
}

#[test]
fn a_channel_that_cannot_be_had_is_passed_over() {
    let errors = [libc::EBUSY, libc::ECONNREFUSED];
    let connect = move |channel: u8| match errors.get(usize::from(channel - 22)) {
        Some(&number) => Err(io::Error::from_raw_os_error(number)),
        None => Ok(()),
    };
    let (_folder, path, others) = served(8, "22-29", connect);
    let _near = client(&path);
    assert_eq!(others.recv_timeout(WITHIN).unwrap().0, 24);
}

#[test]
fn a_failed_attempt_closes_the_connection_and_the_next_is_another() {
    let down = |_| Err(io::Error::from_raw_os_error(libc::EHOSTDOWN));
    let (_folder, path, _others) = served(8, "22-29", down);
    for _ in 0..20 {
        assert!(is_closed(client(&path)));
    }
}

#[test]
fn more_connections_than_are_carried_are_closed() {
    let (_folder, path, others) = served(1, "22-29", |_| Ok(()));
    let near = client(&path);
    let first = others.recv_timeout(WITHIN).unwrap();
    assert!(is_closed(client(&path)));
    drop((near, first));
}

#[test]
fn an_error_of_the_device_is_not_asked_for_on_every_channel() {
    let pool = Pool::new("22-29".parse().unwrap());
    let tried = Mutex::new(0);
    let failed = |number: i32| {
        *tried.lock().unwrap() = 0;
        let error = first_free(&pool, |_| {
            *tried.lock().unwrap() += 1;
            Err(io::Error::from_raw_os_error(number))
        });
        (error.unwrap_err(), *tried.lock().unwrap())
    };
    let (line, times) = failed(libc::EHOSTDOWN);
    assert!(
        line.contains("out of range") && times == 1,
        "{line} {times}"
    );
    let (line, times) = failed(libc::ECONNREFUSED);
    assert!(line.contains("refuses") && times == 8, "{line} {times}");
    let _all: Vec<_> = (22..=29).map(|c| pool.take(c).unwrap()).collect();
    let (line, times) = failed(libc::EIO);
    assert!(
        line.starts_with("all channels (22-29)") && times == 0,
        "{line}"
    );
}

/// The socket of a connection that is being made becomes writable, fails, or takes too long; the
/// daemon may give up first.
#[test]
fn an_attempt_ends_with_the_daemon_with_the_device_or_in_time() {
    let later = Instant::now() + WITHIN;
    let (near, daemon) = UnixStream::pair().unwrap();
    let near: Socket = near.into();
    // Not writable: its buffer is full.
    let (stuck, device) = UnixStream::pair().unwrap();
    stuck.set_nonblocking(true).unwrap();
    while (&stuck).write(&[0; 4096]).is_ok() {}
    let stuck: Socket = stuck.into();
    let soon = Instant::now() + Duration::from_millis(50);
    let late = wait(&stuck, &near, soon).unwrap_err();
    assert_eq!(late.raw_os_error(), Some(libc::EHOSTDOWN));
    drop(daemon);
    let given_up = wait(&stuck, &near, later).unwrap_err();
    assert!(given_up.to_string().contains("daemon closed"), "{given_up}");
    drop(device);
    assert!(wait(&stuck, &near, later).is_err());
    let (connected, _device) = UnixStream::pair().unwrap();
    wait(&connected.into(), &near, later).unwrap();
}
