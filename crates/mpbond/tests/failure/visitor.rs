//! A primary that speaks with a helper by itself, message by message.

use mpbond_net::Identity;
use mpbond_net::control::{ControlChannel, Message, Ticket, VERSION, relay_preamble};
use mpbond_net::tls::TlsStream;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use crate::daemons::{Bond, WITHIN};

pub fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// A control connection of the primary, whose greeting was sent.
pub async fn control(bond: &Bond) -> ControlChannel {
    let identity = |role: &str| Identity::load_or_create(bond.file(&format!("{role}.pem")));
    let (primary, helper) = (identity("primary").unwrap(), identity("helper").unwrap());
    let tcp = TcpStream::connect(bond.helper).await.unwrap();
    let deadline = Instant::now() + WITHIN;
    let tls = TlsStream::connect(tcp, &primary, helper.id(), deadline).await;
    let mut control = ControlChannel::new(tls.unwrap());
    let (version, name) = (VERSION, "primary".to_owned());
    let hello = Message::Hello { version, name };
    control.send(&hello).await.unwrap();
    control
}

/// The ticket that answers this request, or the refusal.
pub async fn ticket(control: &mut ControlChannel, request: &Message) -> Result<Ticket, Message> {
    control.send(request).await.unwrap();
    loop {
        match control.receive().await.unwrap().unwrap() {
            Message::Relay { ticket, .. } => return Ok(ticket),
            Message::Hello { .. } | Message::HelperState(_) => {}
            other => return Err(other),
        }
    }
}

/// A connection that was opened with a ticket.
pub async fn open(bond: &Bond, ticket: &Ticket) -> TcpStream {
    let mut tcp = TcpStream::connect(bond.helper).await.unwrap();
    tcp.write_all(&relay_preamble(ticket)).await.unwrap();
    tcp
}
