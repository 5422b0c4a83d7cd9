//! Seeds of answers from the network, of ClientHellos, and of the book of enrolment tokens.

use mpbond_net::discovery::{NONCE_BYTES, announce};

use crate::Choices;
use crate::targets::answers::{DEVICES, QUERIES};
use crate::targets::client_hello::hello;
use crate::targets::look_up::{ID, QUESTION};

pub(super) fn answers() -> Vec<(&'static str, Vec<u8>)> {
    let mut all = Vec::new();
    for octets in resolvers() {
        all.push(("resolver", octets));
    }
    for octets in client_hellos() {
        all.push(("client-hello", octets));
    }
    for octets in look_ups() {
        all.push(("look-up", octets));
    }
    for octets in announcements() {
        all.push(("discovery", octets));
    }
    for octets in datagrams() {
        all.push(("probe", octets));
    }
    for text in enrolments() {
        all.push(("enrolment", text.into_bytes()));
    }
    all
}

/// A response to a query under this id, with a record of so many octets, behind its length.
fn response(id: u16, query: &[u8], octets: usize) -> Vec<u8> {
    let question = query.get(12..29).unwrap_or_default();
    let header = [0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
    let record = vec![7; octets];
    let message = [&id.to_be_bytes()[..], &header, question, &record].concat();
    [&(message.len() as u16).to_be_bytes()[..], &message].concat()
}

fn resolvers() -> Vec<Vec<u8>> {
    let [one, two, three] = QUERIES;
    let input = |piece: u8, first: &[Vec<u8>], second: &[Vec<u8>]| {
        let first = first.concat();
        let length = (first.len() as u16).to_be_bytes();
        [&[piece][..], &length, &first, &second.concat()].concat()
    };
    let all = [
        response(0, one, 16),
        response(1, two, 30),
        response(2, three, 600),
    ];
    let [a, b, c] = &all;
    let mut cut = b.clone();
    cut.truncate(20);
    vec![
        input(40, &all, &[]),
        // In reverse, and twice.
        input(0, &[c.clone(), b.clone(), a.clone(), a.clone()], &[]),
        // Answers to other questions, then a broken connection; the next one answers.
        input(
            6,
            &[response(0, two, 4), response(9, one, 4), a.clone(), cut],
            &[
                response(0, two, 4),
                response(1, three, 4),
                response(1, two, 4),
            ],
        ),
        // Messages without a header, and without octets.
        input(3, &[vec![0, 2, 0, 0], a.clone(), vec![0, 0]], &all),
    ]
}

/// ClientHellos with a label and without, as they are and as choices: short ones in one record, and
/// longer ones in several.
fn client_hellos() -> Vec<Vec<u8>> {
    let choices: [&[u8]; 4] = [
        b"\x01\xde\xad\xbe\xef\x00\x05\x02",
        b"\x00\x00\x40",
        b"\x01\x01\x02\x03\x04\x30\x00\x05\x20\x09\x00\x07\x08\x00",
        b"\x01\x0a\x00\xff\x42\x00\x10\x00\x00\x00\x00\x50\x00\x50\x00\x50",
    ];
    let mut all = Vec::new();
    for octets in choices {
        all.push([&[1], octets].concat());
        let (_, hello) = hello(&mut Choices::new(octets));
        if hello.len() < 2_000 {
            all.push([&[0, 0, 70], &hello[..]].concat());
        }
    }
    all
}

/// Messages of resolvers: addresses behind aliases, names that do not exist, failures.
fn look_ups() -> Vec<Vec<u8>> {
    /// The name of the question, by reference.
    const OWN: &[u8] = &[0xc0, 12];
    let record = |owner: &[u8], kind: u8, ttl: u8, data: &[u8]| {
        let head = [0, kind, 0, 1, 0, 0, 0, ttl, 0, data.len() as u8];
        [owner, &head, data].concat()
    };
    let message = |flags: [u8; 2], kind: u8, counts: [u8; 2], records: &[Vec<u8>]| {
        let [answer, authority] = counts;
        [
            &[u8::from(kind == 28)],
            &ID.to_be_bytes()[..],
            &flags,
            &[0, 1, 0, answer, 0, authority, 0, 0],
            QUESTION,
            &[0, kind, 0, 1],
            &records.concat(),
        ]
        .concat()
    };
    let a = |owner: &[u8], last: u8| record(owner, 1, 60, &[192, 0, 2, last]);
    let aaaa = record(
        OWN,
        28,
        60,
        &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
    );
    // From www.example to cdn.example, and from there to b.cdn.example, both by reference.
    let cdn = b"\x03cdn\xc0\x10";
    let aliases = [
        record(OWN, 5, 90, cdn),
        record(&[0xc0, 41], 5, 30, b"\x01b\xc0\x29"),
    ];
    let [one, two] = aliases;
    let soa = [&b"\x01m\xc0\x10\x01r\xc0\x10"[..], &[0; 19], &[30]].concat();
    let soa = record(&[0xc0, 16], 6, 90, &soa);
    let fine = [0x81, 0x80];
    vec![
        message(fine, 1, [2, 0], &[a(OWN, 1), a(OWN, 2)]),
        message(fine, 28, [1, 0], std::slice::from_ref(&aaaa)),
        message(fine, 1, [1, 0], &[a(b"\x03WWW\x07Example\x00", 1)]),
        message(
            fine,
            1,
            [3, 0],
            &[one, two, a(b"\x01b\x03cdn\x07example\x00", 1)],
        ),
        message(fine, 1, [20, 0], &[a(OWN, 3).repeat(20)]),
        message([0x81, 0x83], 28, [0, 1], std::slice::from_ref(&soa)),
        message(fine, 1, [1, 2], &[aaaa, a(b"\x00", 4), soa]),
        message([0x81, 0x82], 1, [0, 0], &[]),
        message([0x83, 0x80], 1, [0, 0], &[]),
    ]
}

fn announcements() -> Vec<Vec<u8>> {
    let [helper, primary] = DEVICES;
    let others: Vec<_> = (10..29)
        .map(|n| mpbond_net::DeviceId::from_bytes([n; 32]))
        .collect();
    let lists = [vec![primary], [&others[..], &[primary]].concat(), others];
    lists
        .iter()
        .map(|primaries| {
            let properties = announce(&helper, primaries, &[5; NONCE_BYTES], || [9; 8]);
            let lines = properties.iter().map(|(k, v)| format!("{k}={v}\n"));
            lines.collect::<String>().into_bytes()
        })
        .collect()
}

fn datagrams() -> Vec<Vec<u8>> {
    let message = |is_answer: bool, seq: u8| {
        [
            &b"mpbP\x01"[..],
            &[u8::from(is_answer), 0, 0],
            // The run, the number, and stamps.
            &[0, 0, 0, 0, 0, 0, 0, 7],
            &[0, 0, 0, seq, 0, 0, 0, 0],
            &1_700_000_000_000_000_000_u64.to_be_bytes(),
            &1_700_000_000_000_001_000_u64.to_be_bytes(),
        ]
        .concat()
    };
    let input = |who: u8, datagrams: &[Vec<u8>]| {
        let mut octets = vec![who];
        for datagram in datagrams {
            octets.push(datagram.len() as u8);
            octets.extend(datagram);
        }
        octets
    };
    // ICMP's header before the message, and IP's before that.
    let icmp = |kind: u8, seq| [&[kind, 0, 0, 0, 0, 7, 0, seq][..], &message(false, seq)].concat();
    let raw = |seq| [&[0x45][..], &[0; 19], &icmp(0, seq)].concat();
    let answers = [message(true, 3), message(true, 1), message(true, 1)];
    vec![
        input(0, &[message(false, 1), message(true, 1), vec![0; 9]]),
        input(1, &answers),
        input(3, &[icmp(0, 1), icmp(8, 2)]),
        input(5, &[icmp(129, 1), icmp(128, 2)]),
        input(7, &[raw(1), raw(2), vec![0x4f]]),
        input(9, &[icmp(129, 0), icmp(129, 0)]),
    ]
}

fn enrolments() -> Vec<String> {
    let (one, two, made) = ("01".repeat(32), "0a".repeat(32), 1_790_000_000);
    vec![
        format!("# tokens\n{one} {made}-1900000000 2 Anna's laptop\n{two} {made}-1900000000 1\n"),
        format!("{two} {made}-1800000001 3 x\n{one} {made}-1799999999 1 y\n"),
        format!("{one} {made}-1900000000 0\n"),
        // A line of an older program beside a new one.
        format!("{one} 1900000000 2 Anna's laptop\n{two} {made}-1900000000 1\n"),
        format!("{one} {made}-1900000000 1 z\n{two} tomorrow 1\n"),
    ]
}
