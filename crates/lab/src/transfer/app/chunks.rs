//! Chunks with pauses between them.

use std::time::{Duration, Instant};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::ran::{Noticed, Ran, Setting, fetch_watched, mean_and_p95, used};
use crate::error::Result;
use crate::experiment::Chunks;
use crate::figures::quantity::Quantity;
use crate::record::MessageTimes;
use crate::transfer::client::Progress;
use crate::transfer::watch::Watch;

/// Fetches the chunks over one connection.
pub(super) fn fetch(chunks: &Chunks, setting: &Setting, progress: Progress) -> Result<Ran> {
    let (mut connection, start) = setting.dial.connect(setting.limit)?;
    let deadline = start + setting.limit;
    let mut gaps = gaps(chunks, setting.seed, setting.user);
    let mut watch = Watch::since(start);
    let mut intact = true;
    let mut seconds = Vec::new();
    for number in 0..chunks.count {
        if number > 0 {
            std::thread::sleep(gaps.next().unwrap_or_default());
        }
        let asked = Instant::now();
        let object = (setting.content, chunks.bytes.0);
        intact &= fetch_watched(&mut connection, object, deadline, &mut watch, progress)?;
        seconds.push(asked.elapsed().as_secs_f64());
    }
    let mut noticed = Noticed::new();
    if let Some((mean, p95)) = mean_and_p95(seconds) {
        noticed.extend([(Quantity::ChunkS, mean), (Quantity::ChunkP95S, p95)]);
    }
    Ok(Ran {
        watch,
        intact,
        noticed,
        used: used(&connection, start),
        messages: MessageTimes::default(),
    })
}

/// The pauses between a user's chunks, an endless sequence, by the seed of a repetition. Users are
/// numbered from 0.
pub(crate) fn gaps(chunks: &Chunks, seed: u64, user: u32) -> impl Iterator<Item = Duration> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ (u64::from(user) << 32));
    let (least, more) = (chunks.least_gap, chunks.most_gap - chunks.least_gap);
    std::iter::repeat_with(move || {
        let share = (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        least + more.mul_f64(share)
    })
}
