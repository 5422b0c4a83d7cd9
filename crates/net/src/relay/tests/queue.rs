//! Queues of pipes over TCP: of one of several, and beside messages.

use super::*;

/// Attempts of a test by the clock: a busy machine takes the time of some.
const ATTEMPTS: usize = 5;

/// What waits in the socket of a pipe whose primary reads at most 2 MB/s.
async fn longest_queue(options: RelayOptions) -> u64 {
    let mut w = world(options).await;
    let pump = tokio::spawn(async move {
        send_pattern(&mut w.proxy, 8 << 20, 100_000).await;
        w.proxy
    });
    let (mut longest, mut read) = (0, 0);
    while read < 3 << 20 {
        let mut block = vec![0; 20_000];
        let n = w.primary.read(&mut block).await.unwrap();
        assert!(block[..n] == pattern(read, n)[..]);
        read += n as u64;
        tokio::time::sleep(Duration::from_millis(10)).await;
        // What was written before a rate was known has left.
        if read > 2 << 20 {
            let pipe = w.handle.stats().unwrap().pipe.unwrap();
            longest = longest.max(pipe.notsent_bytes.unwrap());
        }
    }
    let level = w.handle.stats().unwrap().level_down_bytes;
    assert!(level > 1 << 20, "{level} bytes wait at the helper");
    // All else comes, too.
    let mut rest = vec![0; 100_000];
    while read < 8 << 20 {
        let n = w.primary.read(&mut rest).await.unwrap();
        assert!(n > 0 && rest[..n] == pattern(read, n)[..]);
        read += n as u64;
    }
    assert_eq!(w.primary.read(&mut rest).await.unwrap(), 0);
    drop(pump.await.unwrap());
    longest
}

/// Bytes that come faster wait in the relay and in the socket that it reads from. In the one that
/// it writes to few do; for an only pipe an eighth of the bound, half a MiB, and more.
#[tokio::test]
async fn one_of_several_pipes_and_one_beside_messages_have_short_queues() {
    let several = RelayOptions::default();
    several.is_one_of_several.store(true, Relaxed);
    let beside_messages = RelayOptions::default();
    let messages = Arc::clone(&beside_messages.messages);
    let (several, beside_messages, only, ()) = tokio::join!(
        longest_queue(several),
        longest_queue(beside_messages),
        longest_queue(RelayOptions::default()),
        async move {
            // 0.6 MB later.
            tokio::time::sleep(Duration::from_millis(300)).await;
            messages.note(true, 4 << 10, 2 << 10);
        }
    );
    assert!(several < 400_000, "{several} bytes were not sent");
    assert!(
        beside_messages < 200_000,
        "{beside_messages} bytes were not sent"
    );
    assert!(
        only > 2 * several,
        "{only} and {several} bytes were not sent"
    );
}

/// A relay whose pipe carries so many Mbit/s.
async fn paced(mbps: u32, options: RelayOptions) -> (World, Arc<PipeMessages>) {
    let messages = Arc::clone(&options.messages);
    let (far, near) = tcp_pair(Some(256 << 10)).await;
    tcp::set_max_pacing_rate(&near, mbps * 125_000).unwrap();
    let (proxy, hs) = tcp_pair(None).await;
    proxy.set_nodelay(true).unwrap();
    let relay = Relay::new(near, hs, options).unwrap();
    let world = World {
        primary: far.into(),
        proxy,
        handle: relay.handle(),
        end: tokio::spawn(relay.run()),
    };
    (world, messages)
}

/// A download whose windows still open: flights of growing length, which a pipe takes at once.
#[tokio::test]
async fn a_pipe_that_takes_all_at_once_delays_nothing_beside_messages() {
    let (mut seen, most) = (Vec::new(), Duration::from_millis(150));
    while seen.len() < ATTEMPTS {
        let (mut w, messages) = paced(1_000, RelayOptions::default()).await;
        messages.note(true, 4 << 10, 2 << 10);
        let mut took = Duration::ZERO;
        for n in 0..8 {
            let mut flight = vec![0; (14_000 << n).min(448_000)];
            let start = Instant::now();
            w.proxy.write_all(&flight).await.unwrap();
            w.primary.read_exact(&mut flight).await.unwrap();
            took += start.elapsed();
            tokio::time::sleep_until((start + Duration::from_millis(50)).into()).await;
        }
        // 14 ms of the link; with a bound by the rate of the source, 228 to 306 ms.
        if took < most {
            return;
        }
        seen.push(took);
    }
    panic!("{seen:?}");
}

