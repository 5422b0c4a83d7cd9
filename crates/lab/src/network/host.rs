//! A host: a network namespace, held by its descriptor alone.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::process::Command;
use std::sync::Arc;

use nix::sched::{CloneFlags, setns, unshare};
use rtnetlink::Handle;

use crate::error::{Doing, Error, Result};
use crate::{isolate, sys};

/// A host of an experiment. Clones are handles on the same host, which vanishes with the last
/// handle and the last process inside.
#[derive(Clone)]
pub struct Host {
    name: Arc<str>,
    netns: Arc<File>,
}

impl Host {
    /// Creates a host with only a loopback device, which is down.
    ///
    /// # Errors
    /// When the caller may not create network namespaces.
    pub fn new(name: &str) -> Result<Self> {
        let open = || -> std::io::Result<File> {
            unshare(CloneFlags::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net")
        };
        let netns = on_a_thread(open)?.doing(format_args!("cannot make host {name}"))?;
        Ok(Self {
            name: name.into(),
            netns: Arc::new(netns),
        })
    }

    /// Name in the experiment.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of the namespace's descriptor, for netlink messages.
    pub(crate) fn raw_netns(&self) -> RawFd {
        self.netns.as_raw_fd()
    }

    /// Runs `work` on a thread inside the host. Sockets and devices opened
    /// there belong to the host, wherever they are used afterwards.
    ///
    /// # Errors
    /// When the host cannot be entered.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        on_a_thread(|| {
            setns(&*self.netns, CloneFlags::CLONE_NEWNET)
                .doing(format_args!("cannot enter host {}", self.name))?;
            Ok(work())
        })?
    }

    /// Moves the calling thread into the host permanently.
    ///
    /// # Errors
    /// When the host cannot be entered.
    pub fn move_in(&self) -> Result<()> {
        setns(&*self.netns, CloneFlags::CLONE_NEWNET)
            .doing(format_args!("cannot enter host {}", self.name))
    }

    /// A command to run inside the host.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        isolate::unmark(&mut command);
        sys::setns::start_in(&mut command, self.netns.clone());
        command
    }

    /// Sets a kernel parameter of the host's network stack, such as `net.ipv4.ip_forward`.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn sysctl(&self, key: &str, value: &str) -> Result<()> {
        let path = format!("/proc/sys/{}", key.replace('.', "/"));
        self.enter(|| std::fs::write(path, value))?
            .doing(format_args!("cannot set {key}={value} on {}", self.name))
    }

    /// Disables IPv6 on its devices, whose neighbour discovery would appear as traffic. Kernels
    /// without IPv6 need nothing.
    pub(crate) fn refuse_ipv6(&self) {
        for key in ["all", "default"] {
            let _ = self.sysctl(&format!("net.ipv6.conf.{key}.disable_ipv6"), "1");
        }
    }

    /// Uses the kernel's routing socket inside the host.
    ///
    /// # Errors
    /// Errors of the kernel, with the failed action `what`.
    pub(crate) fn netlink<T: Send>(
        &self,
        what: &str,
        talk: impl AsyncFnOnce(&Handle) -> Result<T, rtnetlink::Error> + Send,
    ) -> Result<T> {
        let talk = || -> std::io::Result<Result<T, rtnetlink::Error>> {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_io()
                .build()?;
            runtime.block_on(async {
                let (connection, handle, _) = rtnetlink::new_connection()?;
                let connection = tokio::spawn(connection);
                let answer = talk(&handle).await;
                connection.abort();
                Ok(answer)
            })
        };
        self.enter(talk)?
            .doing(format_args!("{}: no routing socket", self.name))?
            .map_err(|e| Error::run(format!("{}: cannot {what}: {e}", self.name)))
    }
}

/// Runs `work` on a new thread, since a namespace is a property of a thread.
fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T> {
    std::thread::scope(|scope| scope.spawn(work).join())
        .map_err(|_| Error::run("a thread that set up a host panicked"))
}
