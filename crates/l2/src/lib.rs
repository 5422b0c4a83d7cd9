//! The L2 pipe of mpbond: a byte stream in both directions between two hosts of one link, in
//! Ethernet frames instead of TCP, as a pure state machine.
//!
//! A pipe carries TLS records between a primary and a helper. Where both are on one link, TCP and
//! IP do little for it: the link repeats lost frames itself, keeps their order, and is not shared
//! with the Internet. "Trimming the Smartphone Network Stack", section 5, leaves them out. A
//! [`Channel`] then adds only that part of a transport which a link does not have: offsets, credit,
//! and the repetition of what is lost all the same.
//!
//! - **[`frame`]**: the wire format, 36 octets before the payload, with a tag that only the holders
//!   of the channel's key can make. What has no valid tag is dropped.
//! - **Sending**: octets are kept until they are acknowledged. A frame is sent again when one that
//!   was sent three later has arrived, or after a time-out of 45 ms or more. Credit 0 stops the
//!   sender; it then asks whether the peer is still there, after 200 ms and more and more rarely.
//! - **Receiving**: octets are kept within the credit until they are read. An acknowledgement is
//!   due each 64 KiB or 25 ms, and at once at a gap.
//! - **End**: each direction ends by itself (FIN), or the channel as a whole (RESET). A peer that
//!   is silent for 300 ms while an answer is due, or does not receive data, counts as gone: the
//!   driver is to continue over TCP. After 30 s without a sign of the peer, an end asks.
//!
//! # Rate
//!
//! There is no congestion control: a window of frames may leave at once. Three limits hold the rate
//! down. The credit bounds what is under way to what the peer's socket can take. The sender's own
//! socket refuses frames while too many wait for the interface, and the driver waits for room; so
//! frames wait here, unless the host has a queue that drops them (fq_codel). And a link whose
//! middle (an access point, a switch) drops frames shows as loss in [`Counts`]: above 1 %, the pipe
//! is to go back to TCP, which shares.
//!
//! # A channel in memory
//!
//! ```
//! use mpbond_l2::{Channel, Config, Key, Read, Side};
//! use mpbond_units::Timestamp;
//!
//! let now = Timestamp::from_millis(1);
//! let config = |side| Config {
//!     channel: 7,
//!     key: Key::from_bytes([9; 16]),
//!     side,
//!     mtu: 1500,
//!     window_bytes: 64 << 10,
//! };
//! let mut primary = Channel::new(now, config(Side::Primary));
//! let mut helper = Channel::new(now, config(Side::Helper));
//! primary.write(b"GET /").unwrap();
//! primary.finish();
//! // The question for credit, the answer, the octets and their end, the acknowledgement.
//! let mut frame = [0; 1500];
//! for _ in 0..2 {
//!     while let Some(length) = primary.poll_frame(now, &mut frame) {
//!         helper.handle_frame(now, &frame[..length]).unwrap();
//!     }
//!     while let Some(length) = helper.poll_frame(now, &mut frame) {
//!         primary.handle_frame(now, &frame[..length]).unwrap();
//!     }
//! }
//! let mut octets = [0; 100];
//! assert_eq!(helper.read(&mut octets), Ok(Read::Octets(5)));
//! assert_eq!(&octets[..5], b"GET /");
//! assert_eq!(helper.read(&mut octets), Ok(Read::End));
//! assert!(primary.is_acknowledged());
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods)] // pure: no clock

mod channel;
pub mod frame;
mod ping;
mod receiver;
mod ring;
mod round_trip;
mod sender;
mod tag;

pub use channel::{
    Channel, Config, Error, MAX_WINDOW_BYTES, MIN_MTU, MIN_WINDOW_BYTES, Read, SILENCE,
};
pub use frame::{ETHER_TYPE, Refused};
pub use receiver::{ACK_BYTES, ACK_DELAY};
pub use sender::Counts;
pub use tag::{Key, Side};
