//! CUBIC congestion control (RFC 9438), windows in segments.

use std::time::Duration;

use mpbond_units::Timestamp;

use super::MSS;

/// C: growth of the window, in segments/s³ (RFC 9438, section 5).
const C: f64 = 0.4;
/// β: factor of the window after a loss (RFC 9438, section 4.6).
const BETA: f64 = 0.7;
/// Reno's increase per round trip that makes it as fast as CUBIC with [`BETA`]
/// (section 4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// The congestion window of one sender.
#[derive(Debug)]
pub(super) struct Cubic {
    window: f64,
    initial: f64,
    threshold: f64,
    /// Window before the last reduction, the plateau to return to (W_max).
    plateau: f64,
    epoch: Option<Epoch>,
    /// No loss so far: the path's capacity is unknown.
    unknown: bool,
}

/// Growth since the last reduction.
#[derive(Debug)]
struct Epoch {
    start: Timestamp,
    /// Until the plateau is reached, in seconds (K).
    k: f64,
    /// Window that Reno would have (W_est).
    reno: f64,
}

impl Cubic {
    pub(super) fn new(initial_segments: u64) -> Self {
        let initial = initial_segments.max(1) as f64;
        Self {
            window: initial,
            initial,
            threshold: f64::INFINITY,
            plateau: 0.0,
            epoch: None,
            unknown: true,
        }
    }

    pub(super) fn window_bytes(&self) -> u64 {
        (self.window as u64).max(1) * MSS
    }

    /// The threshold as Linux tells it, in whole segments as the window: a part of a segment more
    /// would look like slow start after each loss.
    pub(super) fn threshold_bytes(&self) -> u64 {
        if self.threshold.is_finite() {
            self.threshold as u64 * MSS
        } else {
            u64::MAX
        }
    }

    pub(super) fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    /// `bytes` newly acknowledged while the window was what limited sending.
    pub(super) fn on_ack(&mut self, now: Timestamp, bytes: u64, srtt: Duration) {
        let mut segments = bytes as f64 / MSS as f64;
        if self.in_slow_start() {
            let grown = (self.window + segments).min(self.threshold);
            segments -= grown - self.window;
            self.window = grown;
            if segments <= 0.0 {
                return;
            }
        }
        let window = self.window;
        let plateau = &mut self.plateau;
        let epoch = self.epoch.get_or_insert_with(|| {
            if *plateau < window {
                *plateau = window;
            }
            Epoch {
                start: now,
                k: ((*plateau - window) / C).cbrt(),
                reno: window,
            }
        });
        let elapsed = now.since(epoch.start).as_secs_f64();
        let cubic = |t: f64| C * (t - epoch.k).powi(3) + *plateau;
        // Section 4.3: once Reno is past the plateau, it grows by one a round trip.
        let alpha = if epoch.reno >= *plateau { 1.0 } else { ALPHA };
        epoch.reno += alpha * segments / window;
        if cubic(elapsed) < epoch.reno {
            self.window = window.max(epoch.reno);
        } else {
            let target = cubic(elapsed + srtt.as_secs_f64()).clamp(window, 1.5 * window);
            self.window = window + (target - window) / window * segments;
        }
        if self.unknown {
            // Linux goes on by 5 % a round trip at least until the first loss.
            self.window = self.window.max(window + segments / 20.0);
        }
    }

    /// HyStart ends slow start at the present window.
    pub(super) fn end_slow_start(&mut self) {
        if self.in_slow_start() {
            self.threshold = self.window;
        }
    }

    pub(super) fn window_segments(&self) -> f64 {
        self.window
    }

    /// A loss, once a round trip at most (section 4.6, with fast convergence, 4.7).
    pub(super) fn on_loss(&mut self) {
        self.unknown = false;
        self.plateau = if self.window < self.plateau {
            self.window * (1.0 + BETA) / 2.0
        } else {
            self.window
        };
        self.threshold = (self.window * BETA).max(2.0);
        self.window = self.threshold;
        self.epoch = None;
    }

    /// A retransmission timeout (section 4.8): slow start from one segment.
    pub(super) fn on_timeout(&mut self) {
        self.on_loss();
        self.start_over();
    }

    /// Slow start from one segment, up to the former threshold.
    pub(super) fn start_over(&mut self) {
        self.window = 1.0;
        self.epoch = None;
    }

