//! Heap memory of an idle TLS stream. An idle session with two subflows must fit in 48 KiB,
//! including its session state.
#![allow(missing_docs, unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::task::Poll;
use std::time::Duration;

use mpbond_net::tls::TlsStream;
use mpbond_net::{DeviceId, Identity};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

struct Counting;

static LIVE_BYTES: AtomicI64 = AtomicI64::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(layout.size() as i64, Relaxed);
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size() as i64, Relaxed);
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[tokio::test]
async fn an_idle_stream_is_small() {
    const STREAMS: usize = 32;
    let [ours, theirs] = [(); 2].map(|()| Identity::generate().unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut clients = Vec::with_capacity(STREAMS + 1);
    let mut servers = Vec::with_capacity(STREAMS + 1);
    let mut before = 0;
    // The first pair allocates shared state: tables, the runtime's slabs.
    for n in 0..=STREAMS {
        let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (client, server) = tokio::join!(
            TlsStream::connect(near.unwrap(), &ours, theirs.id(), deadline),
            TlsStream::accept(
                far.unwrap().0,
                &theirs,
                Arc::new(|_: &DeviceId| true),
                deadline
            ),
        );
        let (mut client, mut server) = (client.unwrap(), server.unwrap());
        for (from, to) in [(0, 1), (1, 0)] {
            let mut ends = [&mut client, &mut server];
            ends[from].queue_record(&[7; 16_000]).unwrap();
            poll_fn(|cx| ends[from].poll_flush(cx)).await.unwrap();
            while ends[to].next_record().unwrap().is_none() {
                poll_fn(|cx| ends[to].poll_fill(cx)).await.unwrap();
            }
            // No more data: the poll that finds that frees the buffers.
            poll_fn(|cx| {
                assert!(ends[to].poll_fill(cx).is_pending());
                Poll::Ready(())
            })
            .await;
        }
        clients.push(client);
        servers.push(server);
        if n == 0 {
            before = LIVE_BYTES.load(Relaxed);
        }
    }
    let each = (LIVE_BYTES.load(Relaxed) - before) as usize / (2 * STREAMS);
    let own = size_of::<TlsStream>();
    println!("an idle stream: {each} bytes on the heap, {own} of its own");
    assert!(each + own < 12 * 1024, "{each} + {own} bytes");
}
