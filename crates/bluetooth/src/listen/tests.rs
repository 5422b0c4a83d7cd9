//! Connections over Unix sockets in place of RFCOMM.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::*;

const WITHIN: Duration = Duration::from_secs(60);

/// A server with two sockets in place of channels; returns their paths, and that of the helper.
fn served(devices: &[&str]) -> (tempfile::TempDir, [PathBuf; 2], PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let channels = ["a", "b"].map(|name| folder.path().join(name));
    let listeners = channels.each_ref().map(|path| {
        let listener = UnixListener::bind(path).unwrap();
        listener.set_nonblocking(true).unwrap();
        Socket::from(listener)
    });
    let helper = folder.path().join("helper");
    let target = Target {
        socket: helper.clone(),
        devices: devices.iter().map(|text| text.parse().unwrap()).collect(),
    };
    thread::spawn(move || serve::<()>(&listeners, &target, None));
    (folder, channels, helper)
}

fn client(path: &Path) -> UnixStream {
    let client = UnixStream::connect(path).unwrap();
    client.set_read_timeout(Some(WITHIN)).unwrap();
    client
}

fn is_closed(mut client: UnixStream) -> bool {
    matches!(client.read(&mut [0; 1]), Ok(0))
}

#[test]
fn each_connection_on_any_channel_becomes_one_to_the_helper() {
    let (_folder, channels, helper) = served(&[]);
    let helper = UnixListener::bind(helper).unwrap();
    let mut open = Vec::new();
    for (n, channel) in (0..6_u8).zip(channels.iter().cycle()) {
        let mut near = client(channel);
        near.write_all(&[n]).unwrap();
        let (mut far, _) = helper.accept().unwrap();
        let mut got = [0];
        far.read_exact(&mut got).unwrap();
        assert_eq!(got, [n]);
        open.push((near, far));
    }
    for (mut near, far) in open {
        drop(far);
        assert_eq!(near.read(&mut [0; 1]).unwrap(), 0);
    }
}

#[test]
fn without_a_helper_the_connection_of_a_device_is_closed_and_later_ones_work() {
    let (_folder, channels, path) = served(&[]);
    for _ in 0..5 {
        assert!(is_closed(client(&channels[0])));
    }
    let helper = UnixListener::bind(path).unwrap();
    let _near = client(&channels[1]);
    helper.accept().unwrap();
}

#[test]
fn devices_that_are_not_named_are_refused() {
    let (_folder, channels, path) = served(&["00:1A:7D:DA:71:13"]);
    let _helper = UnixListener::bind(path).unwrap();
    // A Unix socket has no address of a device.
    assert!(is_closed(client(&channels[0])));
    let [one, other] = ["00:1A:7D:DA:71:13", "00:1A:7D:DA:71:14"].map(|a| a.parse().unwrap());
    let target = Target {
        socket: PathBuf::new(),
        devices: vec![one],
    };
    assert!(target.admits(Some(one)) && !target.admits(Some(other)) && !target.admits(None));
}

#[test]
fn a_helper_that_cannot_be_reached_is_named_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    let line = connect(&path).unwrap_err().to_string();
    assert_eq!(line, "there is no such socket: is `mpbond helper` running?");
    drop(UnixListener::bind(&path).unwrap());
    let line = connect(&path).unwrap_err().to_string();
    assert!(line.starts_with("nobody listens there: "), "{line}");
}
