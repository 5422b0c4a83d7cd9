//! Pipes that may use Ethernet frames: why one uses TCP, as the daemon that runs has found.

use mpbond::status::Status;

use super::finding::Findings;

const ADVICE: &str = "\"When frames are used\" in docs/pipes.md has the conditions; set \
                      `ethernet_frames = false` where TCP is what you want";

pub(super) fn of_primary(findings: &mut Findings, status: Option<&Status>) {
    for link in status.into_iter().flat_map(|status| &status.links) {
        if let Some(ethernet) = &link.ethernet {
            report(
                findings,
                &format!("helper {}", link.name),
                ethernet.reason.as_deref(),
            );
        }
    }
}

pub(super) fn of_helper(findings: &mut Findings, status: Option<&Status>) {
    if let Some(ethernet) = status.and_then(|status| status.ethernet.as_ref()) {
        report(findings, "ethernet_frames", ethernet.reason.as_deref());
    }
}

fn report(findings: &mut Findings, check: &str, reason: Option<&str>) {
    match reason {
        Some(reason) => {
            let what = format!("TCP is used in place of Ethernet frames: {reason}");
            findings.warn(check, what, ADVICE);
        }
        None => findings.ok(check, "Ethernet frames are used, or at the next relay"),
    }
}
