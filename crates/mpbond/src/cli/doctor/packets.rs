//! Packets of full size, which some links drop without a message: 4 kB over TCP in each direction
//! of every path, way through a helper, and pipe.

use std::time::Duration;

use mpbond::checks::packets::{Passed, Passes, path, pipe, through};
use mpbond::config::{HelperRef, PathConfig};
use mpbond::speed::Links;
use mpbond_manager::LinkId;
use mpbond_units::human;

use super::finding::Findings;
use super::link_advice::{correct_mtu, correct_mtu_of_helper};
use super::reach::Reached;

const WHAT: &str = "4 kB each way";
const ONLY_SMALL: &str = "only small packets pass";
const NOT_REACHED: &str = "the proxy is not reached, or does not trust this device";

/// Checks an own path.
pub(super) async fn of_path(
    findings: &mut Findings,
    links: &Links<'_>,
    (link, config): (LinkId, &PathConfig),
    reached: Reached,
) {
    let check = format!("path {}", config.name);
    match reached {
        Reached::Proxy => {}
        Reached::Small => return findings.skip(&check, WHAT, ONLY_SMALL),
        _ => return findings.skip(&check, WHAT, NOT_REACHED),
    }
    let passes = path(links, link, config).await;
    let advice = correct_mtu(config.interface.as_deref());
    tell(findings, &check, "the proxy", &passes, &advice);
}

/// Checks a pipe, and the way through its helper.
pub(super) async fn of_helper(
    findings: &mut Findings,
    links: &Links<'_>,
    (link, config): (LinkId, &HelperRef),
    reached: Reached,
) {
    let (own, way) = (
        format!("pipe {}", config.name),
        format!("helper {}", config.name),
    );
    if reached == Reached::OverSocket {
        return findings.skip(&own, WHAT, "a pipe at a socket has no packets");
    }
    if reached == Reached::Nothing {
        let why = "the helper is not reached, or does not trust this device";
        return findings.skip(&own, WHAT, why);
    }
    let passes = pipe(links, config).await;
    let advice = correct_mtu(config.interface.as_deref());
    tell(findings, &own, "the helper", &passes, &advice);
    match reached {
        Reached::Proxy => {}
        Reached::Small => return findings.skip(&way, WHAT, ONLY_SMALL),
        _ => return findings.skip(&way, WHAT, NOT_REACHED),
    }
    if [&passes.up, &passes.down]
        .iter()
        .any(|p| matches!(p, Passed::Not))
    {
        return findings.skip(&way, WHAT, "the pipe drops them");
    }
    let passes = through(links, link, config).await;
    let advice = correct_mtu_of_helper();
    tell(
        findings,
        &way,
        "the proxy behind the helper",
        &passes,
        advice,
    );
}

fn tell(findings: &mut Findings, check: &str, end: &str, passes: &Passes, advice: &str) {
    let Passes { up, down } = passes;
    let way = match (up, down) {
        (Passed::In(up), Passed::In(down)) => {
            let ms = |took: &Duration| human::millis(took.as_secs_f64() * 1e3);
            let (up, down) = (ms(up), ms(down));
            return findings.ok(check, format!("4 kB pass, up in {up}, down in {down}"));
        }
        (Passed::NotChecked(e), _) | (_, Passed::NotChecked(e)) => {
            findings.skip(check, WHAT, format_args!("{e:#}"));
            match (up, down) {
                (Passed::Not, _) => "to",
                (_, Passed::Not) => "from",
                _ => return,
            }
        }
        (Passed::Not, Passed::Not) => "to and from",
        (Passed::Not, _) => "to",
        (_, Passed::Not) => "from",
    };
    findings.warn(
        check,
        format!(
            "packets of full size are dropped on the way {way} {end}, small ones pass: connections \
             hang until they use smaller segments"
        ),
        advice,
    );
}
