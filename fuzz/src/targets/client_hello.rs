//! Target for the peek of a ClientHello, for a label or any server name, with a reader and a
//! writer of ClientHellos of its own.

use mpbond_net::tls::{Label, MAX_HELLO_BYTES, Peeked, label_of_hello, server_name_of_hello};

use crate::Choices;

/// Maximum payload of a record (RFC 8446, section 5.1).
const RECORD_BYTES: usize = 1 << 14;

/// The beginning of a connection: as it is (first octet even), or a ClientHello made by the choices
/// that follow (odd). The server name and the label must be those of the reader below, which shares
/// no code with the product, and must not depend on how much has arrived.
pub fn client_hello(octets: &[u8]) {
    let mut choices = Choices::new(octets);
    if choices.octet() & 1 == 0 {
        let cut = choices.short();
        return given(choices.rest(), cut.into());
    }
    made(&mut choices);
}

/// Octets of anybody.
fn given(octets: &[u8], cut: usize) {
    let peeked = server_name_of_hello(octets);
    let read = read(octets);
    match (&peeked, &read) {
        // The TLS library refuses more than the reader does: this is no hello then.
        (Peeked::Whole(None), _) => {}
        (Peeked::Whole(Some(name)), Read::Hello(Some(same)))
            if name.as_bytes().eq_ignore_ascii_case(same) =>
        {
            let labelled = label_of_hello(octets);
            assert_eq!(labelled, Peeked::Whole(label(same)), "{name}");
        }
        (Peeked::Incomplete, Read::Incomplete | Read::Other) => {}
        _ => panic!("{peeked:?}, and by another reader {read:?}"),
    }
    is_the_same_earlier(octets, cut, &peeked);
}

/// Checks that a part of the octets gives no other result than all of them.
fn is_the_same_earlier(octets: &[u8], cut: usize, whole: &Peeked<String>) {
    for cut in [cut, octets.len().saturating_sub(1), octets.len() / 2] {
        let part = server_name_of_hello(octets.get(..cut).unwrap_or(octets));
        let same = part == *whole || part == Peeked::Incomplete;
        assert!(same, "{part:?} after {cut} octets, then {whole:?}");
    }
    if *whole == Peeked::Incomplete {
        let ended = [octets, &vec![0; MAX_HELLO_BYTES]].concat();
        let ended = server_name_of_hello(&ended);
        assert_ne!(ended, Peeked::Incomplete, "no end of a ClientHello");
    }
}

/// A well-formed ClientHello in records of several lengths, and the label in it.
pub fn hello(choices: &mut Choices<'_>) -> (Option<Label>, Vec<u8>) {
    let label = match choices.octet() & 1 {
        0 => None,
        _ => Some(Label(std::array::from_fn(|_| choices.octet()))),
    };
    let message = message(label, choices);
    (label, records(&message, choices))
}

fn made(choices: &mut Choices<'_>) {
    let (label, octets) = hello(choices);
    if octets.len() > MAX_HELLO_BYTES {
        return;
    }
    let found = label_of_hello(&octets);
    assert_eq!(found, Peeked::Whole(label), "{} octets", octets.len());
    let peeked = server_name_of_hello(&octets);
    let name = label.map(Label::server_name);
    assert_eq!(
        peeked,
        Peeked::Whole(name.clone()),
        "{} octets",
        octets.len()
    );
    let name = name.map(String::into_bytes);
    assert_eq!(read(&octets), Read::Hello(name), "by the other reader");
    is_the_same_earlier(&octets, choices.short().into(), &peeked);
    let early = octets.get(..octets.len() - 1).unwrap_or_default();
    let early = server_name_of_hello(early);
    assert_eq!(early, Peeked::Incomplete, "an octet early");
    let more = [&octets, choices.rest()].concat();
    let more = server_name_of_hello(&more);
    assert_eq!(more, peeked, "octets after the ClientHello");
}

/// Octets behind their length, which takes `width` octets.
fn behind_length(width: usize, octets: &[u8]) -> Vec<u8> {
    let length = octets.len().to_be_bytes();
    let length = length.get(length.len() - width..).unwrap_or_default();
    [length, octets].concat()
}

