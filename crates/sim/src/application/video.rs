//! A DASH player without display: selects the next segment and its bit rate, and computes stalls.
//! Pure: time is an argument.
//!
//! There are two rules for the bit rate. *Throughput* is that of ExoPlayer, the player of MPBond
//! section 6.5: the highest rate within 0.7 of the measured throughput (`meter`), not raised with
//! less than 10 s buffered and not lowered with more than 25 s. *Buffer* is BBA-0 (Huang et al.,
//! SIGCOMM 2014): the lowest rate up to a reservoir, then linear in the length buffered up to the
//! highest rate at the end of a cushion.

use std::time::Duration;

use mpbond_units::{BitRate, Timestamp};

use serde::Deserialize;

use super::meter::Meter;

/// Maximum bit rate over the measured throughput.
const BANDWIDTH_FRACTION: f64 = 0.7;
/// Minimum length buffered for a higher rate.
const RISE_FROM: Duration = Duration::from_secs(10);
/// Maximum length buffered for a lower rate.
const FALL_BELOW: Duration = Duration::from_secs(25);
/// BBA-0: reservoir and end of the cushion, as shares of the buffer.
const RESERVOIR: f64 = 0.3;
const CUSHION_END: f64 = 0.9;

/// Rule by which a player selects a bit rate (adaptive bit rate).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Abr {
    /// By measured throughput.
    #[default]
    Throughput,
    /// By the length buffered.
    Buffer,
}

/// A video, and the parameters of its playback.
#[derive(Debug, Clone, PartialEq)]
pub struct VideoPlan {
    /// Length of a segment.
    pub segment: Duration,
    /// Length of the part that is played.
    pub length: Duration,
    /// Bit rates, rising; at least one.
    pub ladder: Vec<BitRate>,
    /// Rule for the bit rate.
    pub abr: Abr,
    /// Maximum length fetched ahead.
    pub buffer: Duration,
    /// Length buffered at which playback starts.
    pub start_with: Duration,
    /// Length buffered at which playback resumes after a stall.
    pub resume_with: Duration,
}

impl VideoPlan {
    fn segments(&self) -> u32 {
        let whole = self.length.as_secs_f64() / self.segment.as_secs_f64();
        whole.ceil().max(1.0) as u32
    }

    /// Bytes of a segment at a rate of the ladder.
    fn bytes(&self, quality: usize) -> u64 {
        let rate = self.ladder.get(quality).copied().unwrap_or(BitRate::ZERO);
        rate.bytes_in(self.segment).max(1)
    }
}

/// Next action of the player.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Fetch a segment.
    Fetch {
        /// Number of the segment, from 0.
        segment: u32,
        /// Index of its bit rate in the ladder.
        quality: usize,
        /// Its size.
        bytes: u64,
    },
    /// Wait until that instant: the buffer is full.
    Wait(Timestamp),
    /// All segments are fetched.
    Done,
}

/// Playback as seen by a viewer.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Watched {
    /// Mean bit rate of the segments.
    pub mean_bitrate_mbps: f64,
    /// Number of changes of the bit rate.
    pub switches: u32,
    /// Number of stalls after the start.
    pub stalls: u32,
    /// Total time stalled.
    pub stalled: Duration,
    /// Time from the first request to the first picture.
    pub startup: Duration,
    /// Length of the segments.
    pub fetched: Duration,
}

/// State of a player.
#[derive(Debug, Clone)]
pub struct VideoPlayer {
    plan: VideoPlan,
    begun: Timestamp,
    /// Instant up to which `buffered` and `watched` are computed.
    now: Timestamp,
    buffered: Duration,
    playing: bool,
    started: bool,
    fetched: u32,
    last_quality: Option<usize>,
    rate_sum_bps: f64,
    meter: Meter,
    watched: Watched,
}

impl VideoPlayer {
    /// A player that is started at `now`.
    pub fn new(plan: VideoPlan, now: Timestamp) -> Self {
        Self {
            plan,
            begun: now,
            now,
            buffered: Duration::ZERO,
            playing: false,
            started: false,
            fetched: 0,
            last_quality: None,
            rate_sum_bps: 0.0,
            meter: Meter::default(),
            watched: Watched::default(),
        }
    }

    /// The next action.
    pub fn next(&mut self, now: Timestamp) -> Next {
        self.play_until(now);
        if self.fetched >= self.plan.segments() {
            return Next::Done;
        }
        let after = self.buffered + self.plan.segment;
        if after > self.plan.buffer && self.playing {
            return Next::Wait(self.now + (after - self.plan.buffer));
        }
        let quality = self.choose();
        Next::Fetch {
            segment: self.fetched,
            quality,
            bytes: self.plan.bytes(quality),
        }
    }

