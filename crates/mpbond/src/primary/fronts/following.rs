//! Treatment of a front's new clients by the kernel, according to the families that are carried.

use std::time::Duration;

use mpbond_intercept::dns::Family;
use mpbond_intercept::{Front, Intercepted, Reception};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};

use super::carried_families::CarriedFamilies;

/// Pause after a treatment could not be set: another program may listen at the address.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Treatment of the new clients of a front whose destinations are all of one family.
#[derive(Debug)]
pub(super) struct Following {
    family: Family,
    /// Absent where it is unknown.
    in_force: Option<Reception>,
    /// Time of the next attempt, after one has failed.
    retry_at: Option<Instant>,
}

impl Following {
    pub(super) fn new(family: Family) -> Self {
        Self {
            family,
            in_force: None,
            retry_at: None,
        }
    }

    /// The next connection. Until then the treatment follows the families, unless another process
    /// does that with the same listener.
    ///
    /// Cancel-safe.
    pub(super) async fn accept(
        &mut self,
        front: &mut Front,
        families: &CarriedFamilies,
    ) -> Intercepted {
        let shut = front.shut_by_others();
        loop {
            if !families.are_followed() {
                return front.accept().await;
            }
            let wanted = families.carried.reception(self.family);
            self.set(front, wanted);
            let retry_at = self.retry_at;
            let changed = async {
                match retry_at {
                    Some(at) => sleep_until(at).await,
                    None => families.carried.changed(self.family, wanted).await,
                }
            };
            tokio::select! {
                connection = front.accept() => return connection,
                () = changed => {}
                () = shut.notified() => self.in_force = None,
            }
        }
    }

    fn set(&mut self, front: &mut Front, wanted: Option<Reception>) {
        let now = Instant::now();
        if wanted == self.in_force || self.retry_at.is_some_and(|at| at > now) {
            return;
        }
        let Some(reception) = wanted else { return };
        let address = front.local_addr();
        debug!(%address, ?reception, "new clients");
        let failed_before = self.retry_at.take().is_some();
        match front.set_reception(reception) {
            Ok(()) => self.in_force = wanted,
            Err(error) => {
                if !failed_before {
                    warn!(
                        %error, %address,
                        "cannot change the treatment of new connections; trying every second"
                    );
                }
                self.in_force = None;
                self.retry_at = Some(now + RETRY_AFTER);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::os::fd::AsFd as _;

    use mpbond_intercept::{FrontConfig, Protocol};
    use socket2::{Domain, SockRef, Socket, Type};
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::sleep;

    use super::*;

    const REQUEST: [u8; 13] = [5, 1, 0, 5, 1, 0, 1, 192, 0, 2, 1, 0, 80];

    fn front() -> Front {
        let config = FrontConfig::new(Protocol::Socks5);
        Front::bind((Ipv4Addr::LOCALHOST, 0).into(), config).unwrap()
    }

    /// The front of another process with the same listener.
    fn copy(front: &Front) -> Front {
        let copy = front.socket().unwrap().try_clone_to_owned().unwrap();
        let copy = TcpListener::from_std(copy.into()).unwrap();
        Front::with_listener(copy, FrontConfig::new(Protocol::Socks5)).unwrap()
    }

    const PAUSE: Duration = Duration::from_millis(20);

    /// Connects as soon as that is possible, and sends a request.
    async fn client(to: SocketAddr) -> TcpStream {
        loop {
            if let Ok(mut stream) = TcpStream::connect(to).await {
                stream.write_all(&REQUEST).await.unwrap();
                return stream;
            }
            sleep(PAUSE).await;
        }
    }

    /// Waits for a client to be accepted that begins after `meanwhile`.
    async fn is_served(
        following: &mut Following,
        front: &mut Front,
        families: &CarriedFamilies,
        meanwhile: impl FnOnce(),
    ) {
        let to = front.local_addr();
        let client = async {
            // The front waits by now.
            meanwhile();
            sleep(PAUSE).await;
            client(to).await
        };
        let both = async { tokio::join!(following.accept(front, families), client) };
        let both = tokio::time::timeout(Duration::from_secs(60), both).await;
        assert!(both.is_ok(), "the client is not served");
    }

    #[tokio::test]
    async fn a_listener_that_another_process_shuts_down_is_opened_again_until_the_hand_over() {
        let mut front = front();
        let mut other = copy(&front);
        let families = CarriedFamilies::default();
        families.carried.set(true, true);
        let mut following = Following::new(Family::V4);
        let mut refuse = || other.set_reception(Reception::Refuse).unwrap();
        is_served(&mut following, &mut front, &families, &mut refuse).await;

        families.stop_following();
        let to = front.local_addr();
        let refused = async {
            refuse();
            for _ in 0..10 {
                sleep(PAUSE).await;
                assert!(TcpStream::connect(to).await.is_err());
            }
        };
        tokio::select! {
            _ = following.accept(&mut front, &families) => panic!("a client is served"),
            () = refused => {}
        }
    }

    #[tokio::test]
    async fn a_process_that_has_handed_over_refuses_no_clients_of_the_new_one() {
        let mut front = front();
        let families = CarriedFamilies::default();
        families.carried.set(true, true);
        let mut following = Following::new(Family::V4);
        let change = || {
            families.stop_following();
            families.carried.set(false, true);
        };
        is_served(&mut following, &mut front, &families, change).await;
    }

    #[tokio::test]
    async fn a_treatment_that_could_not_be_set_is_set_after_a_second() {
        let mut front = front();
        front.set_reception(Reception::Refuse).unwrap();
        // Another program listens at the address.
        let socket = front
            .socket()
            .unwrap()
            .as_fd()
            .try_clone_to_owned()
            .unwrap();
        SockRef::from(&socket).set_reuse_address(true).unwrap();
        let other = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        other.set_reuse_address(true).unwrap();
        other.bind(&front.local_addr().into()).unwrap();
        other.listen(1).unwrap();
        assert!(front.set_reception(Reception::Accept).is_err());

        let families = CarriedFamilies::default();
        families.carried.set(true, true);
        let mut following = Following::new(Family::V4);
        let ends = || drop(other);
        is_served(&mut following, &mut front, &families, ends).await;
    }
}
