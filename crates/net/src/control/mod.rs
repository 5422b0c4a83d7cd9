//! Control protocol between a primary and a helper.
//!
//! One TLS connection per pair of devices carries [`Message`]s. A relay is a further TCP connection
//! to the same port: it begins with a [`Ticket`] that the helper gave out on the control
//! connection, and is opaque bytes from then on. The first octets distinguish the two kinds of
//! connection, see [`Opening`].

mod channel;
mod channel_key;
mod codec;
mod message;
mod round_trips;
mod ticket;

pub use channel::{ChannelError, ControlChannel};
pub use channel_key::ChannelKey;
pub use codec::{DecodeError, Decoder, EncodeError, MAX_MESSAGE_BYTES, encode};
pub use message::{
    Direction, HelperState, LinkKind, LinkState, Message, RefusalCode, RelayReport, RequestId,
    VERSION,
};
pub use round_trips::RoundTrips;
pub use ticket::{
    LABELLED_BYTES, Opening, OpeningError, RELAY_PREAMBLE_BYTES, TICKET_LIFETIME, Ticket,
    TicketBook, label_of_opening, read_opening, read_ticket, relay_preamble,
};

#[cfg(test)]
mod tests;
