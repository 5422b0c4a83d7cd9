//! Helpers on the local network by multicast DNS (RFC 6762): announced under names that are
//! random, and recognized by primaries that they trust ([`mpbond_net::discovery`]).

use std::cell::RefCell;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use mdns_sd::{ServiceDaemon, ServiceEvent, ServiceInfo};
use mpbond_net::DeviceId;
use mpbond_net::discovery::{announce, recognizes};

use crate::random;

/// That somebody lends a link is all that this says.
const SERVICE: &str = "_mpbond._tcp.local.";
/// Tags do not stay the same for longer, for those who listen all day.
pub(crate) const NONCE_LIFE: Duration = Duration::from_secs(3600);
/// Two questions and their answers; a helper that is there answers the first.
const FOUND_WITHIN: Duration = Duration::from_secs(3);

/// A helper's announcement; it ends when this is dropped.
pub(crate) struct Announcement {
    mdns: ServiceDaemon,
    /// Random at every start, so that it is no name.
    name: String,
    helper: DeviceId,
    listen: SocketAddr,
    /// To whom, and since when under the same nonce.
    last: RefCell<Option<(Vec<DeviceId>, Instant)>>,
}

impl Announcement {
    /// Begins, on all networks but that of the interface `except`, whose neighbours are no
    /// primaries.
    pub(crate) fn start(
        helper: DeviceId,
        listen: SocketAddr,
        except: Option<&str>,
    ) -> anyhow::Result<Self> {
        let mdns = ServiceDaemon::new().context("multicast DNS")?;
        if let Some(interface) = except {
            mdns.disable_interface(interface)?;
        }
        let random: [u8; 8] = random::bytes()?;
        let name = format!("{:016x}", u64::from_be_bytes(random));
        Ok(Self {
            mdns,
            name,
            helper,
            listen,
            last: RefCell::default(),
        })
    }

    /// Announces to these primaries; what was announced before is replaced. To the same ones it
    /// does so under a fresh nonce after [`NONCE_LIFE`], and before that not at all.
    pub(crate) fn to(&self, primaries: &[DeviceId]) -> anyhow::Result<()> {
        let mut last = self.last.borrow_mut();
        if let Some((known, since)) = &*last
            && known == primaries
            && since.elapsed() < NONCE_LIFE
        {
            return Ok(());
        }
        let nonce = random::bytes()?;
        // Made up beforehand: there may be no more randomness at any time.
        let mut spare = random::bytes::<256>()?.as_chunks::<8>().0.to_vec();
        let properties = announce(&self.helper, primaries, &nonce, || {
            spare.pop().unwrap_or_default()
        });
        let host = format!("{}.local.", self.name);
        // Where it listens on all addresses, those of the network that asks are told.
        let everywhere = self.listen.ip().is_unspecified();
        let ip = if everywhere {
            String::new()
        } else {
            self.listen.ip().to_string()
        };
        let port = self.listen.port();
        let service = ServiceInfo::new(
            SERVICE,
            &self.name,
            &host,
            ip.as_str(),
            port,
            &properties[..],
        )?;
        self.mdns.register(if everywhere {
            service.enable_addr_auto()
        } else {
            service
        })?;
        *last = Some((primaries.to_vec(), Instant::now()));
        Ok(())
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        let _ = self.mdns.unregister(&format!("{}.{SERVICE}", self.name));
        let _ = self.mdns.shutdown();
    }
}

/// Where on the local network this helper is.
///
/// # Errors
/// When none announces itself to this primary in time.
pub async fn find(primary: &DeviceId, helper: &DeviceId) -> anyhow::Result<SocketAddr> {
    let mdns = ServiceDaemon::new().context("multicast DNS")?;
    let events = mdns.browse(SERVICE)?;
    let found = async {
        while let Ok(event) = events.recv_async().await {
            let ServiceEvent::ServiceResolved(service) = event else {
                continue;
            };
            if !recognizes(primary, helper, |key| service.get_property_val_str(key)) {
                continue;
            }
            let addresses = service.get_addresses().iter().map(|a| a.to_ip_addr());
            // Link-local IPv6 addresses mean nothing without their interface.
            let mut usable: Vec<_> = addresses
                .filter(|ip| !matches!(ip, std::net::IpAddr::V6(ip) if ip.is_unicast_link_local()))
                .collect();
            usable.sort_by_key(|ip| (ip.is_loopback(), ip.is_ipv6(), *ip));
            if let Some(ip) = usable.first() {
                return Some(SocketAddr::new(*ip, service.get_port()));
            }
        }
        None
    };
    let found = tokio::time::timeout(FOUND_WITHIN, found).await;
    let _ = mdns.shutdown();
    found
        .ok()
        .flatten()
        .context("not found on the local network: is it there, with `announce = true`?")
}
