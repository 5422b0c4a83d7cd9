//! Interface and source address of probes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::Socket;

use crate::error::ProbeError;
use crate::options::Options;

/// Binds a socket to the interface and address of the options; without either, it stays unbound.
pub(crate) fn bind(socket: &Socket, options: &Options) -> Result<(), ProbeError> {
    if let Some(interface) = &options.interface {
        socket
            .bind_device(Some(interface.as_bytes()))
            .map_err(|error| ProbeError::Place {
                place: interface.clone(),
                error,
            })?;
    }
    if let Some(source) = options.source {
        socket
            .bind(&SocketAddr::new(source, 0).into())
            .map_err(|error| ProbeError::Place {
                place: source.to_string(),
                error,
            })?;
    }
    Ok(())
}

/// Binds as [`bind`] does, and in any case to a port, so that it is known at once.
pub(crate) fn bind_with_port(socket: &Socket, options: &Options) -> Result<(), ProbeError> {
    bind(socket, options)?;
    if options.source.is_some() {
        return Ok(());
    }
    let any = match options.target {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    socket
        .bind(&SocketAddr::new(any, 0).into())
        .map_err(ProbeError::io("a port"))
}