/// A ClientHello of TLS 1.3 (RFC 8446, section 4.1.2).
fn message(label: Option<Label>, choices: &mut Choices<'_>) -> Vec<u8> {
    let extension = |kind: u16, octets: &[u8]| {
        let octets = behind_length(2, octets);
        [&kind.to_be_bytes()[..], &octets].concat()
    };
    let mut extensions = vec![
        // supported_versions, signature_algorithms, supported_groups, key_share
        extension(43, &[2, 3, 4]),
        extension(13, &[0, 2, 8, 7]),
        extension(10, &[0, 2, 0, 29]),
        extension(
            51,
            &behind_length(2, &[&[0, 29, 0, 32][..], &[9; 32]].concat()),
        ),
        // An extension that nobody knows.
        extension(
            0xfafa,
            &vec![7; usize::from(choices.short()) % RECORD_BYTES],
        ),
    ];
    if let Some(label) = label {
        let name = behind_length(2, label.server_name().as_bytes());
        let list = behind_length(2, &[&[0][..], &name].concat());
        let at = choices.below(extensions.len() + 1);
        extensions.insert(at, extension(0, &list));
    }
    let session = choices.below(33);
    let body = [
        &[3, 3][..],
        &[choices.octet(); 32],
        &behind_length(1, &vec![5; session]),
        &behind_length(2, &[0x13, 1, 0x13, 3]),
        &[1, 0],
        &behind_length(2, &extensions.concat()),
    ];
    [&[1][..], &behind_length(3, &body.concat())].concat()
}

fn records(mut message: &[u8], choices: &mut Choices<'_>) -> Vec<u8> {
    let mut octets = Vec::new();
    while !message.is_empty() {
        // All in one when the choices are used up.
        let length = match choices.short() {
            0 => RECORD_BYTES,
            n => usize::from(n),
        };
        let (record, rest) = message.split_at(length.min(RECORD_BYTES).min(message.len()));
        octets.extend([22, 3, 1]);
        octets.extend(behind_length(2, record));
        message = rest;
    }
    octets
}

/// Result of the other reader.
#[derive(Debug, PartialEq, Eq)]
enum Read {
    Incomplete,
    /// A ClientHello with this server name.
    Hello(Option<Vec<u8>>),
    Other,
}

/// Reads whole records until they hold a handshake message (RFC 8446, section 5.1).
fn read(octets: &[u8]) -> Read {
    let mut rest = Octets(octets);
    let mut message = Vec::new();
    loop {
        let mut body = Octets(&message);
        let kind = body.number(1);
        if let Some(body) = body.behind_length(3) {
            return match kind {
                Some(1) => Read::Hello(server_name(body).map(<[u8]>::to_vec)),
                _ => Read::Other,
            };
        }
        let mut record = rest;
        match record.number(1) {
            Some(22) => {}
            None => return Read::Incomplete,
            Some(_) => return Read::Other,
        }
        let _version = record.number(2);
        let Some(payload) = record.behind_length(2) else {
            return Read::Incomplete;
        };
        message.extend_from_slice(payload.0);
        rest = record;
    }
}

/// The host name in the extension server_name (RFC 6066, section 3) of a ClientHello.
fn server_name<'a>(mut body: Octets<'a>) -> Option<&'a [u8]> {
    body.take(2 + 32)?;
    body.behind_length(1)?;
    body.behind_length(2)?;
    body.behind_length(1)?;
    let mut extensions = body.behind_length(2)?;
    loop {
        let kind = extensions.number(2)?;
        let mut extension = extensions.behind_length(2)?;
        if kind == 0 {
            let mut names = extension.behind_length(2)?;
            while names.number(1)? != 0 {
                names.behind_length(2)?;
            }
            return Some(names.behind_length(2)?.0);
        }
    }
}

/// The label in a host name: eight digits below a domain, regardless of case.
fn label(name: &[u8]) -> Option<Label> {
    let (digits, domain) = name.split_at_checked(8)?;
    if !domain.eq_ignore_ascii_case(b".mpbond.invalid") {
        return None;
    }
    let mut octets = [0; 4];
    for (at, digit) in digits.iter().enumerate() {
        let value = char::from(*digit).to_digit(16)? as u8;
        let octet = octets.get_mut(at / 2)?;
        *octet = *octet << 4 | value;
    }
    Some(Label(octets))
}

/// Octets not read yet.
#[derive(Clone, Copy)]
struct Octets<'a>(&'a [u8]);

impl<'a> Octets<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self, width: usize) -> Option<usize> {
        let octets = self.take(width)?;
        Some(octets.iter().fold(0, |n, o| n << 8 | usize::from(*o)))
    }

    fn behind_length(&mut self, width: usize) -> Option<Octets<'a>> {
        let length = self.number(width)?;
        self.take(length).map(Octets)
    }
}
