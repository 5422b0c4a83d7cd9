//! Events of the kernel about devices (lib/kobject_uevent.c).

use std::future::pending;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recvfrom, setsockopt,
    socket, sockopt,
};
use tokio::net::unix::pipe::Receiver;

/// Group of the kernel's own events. Those of udev are another one's.
const KERNEL: u32 = 1;

/// Maximum length of a message that is read whole, in octets: twice the kernel's
/// `UEVENT_BUFFER_SIZE`, for the path in front of the variables.
const MAX_OCTETS: usize = 4096;

/// Size of the socket's buffer in bytes as it is asked for; the kernel doubles it (socket(7)), to
/// 32 KiB with its own overhead. Events that do not fit are counted as one of any subsystem, so
/// that it need not hold more than a few.
const BUFFER_BYTES: usize = 16 << 10;

/// Maximum number of messages read at once.
const MAX_MESSAGES: usize = 64;

/// A socket that receives the events of a subsystem. It wakes nobody up, except callers of
/// [`next`](Self::next) while they wait, at events of any subsystem.
#[derive(Debug)]
pub(crate) struct Uevents {
    socket: OwnedFd,
    subsystem: &'static [u8],
}

impl Uevents {
    /// # Errors
    /// The kernel refuses the socket.
    pub(crate) fn of(subsystem: &'static [u8]) -> io::Result<Self> {
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Datagram,
            SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
            SockProtocol::NetlinkKObjectUEvent,
        )?;
        setsockopt(&socket, sockopt::RcvBuf, &BUFFER_BYTES)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, KERNEL))?;
        Ok(Self { socket, subsystem })
    }

    /// Discards what has come. Whether an event of the subsystem was among it, or may have been.
    pub(crate) fn take(&self) -> bool {
        let mut has_come = false;
        let mut octets = [0; MAX_OCTETS];
        for _ in 0..MAX_MESSAGES {
            match recvfrom::<NetlinkAddr>(self.socket.as_raw_fd(), &mut octets) {
                Ok((length, sender)) => {
                    // Programs may send, too.
                    let is_kernel = sender.is_some_and(|sender| sender.pid() == 0);
                    let message = octets.get(..length).unwrap_or_default();
                    has_come |= is_kernel && subsystem(message) == Some(self.subsystem);
                }
                // Some were lost.
                Err(Errno::ENOBUFS) => has_come = true,
                Err(Errno::EINTR) => {}
                Err(_) => return has_come,
            }
        }
        true
    }

    /// Waits for an event of the subsystem; without end where the kernel ends them. Not for one
    /// that [`take`](Self::take) has discarded meanwhile. Cancel-safe.
    pub(crate) async fn next(&self) {
        if self.wait().await.is_err() {
            pending().await
        }
    }

    async fn wait(&self) -> io::Result<()> {
        // A pipe is tokio's type for reading from any descriptor. That of a wait is its own, since
        // tokio is woken for each message at a descriptor that it knows.
        let waiting = Receiver::from_owned_fd_unchecked(self.socket.try_clone()?)?;
        loop {
            waiting.readable().await?;
            if self.take() {
                return Ok(());
            }
            // Without it, tokio does not know that nothing is left.
            match waiting.try_read(&mut [0]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Lost, or of this moment.
                _ => return Ok(()),
            }
        }
    }
}

