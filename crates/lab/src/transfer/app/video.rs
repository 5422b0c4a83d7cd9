//! A video over one kept connection.

use mpbond_sim::application::video::{Next, VideoPlayer, Watched};
use mpbond_units::Timestamp;

use super::ran::{Noticed, Ran, Setting, fetch_watched, used};
use crate::error::Result;
use crate::experiment::Video;
use crate::figures::quantity::Quantity;
use crate::record::MessageTimes;
use crate::transfer::client::Progress;
use crate::transfer::watch::Watch;

/// Plays `video` until its last segment has arrived.
pub(super) fn watch(video: &Video, setting: &Setting, progress: Progress) -> Result<Ran> {
    let (mut connection, start) = setting.dial.connect(setting.limit)?;
    let deadline = start + setting.limit;
    let clock = || Timestamp::ZERO + start.elapsed();
    let mut player = VideoPlayer::new(video.plan(), Timestamp::ZERO);
    let mut watch = Watch::since(start);
    let mut intact = true;
    loop {
        match player.next(clock()) {
            Next::Fetch { quality, bytes, .. } => {
                let asked = clock();
                let object = (setting.content, bytes);
                intact &= fetch_watched(&mut connection, object, deadline, &mut watch, progress)?;
                player.fetched(asked, clock(), quality);
            }
            Next::Wait(until) => std::thread::sleep(until.since(clock())),
            Next::Done => break,
        }
    }
    Ok(Ran {
        watch,
        intact,
        noticed: quantities(&player.watched()),
        used: used(&connection, start),
        messages: MessageTimes::default(),
    })
}

/// Quantities of a video that was played in this way.
pub(crate) fn quantities(seen: &Watched) -> Noticed {
    let stalled = seen.stalled.as_secs_f64();
    Noticed::from([
        (Quantity::BitrateMbps, seen.mean_bitrate_mbps),
        (Quantity::Switches, f64::from(seen.switches)),
        (Quantity::Stalls, f64::from(seen.stalls)),
        (Quantity::StalledS, stalled),
        (Quantity::StallRatio, stalled / seen.fetched.as_secs_f64()),
        (Quantity::StartupS, seen.startup.as_secs_f64()),
    ])
}
