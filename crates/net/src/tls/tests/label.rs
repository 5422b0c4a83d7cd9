//! Tests of the peek at a ClientHello.

use super::*;

/// The first octets of a client's connection, and what is read in them.
async fn peeked(label: Option<Label>) -> (Vec<u8>, Peeked<Label>) {
    let (a, mut b) = tcp_pair().await;
    let [ours, theirs] = [(); 2].map(|()| Identity::generate().unwrap());
    let client = async {
        match label {
            None => TlsStream::connect(a, &ours, theirs.id(), soon()).await,
            Some(l) => TlsStream::connect_to_process(a, &ours, theirs.id(), l, soon()).await,
        }
    };
    let look = async {
        let mut octets = Vec::new();
        loop {
            b.read_buf(&mut octets).await.unwrap();
            match label_of_hello(&octets) {
                Peeked::Incomplete => {}
                whole => return (octets, whole),
            }
        }
    };
    tokio::select! {
        result = client => panic!("nobody answers: {result:?}"),
        looked = look => looked,
    }
}

/// A ClientHello in one record with one more extension, of so many octets.
fn with_extension(mut hello: Vec<u8>, octets: u16) -> Vec<u8> {
    let extension = [
        &[0xfa, 0xfa][..],
        &octets.to_be_bytes(),
        &vec![0; octets.into()],
    ];
    let extension = extension.concat();
    let length = |hello: &[u8], at: usize| u16::from_be_bytes([hello[at], hello[at + 1]]);
    // The session id follows the headers of record and message, the version and 32 random octets.
    let session_id = 5 + 4 + 2 + 32;
    let ciphers = session_id + 1 + usize::from(hello[session_id]);
    let compression = ciphers + 2 + usize::from(length(&hello, ciphers));
    let extensions = compression + 1 + usize::from(hello[compression]);
    for at in [3, 7, extensions] {
        let longer = length(&hello, at) + extension.len() as u16;
        hello[at..at + 2].copy_from_slice(&longer.to_be_bytes());
    }
    [hello, extension].concat()
}

#[tokio::test]
async fn a_connection_carries_the_label_of_the_process_that_it_is_for() {
    let label = Label([0xde, 0xad, 0xbe, 0xef]);
    let (octets, read) = peeked(Some(label)).await;
    assert_eq!(read, Peeked::Whole(Some(label)));
    for cut in 0..octets.len() {
        assert_eq!(label_of_hello(&octets[..cut]), Peeked::Incomplete, "{cut}");
    }
    let long = with_extension(octets, 14_000);
    assert_eq!(label_of_hello(&long), Peeked::Whole(Some(label)));
    let early = &long[..long.len() - 1];
    assert_eq!(label_of_hello(early), Peeked::Incomplete);
    let (octets, read) = peeked(None).await;
    assert_eq!(read, Peeked::Whole(None));
    let text = String::from_utf8_lossy(&octets);
    assert!(!text.contains("mpbond.invalid"), "no server name is sent");
}