    /// Adds the segment that was requested at `asked` and arrived at `now`.
    pub fn fetched(&mut self, asked: Timestamp, now: Timestamp, quality: usize) {
        self.play_until(now);
        let bytes = self.plan.bytes(quality);
        self.meter.transferred(bytes, now.since(asked));
        self.fetched += 1;
        self.buffered += self.plan.segment;
        let rate = self.plan.ladder.get(quality).copied();
        self.rate_sum_bps += rate.unwrap_or(BitRate::ZERO).bps() as f64;
        if self.last_quality.is_some_and(|last| last != quality) {
            self.watched.switches += 1;
        }
        self.last_quality = Some(quality);
        let needed = if self.started {
            self.plan.resume_with
        } else {
            self.plan.start_with
        };
        let all = self.fetched >= self.plan.segments();
        if !self.playing && (self.buffered >= needed || all) {
            if !self.started {
                self.watched.startup = now.since(self.begun);
            }
            self.started = true;
            self.playing = true;
        }
    }

    /// Playback up to the end, which is when the last buffered segment is over.
    pub fn watched(&self) -> Watched {
        let mut watched = self.watched;
        watched.fetched = self.plan.segment * self.fetched;
        if self.fetched > 0 {
            watched.mean_bitrate_mbps = self.rate_sum_bps / f64::from(self.fetched) / 1e6;
        }
        watched
    }

    fn play_until(&mut self, now: Timestamp) {
        let mut passed = now.since(self.now);
        self.now = self.now.max(now);
        if self.playing {
            let played = passed.min(self.buffered);
            self.buffered -= played;
            passed -= played;
            let more_to_come = self.fetched < self.plan.segments();
            if self.buffered.is_zero() && more_to_come {
                self.playing = false;
                self.watched.stalls += 1;
            } else {
                return;
            }
        }
        if self.started {
            self.watched.stalled += passed;
        }
    }

    fn choose(&self) -> usize {
        match self.plan.abr {
            Abr::Throughput => self.by_throughput(),
            Abr::Buffer => self.by_buffer(),
        }
    }

    fn highest_within(&self, bps: f64) -> usize {
        let fits = |rate: &BitRate| rate.bps() as f64 <= bps;
        self.plan.ladder.iter().rposition(fits).unwrap_or(0)
    }

    fn by_throughput(&self) -> usize {
        let ideal = self.highest_within(self.meter.bps() * BANDWIDTH_FRACTION);
        match self.last_quality {
            Some(last) if ideal > last && self.buffered < RISE_FROM => last,
            Some(last) if ideal < last && self.buffered > FALL_BELOW => last,
            _ => ideal,
        }
    }