/// Bytes that a pipe's primary reads in half a second while as many come as are taken.
async fn half_a_second(primary: &mut PipeStream) -> u64 {
    let (mut n, mut block) = (0, vec![0; 400_000]);
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(500) {
        n += primary.read(&mut block).await.unwrap() as u64;
    }
    n
}

/// A full socket is written to at its event, and not each 50 ms: what it holds lasts for 3 ms.
#[tokio::test]
async fn a_fast_pipe_with_a_small_buffer_is_as_fast_beside_messages() {
    let (mut seen, least) = (Vec::new(), 7 * 200 * 125_000 / 2 / 10);
    while seen.len() < ATTEMPTS {
        let options = RelayOptions {
            bound_bytes: MIN_BOUND_BYTES,
            ..RelayOptions::default()
        };
        let (w, messages) = paced(200, options).await;
        let (mut primary, mut proxy) = (w.primary, w.proxy);
        let pump =
            tokio::spawn(async move { while proxy.write_all(&[0; 200_000]).await.is_ok() {} });
        let alone = half_a_second(&mut primary).await;
        messages.note(true, 4 << 10, 2 << 10);
        let beside = half_a_second(&mut primary).await;
        pump.abort();
        if alone > least && beside > least {
            return;
        }
        seen.push((alone, beside));
    }
    panic!("bytes alone and beside messages: {seen:?}");
}

/// Most of what a relay's pipe has not sent: after 4 KiB over an express, and after 2 KiB more.
async fn longest_beside_an_express() -> (u64, u64) {
    let (w, messages) = paced(8, RelayOptions::default()).await;
    let options = RelayOptions {
        is_express: true,
        messages,
        ..RelayOptions::default()
    };
    let (mut express, _) = paced(8, options).await;
    let World {
        mut primary,
        mut proxy,
        handle,
        ..
    } = w;
    let pump = tokio::spawn(async move { while proxy.write_all(&[0; 200_000]).await.is_ok() {} });
    let mut block = vec![0; 100_000];
    let drain =
        tokio::spawn(async move { while primary.read(&mut block).await.is_ok_and(|n| n > 0) {} });
    let mut carry = async |bytes| {
        express.proxy.write_all(&vec![0; bytes]).await.unwrap();
        let mut message = vec![0; bytes];
        express.primary.read_exact(&mut message).await.unwrap();
    };
    let longest = async |ms| {
        let (start, mut longest) = (Instant::now(), 0);
        while start.elapsed() < Duration::from_millis(ms) {
            let pipe = handle.stats().unwrap().pipe.unwrap();
            longest = longest.max(pipe.notsent_bytes.unwrap());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        longest
    };
    tokio::time::sleep(Duration::from_millis(500)).await;
    carry(4 << 10).await;
    let before = longest(300).await;
    carry(2 << 10).await;
    // What is in the socket leaves first.
    let start = Instant::now();
    while longest(50).await > 32 << 10 && start.elapsed() < Duration::from_secs(3) {}
    let after = longest(1_300).await;
    pump.abort();
    drain.abort();
    (before, after)
}

/// The first 4 KiB over an express are its handshake, and what follows is a message: the queue of
/// the other relay is short then, also for longer than what is known of a rate lasts.
#[tokio::test]
async fn a_message_over_an_express_shortens_the_queue_of_another_relay() {
    let mut seen = Vec::new();
    // A socket that nothing leaves for 200 ms has no bound.
    while seen.len() < ATTEMPTS {
        let (before, after) = longest_beside_an_express().await;
        // What the low-water mark allows, and what leaves in 10 ms with two segments.
        if before > 40_000 && after <= 32 << 10 {
            return;
        }
        seen.push((before, after));
    }
    panic!("bytes before and after a message: {seen:?}");
}
