//! Bytes over pairs of Unix sockets: order, ends, back-pressure, sleep.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;

use super::*;

/// Limit of a wait in tests.
const WITHIN: Duration = Duration::from_secs(60);

/// Outer ends of a connection, carried by a thread, which returns its processor time, too.
fn carried() -> (UnixStream, UnixStream, JoinHandle<(Carried, i64)>) {
    carried_with(LINGER)
}

fn carried_with(linger: Duration) -> (UnixStream, UnixStream, JoinHandle<(Carried, i64)>) {
    let (near, first) = UnixStream::pair().unwrap();
    let (far, second) = UnixStream::pair().unwrap();
    for end in [&near, &far] {
        end.set_read_timeout(Some(WITHIN)).unwrap();
        end.set_write_timeout(Some(WITHIN)).unwrap();
    }
    let thread = thread::spawn(move || {
        let carried =
            carry_with(&first.into(), &second.into(), &Activity::default(), linger).unwrap();
        let usage = getrusage(UsageWho::RUSAGE_THREAD).unwrap();
        let spent = usage.user_time() + usage.system_time();
        (carried, spent.num_microseconds())
    });
    (near, far, thread)
}

fn pattern(seed: u8, length: usize) -> Vec<u8> {
    (0..length)
        .map(|i| (i * 7 + i / 251) as u8 ^ seed)
        .collect()
}

#[test]
fn bytes_that_move_are_noted() {
    let (mut near, first) = UnixStream::pair().unwrap();
    let (mut far, second) = UnixStream::pair().unwrap();
    let activity = Activity::default();
    let of_thread = activity.clone();
    let thread = thread::spawn(move || {
        carry_with(&first.into(), &second.into(), &of_thread, LINGER).unwrap();
    });
    let (noted, all) = channel();
    thread::spawn(move || {
        loop {
            activity.wait();
            if noted.send(()).is_err() {
                break;
            }
        }
    });
    for _ in 0..2 {
        near.write_all(&[1]).unwrap();
        all.recv_timeout(WITHIN).unwrap();
        far.read_exact(&mut [0]).unwrap();
    }
    drop(near);
    thread.join().unwrap();
}

#[test]
fn bytes_go_both_ways_at_once_in_order() {
    let (near, far, thread) = carried();
    let each = |mut end: UnixStream, seed: u8| {
        let mut writer = end.try_clone().unwrap();
        let writes = thread::spawn(move || writer.write_all(&pattern(seed, 1_000_000)).unwrap());
        let mut got = vec![0; 1_000_000];
        end.read_exact(&mut got).unwrap();
        writes.join().unwrap();
        (end, got)
    };
    let other = thread::spawn(move || each(far, 1));
    let (near, at_near) = each(near, 2);
    let (_far, at_far) = other.join().unwrap();
    assert!(at_near == pattern(1, 1_000_000) && at_far == pattern(2, 1_000_000));
    drop(near);
    assert_eq!(thread.join().unwrap().0, Carried(1_000_000, 1_000_000));
}

/// Also more than all buffers hold, while the other end does not read yet.
#[test]
fn all_that_an_end_sent_before_it_closed_is_delivered() {
    for turned in [false, true] {
        let (near, far, thread) = carried();
        let (mut from, mut into) = if turned { (far, near) } else { (near, far) };
        let writer = thread::spawn(move || from.write_all(&pattern(3, 300_000)).unwrap());
        thread::sleep(Duration::from_millis(50));
        let mut got = Vec::new();
        into.read_to_end(&mut got).unwrap();
        assert!(got == pattern(3, 300_000), "{} bytes", got.len());
        writer.join().unwrap();
        let Carried(up, down) = thread.join().unwrap().0;
        assert_eq!(up.max(down), 300_000);
    }
}

#[test]
fn the_end_of_one_direction_is_the_end_of_the_connection() {
    let (mut near, mut far, thread) = carried();
    near.write_all(b"last").unwrap();
    near.shutdown(Shutdown::Write).unwrap();
    let mut got = Vec::new();
    far.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"last");
    assert_eq!(near.read(&mut [0; 8]).unwrap(), 0);
    thread.join().unwrap();
}

/// An end that is closed with unread bytes: the other is closed too, and nothing waits.
#[test]
fn an_end_that_is_gone_ends_the_other_while_it_sends() {
    let (mut near, far, thread) = carried();
    near.write_all(&[1; 2000]).unwrap();
    drop(far);
    let error = loop {
        if let Err(e) = near.write_all(&[1; 2000]) {
            break e;
        }
    };
    let closed = [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset];
    assert!(closed.contains(&error.kind()), "{error}");
    thread.join().unwrap();
}

/// Unread bytes are limited by the buffers: the sender's, one block, and that of the second socket.
#[test]
fn an_end_that_does_not_read_stops_the_other() {
    let (near, far, thread) = carried();
    near.set_nonblocking(true).unwrap();
    let near: Socket = near.into();
    near.set_send_buffer_size(SEND_BUFFER_BYTES).unwrap();
    let (mut sent, mut quiet) = (0, 0);
    while quiet < 20 {
        match near.send(&[7; 1000]) {
            Ok(n) => (sent, quiet) = (sent + n, 0),
            Err(_) => {
                quiet += 1;
                thread::sleep(Duration::from_millis(10));
            }
        }
    }
    let bound = 2 * 2 * SEND_BUFFER_BYTES + BLOCK_BYTES;
    assert!((BLOCK_BYTES..=bound).contains(&sent), "{sent} of {bound}");
    // All of it arrives when it is read.
    let mut far = far;
    let mut got = vec![0; sent];
    far.read_exact(&mut got).unwrap();
    assert!(got.iter().all(|&octet| octet == 7));
    drop(near);
    thread.join().unwrap();
}

/// An idle connection, and one that is stopped by an end that does not read, use no processor time;
/// so does one whose first end is gone while its bytes cannot be delivered.
#[test]
fn a_connection_that_can_do_nothing_sleeps() {
    for fills in [false, true] {
        let (near, far, thread) = carried();
        if fills {
            near.set_nonblocking(true).unwrap();
            while (&near).write(&[0; 4096]).is_ok() {}
        }
        thread::sleep(Duration::from_millis(500));
        drop(near);
        thread::sleep(Duration::from_millis(500));
        drop(far);
        let (_, spent_us) = thread.join().unwrap();
        assert!(spent_us < 100_000, "{spent_us} us, fills: {fills}");
    }
}

/// Within the linger time, not for ever: the channel is needed by others.
#[test]
fn a_stopped_connection_whose_sender_is_gone_ends() {
    let linger = Duration::from_millis(700);
    let (near, far, thread) = carried_with(linger);
    near.set_nonblocking(true).unwrap();
    while (&near).write(&[0; 4096]).is_ok() {}
    let start = Instant::now();
    drop(near);
    thread.join().unwrap();
    let took = start.elapsed();
    assert!((linger..WITHIN).contains(&took), "{took:?}");
    drop(far);
}
