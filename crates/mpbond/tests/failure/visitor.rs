//! A primary that speaks with a helper by itself, message by message.

use mpbond_net::control::{ControlChannel, Message, Ticket, VERSION, relay_preamble};
use mpbond_net::tls::TlsStream;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

use crate::daemons::Bond;
use crate::texts::{identity, soon};

pub fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// A control connection of the primary, whose greeting was sent.
pub async fn control(bond: &Bond) -> ControlChannel {
    control_over(bond, TcpStream::connect(bond.helper).await.unwrap()).await
}

/// The same over this connection to the helper.
pub async fn control_over(bond: &Bond, tcp: TcpStream) -> ControlChannel {
    let (primary, helper) = (identity(bond, "primary"), identity(bond, "helper"));
    let tls = TlsStream::connect(tcp, &primary, helper.id(), soon()).await;
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
