//! Random worlds, one after another: how many a minute, and the seeds of those that fail.
//!
//! `worlds [COUNT] [FIRST_SEED]`

use std::process::ExitCode;
use std::time::Instant;

use mpbond_sim::world::{Scenario, World};

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1).map(|a| a.parse::<u64>());
    let (Ok(count), Ok(first)) = (
        args.next().unwrap_or(Ok(1_000)),
        args.next().unwrap_or(Ok(1)),
    ) else {
        eprintln!("usage: worlds [COUNT] [FIRST_SEED]");
        return ExitCode::FAILURE;
    };
    // How long it takes is what this program is to tell.
    #[allow(clippy::disallowed_methods)]
    let start = Instant::now();
    let (mut failed, mut packets, mut seconds) = (0_u64, 0, 0.0);
    for seed in first..first.saturating_add(count) {
        match World::new(Scenario::random(seed)).run() {
            Ok(outcome) => {
                packets += outcome.packets;
                seconds += outcome.ended.as_secs_f64();
            }
            Err(failure) => {
                failed += 1;
                println!("seed {seed}: {failure}");
            }
        }
    }
    let took = start.elapsed().as_secs_f64();
    println!(
        "{count} worlds, {failed} failed, {:.0} a minute; {packets} packets, {seconds:.0} virtual \
         seconds in {took:.1} s",
        count as f64 * 60.0 / took
    );
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
