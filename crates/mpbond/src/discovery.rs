//! Helpers on the local network, by multicast DNS (RFC 6762): announced under random names, and
//! recognized by the primaries that they trust ([`mpbond_net::discovery`]).

use std::cell::RefCell;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use mdns_sd::{ServiceDaemon, ServiceEvent, ServiceInfo};
use mpbond_net::DeviceId;
use mpbond_net::discovery::{announce, recognizes};

use crate::random;

/// Service type; it reveals only that a device lends a link.
const SERVICE: &str = "_mpbond._tcp.local.";
/// Maximum lifetime of a nonce and its tags, against tracking by listeners.
pub(crate) const NONCE_LIFE: Duration = Duration::from_secs(3600);
/// Time for two queries and their answers; a helper that is present answers the first.
const FOUND_WITHIN: Duration = Duration::from_secs(3);

/// A helper's announcement; it ends when this is dropped.
pub(crate) struct Announcement {
    mdns: ServiceDaemon,
    /// Instance name, random at every start, so that it identifies no device.
    name: String,
    helper: DeviceId,
    listen: SocketAddr,
    /// Primaries announced to, and the start of the current nonce.
    last: RefCell<Option<(Vec<DeviceId>, Instant)>>,
}

impl Announcement {
    /// Starts on all networks except that of the interface `except`, whose neighbours are not
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

    /// Announces to these primaries, in place of those before. For the same primaries it does
    /// nothing until [`NONCE_LIFE`] has passed, and then takes a fresh nonce.
    pub(crate) fn to(&self, primaries: &[DeviceId]) -> anyhow::Result<()> {
        let mut last = self.last.borrow_mut();
        if let Some((known, since)) = &*last
            && known == primaries
            && since.elapsed() < NONCE_LIFE
        {
            return Ok(());
        }
        let nonce = random::bytes()?;
        // Drawn first: random octets may not be available.
        let mut spare = random::bytes::<256>()?.as_chunks::<8>().0.to_vec();
        let properties = announce(&self.helper, primaries, &nonce, || {
            spare.pop().unwrap_or_default()
        });
        let host = format!("{}.local.", self.name);
        // For a wildcard address, the addresses of the asking network are announced.
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

/// Finds the address of a helper on the local network.
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
            let usable = addresses
                .filter(|ip| !matches!(ip, std::net::IpAddr::V6(ip) if ip.is_unicast_link_local()));
            let best = usable.min_by_key(|ip| (ip.is_loopback(), ip.is_ipv6(), *ip));
            if let Some(ip) = best {
                return Some(SocketAddr::new(ip, service.get_port()));
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