    /// The connection sends again after a pause of `idle` (section 4.2: growth
    /// counts no time in which nothing was sent).
    pub(super) fn on_restart(&mut self, idle: Duration) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start += idle;
        }
    }

    /// The pause was longer than the timeout: the window halves for each, down
    /// to the initial one, and slow start leads back (RFC 2861 as Linux has it).
    pub(super) fn decay(&mut self, idle: Duration, rto: Duration) {
        // Linux keeps three quarters of the window as the threshold.
        self.threshold = self.threshold.max(self.window * 0.75);
        let floor = self.initial.min(self.window);
        let mut left = idle.saturating_sub(rto);
        while !left.is_zero() && self.window > floor {
            self.window /= 2.0;
            left = left.saturating_sub(rto);
        }
        self.window = self.window.max(floor);
        self.epoch = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    /// One round trip: a whole window acknowledged at `now`.
    fn round(cubic: &mut Cubic, now: Timestamp) {
        cubic.on_ack(now, cubic.window_bytes(), RTT);
    }

    #[test]
    fn slow_start_doubles() {
        let mut cubic = Cubic::new(10);
        for segments in [10, 20, 40, 80] {
            assert_eq!(cubic.window_bytes(), segments * MSS);
            round(&mut cubic, Timestamp::ZERO);
        }
    }

    #[test]
    fn returns_to_the_plateau_in_k_seconds() {
        let mut cubic = Cubic::new(1_000);
        cubic.on_loss();
        assert_eq!(cubic.window_bytes(), 700 * MSS);
        // K = cbrt(300 / 0.4) = 9.09 s.
        let mut now = Timestamp::from_millis(1_000);
        let mut halfway = 0;
        for i in 0..91 {
            round(&mut cubic, now);
            now += RTT;
            if i == 45 {
                halfway = cubic.window_bytes() / MSS;
            }
        }
        let reached = cubic.window_bytes() / MSS;
        assert!((995..=1_001).contains(&reached), "{reached}");
        // Concave: seven eighths of the way at half the time.
        assert!((955..=970).contains(&halfway), "{halfway}");
    }

    #[test]
    fn short_round_trips_grow_as_reno() {
        // 20 segments, 10 ms: K is 2.5 s, but Reno regains 6 segments in 0.1 s.
        let mut cubic = Cubic::new(20);
        cubic.on_loss();
        let rtt = Duration::from_millis(10);
        let mut now = Timestamp::from_millis(1_000);
        for _ in 0..30 {
            cubic.on_ack(now, cubic.window_bytes(), rtt);
            now += rtt;
        }
        // From 14: 0.53 a round up to 20 takes 11.3 rounds, then 1 a round.
        let segments = cubic.window_bytes() / MSS;
        assert!((36..=39).contains(&segments), "{segments}");
    }

    #[test]
    fn two_losses_in_a_row_give_room() {
        let mut cubic = Cubic::new(100);
        cubic.on_loss();
        cubic.on_loss();
        assert!((cubic.plateau - 70.0 * 0.85).abs() < 1e-9);
        cubic.on_timeout();
        assert_eq!(cubic.window_bytes(), MSS);
        assert!(cubic.in_slow_start());
    }

    #[test]
    fn no_slow_start_is_told_after_a_loss() {
        for window in 2..100 {
            let mut cubic = Cubic::new(window);
            assert!(cubic.window_bytes() < cubic.threshold_bytes());
            cubic.on_loss();
            assert!(!cubic.in_slow_start());
            let (window, threshold) = (cubic.window_bytes(), cubic.threshold_bytes());
            assert_eq!(window, threshold);
        }
    }

    #[test]
    fn idleness_halves_the_window_per_timeout() {
        let rto = Duration::from_millis(200);
        for (idle_ms, segments) in [(200, 100), (300, 50), (500, 25), (5_000, 10)] {
            let mut cubic = Cubic::new(10);
            cubic.window = 100.0;
            cubic.threshold = 50.0;
            cubic.decay(Duration::from_millis(idle_ms), rto);
            assert_eq!(cubic.window_bytes(), segments * MSS, "{idle_ms} ms");
            assert_eq!(cubic.threshold_bytes(), 75 * MSS);
        }
    }
}
