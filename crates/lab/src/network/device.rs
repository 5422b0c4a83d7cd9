//! Network devices of hosts whose other side is this program.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use rtnetlink::{LinkUnspec, LinkVeth};

use crate::error::{Doing, Result};
use crate::network::host::Host;
use crate::sys;

/// MTU of every device, as usual for WWAN and WiFi.
pub(crate) const MTU: u32 = 1500;
/// Length of device queues: long enough that a delayed player loses nothing. The link model decides
/// how much may wait.
const QUEUE_PACKETS: u32 = 10_000;
const ETHERNET_BYTES: usize = 14;
/// Hardware addresses of all devices on hosts and of their other sides: locally administered, and
/// alone on their wires.
const HOST_SIDE: [u8; 6] = [2, 0, 0, 0, 0, 1];
const OUR_SIDE: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// A device that carries IP packets between a host's network stack and this program.
pub struct Device {
    file: File,
    kind: Kind,
    name: String,
    /// Socket on the host, for requests about the device.
    on_host: UdpSocket,
}

enum Kind {
    /// A TUN device.
    Tun,
    /// One end of a veth pair; frames of the other end arrive at a packet socket.
    Packet {
        /// Name of the other end.
        ours: String,
        /// Socket in the namespace of the other end.
        control: UdpSocket,
    },
}

/// Kind of devices that this machine supports.
pub(crate) enum Means {
    /// TUN devices: `/dev/net/tun` exists and the user may open it.
    Tun,
    /// veth pairs instead, which cost more work for each packet.
    Packet {
        /// Host with their other ends.
        other_side: Host,
        /// Number of devices so far.
        made: u32,
    },
}

impl Means {
    /// Selects TUN devices where possible.
    pub fn choose() -> Result<Self> {
        let tun = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun");
        if tun.is_ok() {
            return Ok(Self::Tun);
        }
        let other_side = Host::new("the links")?;
        other_side.refuse_ipv6();
        Ok(Self::Packet {
            other_side,
            made: 0,
        })
    }

    /// Creates a device called `name` on `host`, up and without addresses.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn make(&mut self, host: &Host, name: &str) -> Result<Device> {
        match self {
            Self::Tun => tun(host, name),
            Self::Packet { other_side, made } => {
                *made += 1;
                packet(host, other_side, *made, name)
            }
        }
    }
}

fn tun(host: &Host, name: &str) -> Result<Device> {
    let (file, on_host) = host
        .enter(|| Ok::<_, io::Error>((sys::tun::open(name)?, any_socket()?)))?
        .doing(format_args!("cannot make device {name}"))?;
    host.netlink(&format!("set up {name}"), async |nl| {
        let settings = LinkUnspec::new_with_name(name)
            .mtu(MTU)
            .txqueuelen(QUEUE_PACKETS)
            .up()
            .build();
        nl.link().set(settings).execute().await
    })?;
    Ok(Device {
        file,
        kind: Kind::Tun,
        name: name.to_owned(),
        on_host,
    })
}

/// Creates a veth pair; `number` distinguishes the names of other ends.
fn packet(host: &Host, other_side: &Host, number: u32, name: &str) -> Result<Device> {
    let ours = format!("d{number}");
    let ours = ours.as_str();
    host.netlink(&format!("make device {name}"), async |nl| {
        let pair = LinkVeth::new(name, ours).build();
        nl.link().add(pair).execute().await?;
        let moved = LinkUnspec::new_with_name(ours)
            .setns_by_fd(other_side.raw_netns())
            .build();
        nl.link().set(moved).execute().await?;
        let settings = LinkUnspec::new_with_name(name)
            .address(HOST_SIDE.to_vec())
            .mtu(MTU)
            .arp(false)
            .up()
            .build();
        nl.link().set(settings).execute().await
    })?;
    let on_host = host
        .enter(|| {
            sys::packet::no_offloads(name)?;
            any_socket()
        })?
        .doing(format_args!("cannot switch off the offloads of {name}"))?;
    other_side.netlink(&format!("set up {ours}"), async |nl| {
        let settings = LinkUnspec::new_with_name(ours)
            .address(OUR_SIDE.to_vec())
            .mtu(MTU)
            .arp(false)
            .up()
            .build();
        nl.link().set(settings).execute().await
    })?;
    let (file, control) = other_side
        .enter(|| {
            let index = nix::net::if_::if_nametoindex(ours)?;
            Ok::<_, io::Error>((sys::packet::open(index)?, any_socket()?))
        })?
        .doing(format_args!("cannot open a packet socket for {name}"))?;
    Ok(Device {
        file,
        kind: Kind::Packet {
            ours: ours.to_owned(),
            control,
        },
        name: name.to_owned(),
        on_host,
    })
}

/// A socket for requests about devices of the calling thread's host.
fn any_socket() -> io::Result<UdpSocket> {
    UdpSocket::bind(("0.0.0.0", 0))
}

impl Device {
    /// Reads the next IP packet from the host.
    ///
    /// # Errors
    /// `WouldBlock` when there is none.
    pub(crate) fn read(&mut self, packet: &mut [u8]) -> io::Result<usize> {
        match self.kind {
            Kind::Tun => self.file.read(packet),
            Kind::Packet { .. } => {
                let mut header = [0; ETHERNET_BYTES];
                let mut parts = [IoSliceMut::new(&mut header), IoSliceMut::new(packet)];
                let length = self.file.read_vectored(&mut parts)?;
                Ok(length.saturating_sub(ETHERNET_BYTES))
            }
        }
    }

    /// Writes an IP packet to the host.
    ///
    /// # Errors
    /// When the device is down, or its queue is full.
    pub(crate) fn write(&mut self, packet: &[u8]) -> io::Result<()> {
        match self.kind {
            Kind::Tun => self.file.write(packet).map(drop),
            Kind::Packet { .. } => {
                let is_v6 = packet.first().is_some_and(|b| b >> 4 == 6);
                let kind = if is_v6 { [0x86, 0xdd] } else { [0x08, 0x00] };
                let parts = [
                    IoSlice::new(&HOST_SIDE),
                    IoSlice::new(&OUR_SIDE),
                    IoSlice::new(&kind),
                    IoSlice::new(packet),
                ];
                self.file.write_vectored(&parts).map(drop)
            }
        }
    }

    /// Sets the carrier that the host sees. Without one, routes over the device are unusable, and
    /// packets sent over it are lost.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub(crate) fn set_carrier(&self, carrier: bool) -> io::Result<()> {
        match &self.kind {
            Kind::Tun => sys::tun::set_carrier(&self.file, carrier),
            Kind::Packet { ours, control } => sys::packet::set_up(control, ours, carrier),
        }?;
        // Makes the host act at once. Without an answer it acts a little later.
        let _ = sys::packet::see_carrier(&self.on_host, &self.name);
        Ok(())
    }

    /// Number of packets from the host that were lost before [`Device::read`], since the last call;
    /// a TUN device counts them itself.
    pub(crate) fn lost(&self) -> u64 {
        match self.kind {
            Kind::Tun => 0,
            Kind::Packet { .. } => sys::packet::lost(&self.file).unwrap_or(0),
        }
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
