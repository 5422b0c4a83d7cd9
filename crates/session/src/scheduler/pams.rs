//! PAMS, the pipe-aware multipath scheduler (MPBond, Algorithm 1).

use mpbond_units::Timestamp;

use super::decision::{Backlog, Decision, Scheduler, SubflowView, idle, wait};

/// The pipe-aware multipath scheduler: Algorithm 1 of the MPBond paper (section 4.3.3).
///
/// While much is left to send it keeps every subflow busy, least PAD first. Once the busy
/// subflows could carry all that is left before the best idle one would deliver its frame, it
/// defers: a busy subflow takes the frame a little later and delivers it sooner.
#[derive(Default, Debug)]
pub struct Pams {}

impl Scheduler for Pams {
    fn minds_delay(&self) -> bool {
        true
    }

    fn decide(&mut self, now: Timestamp, subflows: &[SubflowView], backlog: Backlog) -> Decision {
        // Line 6: target <- GetIdleSubflowWithMinPAD(); of frames, the last bytes count.
        let Some(target) = idle(subflows).min_by_key(|s| s.delivered()) else {
            return wait(now);
        };
        let delivered = target.delivered();
        // Lines 7 to 10: what the busy subflows deliver before `target` would.
        let diff: f64 = subflows
            .iter()
            .filter(|s| !s.idle && s.pad < delivered)
            .map(|s| (delivered - s.pad).as_secs_f64() * s.throughput.bytes_per_sec())
            .sum();
        // Lines 11 to 14.
        if diff > backlog.unscheduled_bytes as f64 {
            wait(now)
        } else {
            Decision::Send(target.id)
        }
    }
}
