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
    let waited = || {
        let stats = w.handle.stats().unwrap();
        let waited = [stats.waited_down, stats.waited_up];
        if down { waited } else { [waited[1], waited[0]] }
    };
    let [this, other] = waited();
    assert!(
        this > TIME / 4 && this <= begun.elapsed(),
        "{kind:?} {down}: {this:?}"
    );
    assert_eq!(other, Duration::ZERO, "{kind:?} {down}");
    // It waits for its turn, and then goes on without a limit.
    pace.set_rate(None);
    let begun = Instant::now();
    while got < whole * 20 {
        got += from.read(&mut buf).await.unwrap() as u64;
        let time = begun.elapsed();
        assert!(time < Duration::from_secs(60), "{got} of {whole}");
    }
    let ended = waited();
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(waited(), ended, "{kind:?} {down}");
    sent.abort();
}

/// A message each 20 ms, of less than the rate lets through in that time.
#[tokio::test]
async fn a_rate_that_is_not_used_up_holds_nothing_back() {
    let lent = Arc::new(LentRate::default());
    lent.down.set_rate(Some(BitRate::from_mbps(16.0)));
    let options = RelayOptions {
        lent: Some(lent),
        ..RelayOptions::default()
    };
    let mut w = world(options).await;
    let (begun, mut got) = (Instant::now(), vec![0; 10_000]);
    for _ in 0..20 {
        w.proxy.write_all(&got.clone()).await.unwrap();
        w.primary.read_exact(&mut got).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let stats = w.handle.stats().unwrap();
    assert_eq!(stats.bytes_down, 200_000);
    // A wait may last longer than it has to.
    assert!(stats.waited_down < begun.elapsed() / 4, "{stats:?}");
}