    /// BBA-0 (Huang et al., SIGCOMM 2014), Algorithm 1.
    fn by_buffer(&self) -> usize {
        let ladder = &self.plan.ladder;
        let top = ladder.len().saturating_sub(1);
        let bps = |place: usize| ladder.get(place).map_or(0.0, |rate| rate.bps() as f64);
        let share = self.buffered.as_secs_f64() / self.plan.buffer.as_secs_f64();
        let along = (share - RESERVOIR) / (CUSHION_END - RESERVOIR);
        if along <= 0.0 {
            return 0;
        }
        if along >= 1.0 {
            return top;
        }
        let last = self.last_quality.unwrap_or(0);
        let (higher, lower) = ((last + 1).min(top), last.saturating_sub(1));
        let mapped = bps(0) + along * (bps(top) - bps(0));
        if last < top && mapped >= bps(higher) {
            self.highest_within(mapped)
        } else if last > 0 && mapped <= bps(lower) {
            let above = |rate: &BitRate| rate.bps() as f64 > mapped;
            ladder.iter().position(above).unwrap_or(top)
        } else {
            last
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(abr: Abr) -> VideoPlan {
        VideoPlan {
            segment: Duration::from_secs(2),
            length: Duration::from_secs(120),
            ladder: [0.25, 0.5, 1.0, 2.0, 4.0, 8.0]
                .map(BitRate::from_mbps)
                .to_vec(),
            abr,
            buffer: Duration::from_secs(30),
            start_with: Duration::from_millis(2500),
            resume_with: Duration::from_secs(5),
        }
    }

    /// Plays over a link whose rate depends on time; returns what a viewer saw and the time of
    /// fetching.
    fn watch(plan: VideoPlan, rate_mbps: impl Fn(f64) -> f64) -> (Watched, f64) {
        let mut now = Timestamp::from_millis(1000);
        let mut player = VideoPlayer::new(plan, now);
        loop {
            match player.next(now) {
                Next::Fetch { bytes, quality, .. } => {
                    let asked = now;
                    let mut left = bytes as f64 * 8.0;
                    while left > 0.0 {
                        left -= rate_mbps(now.as_secs_f64() - 1.0) * 1e6 * 0.01;
                        now += Duration::from_millis(10);
                    }
                    player.fetched(asked, now, quality);
                }
                Next::Wait(until) => {
                    assert!(until > now);
                    now = until;
                }
                Next::Done => return (player.watched(), now.as_secs_f64() - 1.0),
            }
        }
    }

    #[test]
    fn steady_links_give_what_they_carry() {
        // 0.7 of 6 Mbit/s is 4.2; the first segments have 0.5 Mbit/s.
        let (seen, took) = watch(plan(Abr::Throughput), |_| 6.0);
        assert_eq!((seen.stalls, seen.stalled), (0, Duration::ZERO));
        assert!((3.0..=4.0).contains(&seen.mean_bitrate_mbps), "{seen:?}");
        assert!(took < 120.0, "fetched ahead of playing");
        // The buffer rule has no such fraction: it alternates between the highest rate and lower
        // ones.
        let (seen, _) = watch(plan(Abr::Buffer), |_| 6.0);
        assert_eq!(seen.stalls, 0);
        assert!((3.0..=7.0).contains(&seen.mean_bitrate_mbps), "{seen:?}");
    }

    #[test]
    fn small_segments_do_not_keep_the_rate_down() {
        // Two seconds of the lowest rate are 11 kB, less than a round trip brings.
        let many_rates = VideoPlan {
            ladder: [0.045, 0.09, 0.13, 0.26, 0.52, 1.0, 2.1, 4.2]
                .map(BitRate::from_mbps)
                .to_vec(),
            ..plan(Abr::Throughput)
        };
        let mut player = VideoPlayer::new(many_rates.clone(), Timestamp::ZERO);
        let first = player.next(Timestamp::ZERO);
        // 0.7 of the initial estimate of 1 Mbit/s.
        assert!(matches!(first, Next::Fetch { quality: 4, .. }), "{first:?}");
        let (seen, _) = watch(many_rates.clone(), |_| 8.0);
        assert!(seen.mean_bitrate_mbps > 3.0, "{seen:?}");
        // A slow start, during which only the lowest rate is possible.
        let (seen, _) = watch(many_rates, |t| if t < 20.0 { 0.05 } else { 8.0 });
        assert!(seen.mean_bitrate_mbps > 2.0, "{seen:?}");
    }

    #[test]
    fn below_the_lowest_rate_it_stalls_by_the_difference() {
        let one_rate = VideoPlan {
            ladder: vec![BitRate::from_mbps(4.0)],
            ..plan(Abr::Throughput)
        };
        // 120 s of 4 Mbit/s over 2 Mbit/s take 240 s to fetch; the last segment ends the transfer.
        let (seen, took) = watch(one_rate, |_| 2.0);
        assert!((took - 240.0).abs() < 0.1, "{took}");
        let waited = seen.startup + seen.stalled;
        let beyond = took - 120.0;
        // The rest of the buffer has not been played at the end: at most 5 s and one segment.
        assert!((waited.as_secs_f64() - beyond).abs() < 8.0, "{seen:?}");
        assert!(seen.stalls >= 10 && seen.switches == 0, "{seen:?}");
    }

    #[test]
    fn a_fall_of_the_rate_is_followed() {
        for abr in [Abr::Throughput, Abr::Buffer] {
            let (seen, _) = watch(plan(abr), |t| if t < 40.0 { 8.0 } else { 1.0 });
            assert!(
                seen.switches >= 2 && seen.mean_bitrate_mbps > 1.0,
                "{abr:?} {seen:?}"
            );
            assert!(seen.stalled < Duration::from_secs(20), "{abr:?} {seen:?}");
        }
    }

    #[test]
    fn the_buffer_is_never_overfull() {
        let mut now = Timestamp::ZERO;
        let mut player = VideoPlayer::new(plan(Abr::Throughput), now);
        loop {
            match player.next(now) {
                Next::Fetch { quality, .. } => {
                    now += Duration::from_millis(1);
                    player.fetched(now.before(Duration::from_millis(1)), now, quality);
                    assert!(player.buffered <= Duration::from_secs(30));
                }
                Next::Wait(until) => now = until,
                Next::Done => break,
            }
        }
        assert_eq!(player.watched().fetched, Duration::from_secs(120));
    }
}
