//! Tests of the peek at a ClientHello.

use super::*;

/// The first octets of a client's connection, and what is read in them.
async fn peeked(label: Option<Label>) -> (Vec<u8>, Peeked) {
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

#[tokio::test]
async fn a_connection_carries_the_label_of_the_process_that_it_is_for() {
    let label = Label([0xde, 0xad, 0xbe, 0xef]);
    let (octets, read) = peeked(Some(label)).await;
    assert_eq!(read, Peeked::Whole(Some(label)));
    for cut in 0..octets.len() {
        assert_eq!(label_of_hello(&octets[..cut]), Peeked::Incomplete, "{cut}");
    }
    let (octets, read) = peeked(None).await;
    assert_eq!(read, Peeked::Whole(None));
    let text = String::from_utf8_lossy(&octets);
    assert!(!text.contains("mpbond.invalid"), "no server name is sent");
}
