//! Strangers that call a device which waits for another one.

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::time::Instant;

use super::*;

/// A connection from this address of the loopback network.
fn call_from(from: Ipv4Addr, to: SocketAddr) -> socket2::Socket {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket
}

#[test]
fn forty_silent_callers_at_one_address_do_not_keep_out_the_device_with_the_code() {
    let (helper, primary) = both();
    let mut listener = helper.listen(&["--yes"]);
    let (address, code) = (listener.address.clone(), listener.code.clone());
    let stranger = Ipv4Addr::new(127, 0, 0, 2);
    let to = address.parse().unwrap();
    let strangers: Vec<_> = (0..40).map(|_| call_from(stranger, to)).collect();
    let args = ["pair", &address, &code, "--name", "my laptop", "--yes"];
    let done = primary.run(&args);
    assert!(done.status.success(), "{}", stderr(&done));
    // Those that are too many are told of ten times.
    let told = std::iter::from_fn(|| Some(next(&mut listener.lines)));
    let refused = told.take_while(|event| event["event"] == "refused").count();
    assert!((1..=10).contains(&refused), "{refused}");
    assert!(listener.child.wait().unwrap().success());
    paired(&helper, &primary);
    drop(strangers);
}

#[test]
fn four_hundred_callers_with_junk_at_one_address_do_not_keep_out_the_device_with_the_code() {
    let (helper, primary) = both();
    let mut listener = helper.listen(&["--yes"]);
    let (address, code) = (listener.address.clone(), listener.code.clone());
    let stranger = Ipv4Addr::new(127, 0, 0, 2);
    let to = address.parse().unwrap();
    // At 20 handshakes a second these alone take 20 s.
    for _ in 0..400 {
        call_from(stranger, to).write_all(&[0; 100]).unwrap();
    }
    let begun = Instant::now();
    let args = ["pair", &address, &code, "--name", "my laptop", "--yes"];
    let done = primary.run(&args);
    assert!(done.status.success(), "{}", stderr(&done));
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert!(listener.child.wait().unwrap().success());
    paired(&helper, &primary);
}
