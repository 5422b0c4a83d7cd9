//! Tethering: a helper that forwards packets.
//!
//! It translates the addresses of packets from the pipe and sends them over its own path. The
//! primary's routing table for the pipe's address (`plan`) leads there, so that sockets bound to
//! that address are tethered.

use std::io::Write;
use std::net::Ipv4Addr;
use std::process::Stdio;

use crate::error::{Doing, Error, Result};
use crate::experiment::{Experiment, Role};
use crate::network::host::Host;
use crate::network::wiring::Network;

/// Name of the nft table on the helper.
const TABLE: &str = "mpbond_lab_tether";

/// A helper that forwards packets; ended on drop.
pub(crate) struct Tether {
    host: Host,
    /// Device of the pipe on the primary.
    pub pipe: String,
    /// Address of the primary on the pipe.
    pub address: Ipv4Addr,
}

impl Tether {
    /// Makes `helper` forward packets from its pipe.
    ///
    /// # Errors
    /// When the kernel or `nft` refuses.
    pub fn set_up(e: &Experiment, network: &Network, helper: &str) -> Result<Self> {
        let missing = |what: &str| Error::run(format!("helper {helper} has no {what}"));
        let primary = e.host(Role::Primary).name.get_ref();
        let pipe = e.pipe_of(helper).ok_or_else(|| missing("pipe"))?;
        let pipe = pipe.name.get_ref();
        let way_out = e.uplink_of(helper).ok_or_else(|| missing("HS-Path"))?;
        let way_out = way_out.name.get_ref();
        let address = network.address(primary, pipe);
        let tether = Self {
            host: network.host(helper)?.clone(),
            pipe: pipe.clone(),
            address: address.ok_or_else(|| missing("pipe"))?,
        };
        tether.host.sysctl("net.ipv4.ip_forward", "1")?;
        // Older versions of nft need closing braces on separate lines.
        let rules = format!(
            "table ip {TABLE} {{\n\
             chain after {{\n\
             type nat hook postrouting priority srcnat;\n\
             oifname \"{way_out}\" masquerade\n\
             }}\n\
             }}\n"
        );
        told(&tether.host, "nft", &["-f", "-"], &rules)?;
        Ok(tether)
    }
}

impl Drop for Tether {
    fn drop(&mut self) {
        // The next setup reports what fails here.
        let _ = told(&self.host, "nft", &["delete", "table", "ip", TABLE], "");
        let _ = self.host.sysctl("net.ipv4.ip_forward", "0");
    }
}

/// Runs a program in `host` with `input`; its error message becomes the error.
pub(crate) fn told(host: &Host, program: &str, arguments: &[&str], input: &str) -> Result<()> {
    let mut child = host
        .command(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .doing(format_args!("cannot start {program}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends early reports its own error.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child
        .wait_with_output()
        .doing(format_args!("cannot wait for {program}"))?;
    if output.status.success() {
        return Ok(());
    }
    let error_text = String::from_utf8_lossy(&output.stderr);
    let error_text = error_text.lines().next().unwrap_or("no error message");
    Err(Error::run(format!(
        "{}: {program} {} failed: {error_text}",
        host.name(),
        arguments.join(" ")
    )))
}
