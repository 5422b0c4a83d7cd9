//! Relays of a link that is lent at a rate.

use mpbond_units::BitRate;
use tokio::io::{AsyncRead, AsyncWrite};

use super::*;

/// Bytes that a side sends come at the rate, and the limit's end is noticed.
#[tokio::test]
async fn relays_read_at_the_rate_of_the_link() {
    for kind in KINDS {
        for down in [true, false] {
            read_at_a_rate(kind, down).await;
        }
    }
}

async fn read_at_a_rate(kind: Kind, down: bool) {
    const TIME: Duration = Duration::from_millis(400);
    let rate = BitRate::from_mbps(16.0);
    let lent = Arc::new(LentRate::default());
    let pace = if down { &lent.down } else { &lent.up };
    pace.set_rate(Some(rate));
    let options = RelayOptions {
        lent: Some(lent.clone()),
        ..RelayOptions::default()
    };
    let w = world_over(kind, options).await;
    let (primary_in, primary_out) = split(w.primary);
    let (proxy_in, proxy_out) = w.proxy.into_split();
    let (mut from, mut to): (
        Box<dyn AsyncRead + Unpin>,
        Box<dyn AsyncWrite + Send + Unpin>,
    ) = match down {
        true => (Box::new(primary_in), Box::new(proxy_out)),
        false => (Box::new(proxy_in), Box::new(primary_out)),
    };
    let sent = tokio::spawn(async move { while to.write_all(&[7; 5_000]).await.is_ok() {} });
    let (begun, mut buf, mut got) = (Instant::now(), vec![0; 1 << 20], 0);
    while begun.elapsed() < TIME {
        got += from.read(&mut buf).await.unwrap() as u64;
    }
    let whole = rate.bytes_in(begun.elapsed());
    assert!(got <= whole + 64_000, "{kind:?} {down}: {got} of {whole}");
    assert!(got >= whole / 20, "{kind:?} {down}: {got} of {whole}");
    // It waits for its turn, and then goes on without a limit.
    pace.set_rate(None);
    let begun = Instant::now();
    while got < whole * 20 {
        got += from.read(&mut buf).await.unwrap() as u64;
        let time = begun.elapsed();
        assert!(time < Duration::from_secs(60), "{got} of {whole}");
    }
    sent.abort();
}