/// The subsystem in a message of the kernel, which is `ACTION@DEVPATH` and variables `KEY=VALUE`,
/// each ended by a zero. None in any other message.
pub fn subsystem(message: &[u8]) -> Option<&[u8]> {
    // What follows the last zero was cut off.
    let end = message.iter().rposition(|octet| *octet == 0)?;
    let mut texts = message.get(..end)?.split(|octet| *octet == 0);
    texts.next()?.contains(&b'@').then_some(())?;
    texts.find_map(|text| text.strip_prefix(b"SUBSYSTEM="))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mpbond_testing::namespaces::{is_called_for, play, sh, uevent};
    use proptest::prelude::*;
    use tokio::time::timeout;

    use super::*;

    const WITHIN: Duration = Duration::from_secs(60);

    /// A message as Linux 6.18 sends it.
    const BATTERY: &[u8] = b"change@/devices/LNXSYSTM:00/PNP0C0A:00/power_supply/BAT0\0\
        ACTION=change\0DEVPATH=/devices/LNXSYSTM:00/PNP0C0A:00/power_supply/BAT0\0\
        SUBSYSTEM=power_supply\0DEVTYPE=power_supply\0POWER_SUPPLY_NAME=BAT0\0\
        POWER_SUPPLY_CAPACITY=81\0SEQNUM=4711\0";

    #[test]
    fn the_subsystem_is_the_first_one_of_whole_variables_behind_a_path() {
        assert_eq!(subsystem(BATTERY), Some(&b"power_supply"[..]));
        let of = |text: &'static str| subsystem(text.as_bytes());
        assert_eq!(
            of("a@/b\0SUBSYSTEM=net\0SUBSYSTEM=usb\0"),
            Some(&b"net"[..])
        );
        assert_eq!(of("a@/b\0SUBSYSTEM=\0"), Some(&b""[..]));
        assert_eq!(of("a@/b\0SUBSYSTEM=power_su"), None, "cut off");
        assert_eq!(of("a@SUBSYSTEM=net\0"), None);
        assert_eq!(of("a@/b\0XSUBSYSTEM=net\0subsystem=net\0"), None);
        // Messages of udev begin so.
        assert_eq!(of("libudev\0SUBSYSTEM=net\0"), None);
        assert_eq!(of(""), None);
    }

    proptest! {
        #[test]
        fn any_octets_have_a_subsystem_that_stands_in_them_or_none(
            octets in proptest::collection::vec(any::<u8>(), 0..600),
            pieces in proptest::collection::vec("[@=A-Z\\x00]{0,12}|SUBSYSTEM=", 0..9),
        ) {
            for message in [octets, pieces.concat().into_bytes()] {
                if let Some(found) = subsystem(&message) {
                    let stands = [b"\0SUBSYSTEM=", found, b"\0"].concat();
                    prop_assert!(message.windows(stands.len()).any(|part| part == stands));
                }
            }
        }
    }

    #[test]
    fn the_kernel_tells_of_a_device_of_its_own_and_of_lost_events() {
        play("-Urnm", "uevents::tests::role");
    }

    #[tokio::test]
    #[ignore = "a role: see mpbond_testing::namespaces"]
    async fn role() {
        if !is_called_for() {
            return;
        }
        let net = Uevents::of(b"net").unwrap();
        let usb = Uevents::of(b"usb").unwrap();
        sh("mount -t sysfs sysfs /sys && echo change > /sys/class/net/lo/uevent");
        timeout(WITHIN, net.next()).await.unwrap();
        assert!(!net.take(), "one event");
        assert!(!usb.take(), "another subsystem");
        for _ in 0..200 {
            uevent("net");
        }
        assert!(usb.take(), "some may have been lost");
        assert!(!usb.take());
    }

    #[test]
    fn another_program_is_not_the_kernel() {
        play("-Urn", "uevents::tests::stranger");
    }

    #[test]
    #[ignore = "a role: see mpbond_testing::namespaces"]
    fn stranger() {
        use nix::sys::socket::{MsgFlags, SockaddrLike as _, getsockname, sendto};
        if !is_called_for() {
            return;
        }
        let battery = Uevents::of(b"power_supply").unwrap();
        let other = Uevents::of(b"power_supply").unwrap();
        let to: NetlinkAddr = getsockname(battery.socket.as_raw_fd()).unwrap();
        assert_eq!(to.len() as usize, size_of::<libc::sockaddr_nl>());
        let sent = sendto(other.socket.as_raw_fd(), BATTERY, &to, MsgFlags::empty());
        assert_eq!(sent, Ok(BATTERY.len()));
        assert!(!battery.take());
        uevent("power_supply");
        assert!(battery.take());
    }
}
