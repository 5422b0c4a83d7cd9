//! Seeds of captures: one small file for each format.

/// A probe and its answer, as they are on the air.
fn probes() -> Vec<u8> {
    let packet = |out: bool| {
        let (phone, server) = ([10, 0, 0, 2], [198, 51, 100, 1]);
        let (from, to) = if out {
            (phone, server)
        } else {
            (server, phone)
        };
        let datagram = [
            &[0x9c, 0x40, 0x1b, 0x5f, 0, 48, 0, 0][..],
            b"mpbP\x01",
            &[u8::from(!out), 0, 0],
            // The run, the number, and stamps.
            &[7; 8],
            &[0, 0, 0, 1],
            &[0; 20],
        ]
        .concat();
        let head = [0x45, 0, 0, 68, 0, 0, 0, 0, 64, 17, 0, 0];
        // Radiotap with a TSF; data of 802.11; LLC and SNAP.
        [
            &[
                0,
                0,
                16,
                0,
                1,
                0,
                0,
                0,
                1 + u8::from(!out),
                2,
                3,
                4,
                5,
                6,
                7,
                0,
            ][..],
            &[0x88, if out { 1 } else { 2 }, 0, 0],
            &[2; 18],
            &[0x10, 0, 0, 0],
            &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0],
            &head,
            &from,
            &to,
            &datagram,
        ]
        .concat()
    };
    pcap(false, false, 127, &[&packet(true), &packet(false)])
}

/// Captures of one UDP packet, in every format and byte order that costs nothing here.
pub(super) fn captures() -> Vec<(&'static str, Vec<u8>)> {
    let mut ip = vec![
        0x45, 0, 0, 60, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 2, 198, 51, 100, 1,
    ];
    // TCP with 20 bytes of data.
    ip.extend([
        0x12, 0x34, 0, 80, 0, 0, 0, 9, 0, 0, 0, 0, 0x50, 0x18, 0, 64, 0, 0, 0, 0,
    ]);
    ip.extend([7; 20]);
    let ethernet = [&[2; 12][..], &[8, 0], &ip].concat();
    // Radiotap with a TSF, then a beacon.
    let radiotap = [
        &[0, 0, 16, 0, 1, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8][..],
        &[0x80, 0, 0, 0],
        &[0xff; 6],
        &[2; 12],
        &[0x10, 0, 1, 2, 3, 4, 5, 6, 7, 8, 100, 0, 1, 0, 0, 0],
    ]
    .concat();
    let mut out = Vec::new();
    for (big, nanos) in [(false, false), (true, true)] {
        for (link, frame) in [(1, &ethernet), (101, &ip), (127, &radiotap)] {
            let file = pcap(big, nanos, link, &[frame, frame]);
            for target in ["capture", "energy", "transfer"] {
                out.push((target, file.clone()));
            }
            if link == 127 {
                out.push(("wifi-merge", [file.clone(), file].concat()));
            }
        }
    }
    out.push(("capture", probes()));
    let ng = pcapng(&ethernet);
    out.push(("capture", ng.clone()));
    out.push(("energy", ng));
    // A completed connection, a mode change, ACL with RFCOMM in it.
    let hci: &[&[u8]] = &[
        &[4, 3, 11, 0, 1, 0, 1, 2, 3, 4, 5, 6, 1, 0],
        &[4, 0x14, 6, 0, 1, 0, 2, 0x20, 3],
        &[1, 3, 8, 10, 1, 0, 0, 3, 0, 2, 1, 0, 1, 0],
        &[2, 1, 0x20, 9, 0, 5, 0, 0x41, 0, 9, 0xff, 3, 7, 0x70],
        &[4, 5, 4, 0, 1, 0, 0x13],
    ];
    out.push(("bluetooth", btsnoop(1002, hci)));
    out.push(("capture", btsnoop(1002, hci)));
    let mut log = Vec::new();
    for (kind, data) in [(1_u8, hci[0]), (3, hci[3])] {
        let body = &data[1..];
        log.extend((9 + body.len() as u32).to_be_bytes());
        log.extend(5_u32.to_be_bytes());
        log.extend(6_u32.to_be_bytes());
        log.push(kind);
        log.extend(body);
    }
    out.push(("bluetooth", log));
    out
}

fn pcap(big: bool, nanos: bool, link: u32, frames: &[&Vec<u8>]) -> Vec<u8> {
    let n32 = |n: u32| {
        if big {
            n.to_be_bytes()
        } else {
            n.to_le_bytes()
        }
    };
    let mut file = n32(if nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 }).to_vec();
    file.extend(if big { [0, 2, 0, 4] } else { [2, 0, 4, 0] });
    for field in [0, 0, 65535, link] {
        file.extend(n32(field));
    }
    for (at, frame) in (0..).zip(frames) {
        let length = frame.len() as u32;
        for field in [1000 + at, 5, length, length] {
            file.extend(n32(field));
        }
        file.extend(frame.as_slice());
    }
    file
}

fn pcapng(frame: &[u8]) -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let mut body = body.to_vec();
        body.resize(body.len().next_multiple_of(4), 0);
        let length = (body.len() as u32 + 12).to_le_bytes();
        [&kind.to_le_bytes()[..], &length, &body, &length].concat()
    };
    let section = [&[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0][..], &[0xff; 8]].concat();
    let interface = [
        &[1, 0, 0, 0, 0, 0, 0, 0][..],
        b"\x02\0\x04\0wifi\x09\0\x01\0\x09\0\0\0\0\0\0\0",
    ];
    let length = (frame.len() as u32).to_le_bytes();
    let packet = [&[0; 4][..], &[0; 4], &[5, 0, 0, 0], &length, &length, frame].concat();
    [
        block(0x0a0d_0d0a, &section),
        block(1, &interface.concat()),
        block(6, &packet),
        block(5, &[0; 12]),
    ]
    .concat()
}

fn btsnoop(datalink: u32, packets: &[&[u8]]) -> Vec<u8> {
    let mut file = b"btsnoop\0\0\0\0\x01".to_vec();
    file.extend(datalink.to_be_bytes());
    for (at, packet) in (0_u64..).zip(packets) {
        let length = (packet.len() as u32).to_be_bytes();
        file.extend(length);
        file.extend(length);
        file.extend(((at & 1) as u32).to_be_bytes());
        file.extend([0; 4]);
        // Microseconds since the year 0; this is 2000.
        file.extend((0x00e0_3ab4_4a67_6000_u64 + at * 1000).to_be_bytes());
        file.extend(*packet);
    }
    file
}
