//! Ends of the application's chunks, and what the peer learns of them.

use super::hostile::{NOW, record, server};
use super::pair::{Pair, at, joined, pattern};
use crate::wire::{Destination, Frame};
use crate::*;

/// A stream that the server knows.
fn opened(p: &mut Pair) -> StreamId {
    let id = p.open();
    p.run(at(1_100), |p| p.opened().contains(&id));
    id
}

#[test]
fn a_proxy_ends_a_frame_where_its_client_says_that_a_chunk_ends() {
    let (mut p, ..) = joined(SessionConfig::default());
    let id = opened(&mut p);
    // The second is beyond what is written, the third has been read, the fourth is at the end.
    for end in [100_000, 310_000, 0, 300_000] {
        p.client.mark_peer_chunk_end(id, end);
    }
    p.run(at(1_200), |_| false);
    p.server().write(id, pattern(300_000));
    p.run(at(2_000), |_| false);
    assert_eq!(p.chunk_ends, [(id, 100_000), (id, 300_000)]);
    p.server().write(id, pattern(20_000));
    p.run(at(3_000), |_| false);
    assert_eq!(p.chunk_ends[2..], [(id, 310_000)]);
    assert_eq!(p.client_got[&id].0.len(), 320_000);
}

#[test]
fn the_end_of_a_chunk_that_is_lost_with_its_subflow_is_told_again() {
    let (mut p, first, second) = joined(SessionConfig::default());
    let id = opened(&mut p);
    let octets = [first, second].map(|subflow| p.octets_up(subflow));
    p.client.mark_peer_chunk_end(id, 100_000);
    p.run(at(1_101), |_| false);
    let carrier = match p.octets_up(first) > octets[0] {
        true => first,
        false => second,
    };
    p.kill(carrier);
    p.run(at(3_000), |_| false);
    p.server().write(id, pattern(200_000));
    p.run(at(4_000), |_| false);
    assert_eq!(p.chunk_ends, [(id, 100_000)]);
}

#[test]
fn a_chunk_is_what_the_scheduler_has_to_finish() {
    let (mut s, on) = server();
    let stream = StreamId(0);
    let chunk = |end| Frame::Chunk { stream, end };
    let open = Frame::Open {
        stream,
        treatment: StreamClass::Bulk.into(),
        max_stream_data: 1 << 20,
        destination: Destination::Addr("192.0.2.1:80".parse().expect("address")),
        confirm: false,
    };
    // It may come before OPEN, and many may: further ones are left out.
    let chunks: Vec<_> = (1..=200).map(|n| chunk(n * 1_000)).collect();
    s.handle_record(NOW, on, record(&chunks), 5_000)
        .expect("hints");
    s.handle_record(NOW, on, record(&[open]), 5_100)
        .expect("accepted");
    assert_eq!(s.unscheduled_bytes(), 0);
    s.write(stream, pattern(300_000));
    assert_eq!(s.unscheduled_bytes(), 1_000);
    // The last of them is the 64th; what is behind it is one chunk.
    let mut out = Vec::new();
    while s.poll_transmit(NOW, &mut out).is_some() {
        out.clear();
    }
    assert!(s.stats().bytes_out > 0);
}

#[test]
fn the_end_of_a_chunk_from_a_proxy_closes_the_subflow() {
    let (mut p, first, _) = joined(SessionConfig::default());
    let stream = opened(&mut p);
    let octets = p.octets_down(first) + 100;
    let chunk = record(&[Frame::Chunk { stream, end: 1 }]);
    let refused = p.client.handle_record(p.now, first, chunk, octets);
    let error = refused.expect_err("CHUNK is for proxies");
    assert_eq!(error.code, CloseCode::UnexpectedFrame);
}
