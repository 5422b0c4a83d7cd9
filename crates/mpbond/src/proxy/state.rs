//! State shared by all parts of a proxy.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use anyhow::Context as _;
use mpbond_net::DeviceId;
use mpbond_net::dest::DestinationPolicy;
use mpbond_net::identity::Identity;
use mpbond_net::tls::{Label, Trust};
use mpbond_session::{DeviceLabel, SessionConfig};
use tracing::debug;

use super::registry::Registry;
use crate::config::{EnrolmentBook, ProxyConfig, TrustFile};
use crate::driver::{Clock, Links, TransferLog};
use crate::internal::Internal;
use crate::memory::{self, Memory};
use crate::sandbox::{self, Access, Place};
use crate::status::SandboxStatus;
use crate::{families, random};

/// State shared by all parts of a proxy.
pub(super) struct Proxy {
    pub(super) identity: Identity,
    pub(super) trust: Arc<dyn Trust>,
    pub(super) internal: Internal,
    /// The configuration of the start. What a reload applies may have changed since.
    pub(super) config: ProxyConfig,
    /// Allowed destinations.
    policy: RwLock<Arc<DestinationPolicy>>,
    pub(super) session: SessionConfig,
    pub(super) registry: Registry,
    /// First octets of the ids of its sessions.
    pub(super) label: Label,
    pub(super) memory: Memory,
    /// Links that sessions have in common.
    pub(super) links: Links,
    /// Maximum memory without a configured one.
    default_memory_bytes: u64,
    pub(super) log: TransferLog,
    pub(super) clock: Clock,
    /// Dropped privileges.
    pub(super) sandboxed: OnceLock<SandboxStatus>,
}

impl Proxy {
    /// The state of a proxy that starts, with random octets for the ids of its sessions.
    ///
    /// # Errors
    /// The system has no random octets.
    pub(super) fn new(
        config: ProxyConfig,
        identity: Identity,
        trust: Arc<dyn Trust>,
    ) -> anyhow::Result<Self> {
        let session = SessionConfig {
            scheduler: config.scheduler,
            buffer_delay: config.buffer_delay,
            reinjection: config.reinjection.into(),
            feedback: config.feedback,
            resume_for: config.resume_for,
            families: families::routed(None),
            // A proxy of one service looks nothing up.
            answers_look_ups: config.serve.is_none(),
            obeys_paths: true,
            ..SessionConfig::default()
        };
        debug!(families = ?session.families, "address families with a route");
        let default_memory_bytes = memory::half_of_machine();
        Ok(Self {
            identity,
            trust,
            policy: RwLock::new(Arc::new(policy_of(&config))),
            internal: Internal::read(),
            session,
            registry: Registry::default(),
            label: Label(random::bytes().context("random octets")?),
            memory: Memory::new(config.memory_bytes.unwrap_or(default_memory_bytes)),
            default_memory_bytes,
            links: Links::default(),
            log: TransferLog::default(),
            clock: Clock::start(),
            sandboxed: OnceLock::new(),
            config,
        })
    }

    /// Label of a device at this proxy.
    pub(super) fn label_of(&self, device: &DeviceId) -> DeviceLabel {
        DeviceLabel::new(self.identity.id().as_bytes(), device.as_bytes())
    }

    /// Allowed destinations, now.
    pub(super) fn policy(&self) -> Arc<DestinationPolicy> {
        Arc::clone(&self.policy.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts the destinations and the memory of another configuration in force.
    pub(super) fn configure(&self, config: &ProxyConfig) {
        let policy = Arc::new(policy_of(config));
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = policy;
        let most = config.memory_bytes.unwrap_or(self.default_memory_bytes);
        self.memory.set_most(most);
    }

    /// Privileges that it keeps. Accepted connections have their congestion control from the
    /// listener.
    pub(super) fn sandbox(&self) -> sandbox::Plan {
        let mut plan = sandbox::Plan::default();
        plan.status_socket(&self.config.status_socket);
        plan.places.extend(sandbox::for_names());
        // Enrolment writes both.
        let trusted = TrustFile::beside(&self.config.identity);
        let book = EnrolmentBook::beside(&self.config.identity);
        for file in [trusted.path(), book.path()] {
            plan.places.extend(Place::around(file, Access::Change));
        }
        plan
    }
}

fn policy_of(config: &ProxyConfig) -> DestinationPolicy {
    DestinationPolicy {
        allow: config.destinations.allow.clone(),
        deny: config.destinations.deny.clone(),
    }
}
