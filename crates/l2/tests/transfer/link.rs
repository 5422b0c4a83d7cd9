//! A link in virtual time with faults, and its random numbers.

use std::collections::BTreeMap;
use std::time::Duration;

use mpbond_units::Timestamp;

/// Shares of frames with a fault.
#[derive(Debug, Clone, Copy)]
pub struct Faults {
    pub lost: f64,
    pub repeated: f64,
    /// Overtaken by others.
    pub late: f64,
    /// One bit differs.
    pub changed: f64,
}

/// SplitMix64 (Steele et al. 2014).
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    pub fn chance(&mut self, share: f64) -> bool {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64 <= share && share > 0.0
    }
}

/// One direction.
#[derive(Debug)]
pub struct Link {
    pub faults: Faults,
    pub delay: Duration,
    /// Instant from which the link is free: it carries 100 Mbit/s.
    free_at: Timestamp,
    /// Longer frames are lost.
    pub longest: usize,
    pub is_cut: bool,
    pub frames: u64,
    under_way: BTreeMap<(Timestamp, u64), Vec<u8>>,
    number: u64,
}

impl Link {
    pub fn new(faults: Faults, delay: Duration) -> Self {
        Self {
            faults,
            delay,
            free_at: Timestamp::ZERO,
            longest: usize::MAX,
            is_cut: false,
            frames: 0,
            under_way: BTreeMap::new(),
            number: 0,
        }
    }

    pub fn send(&mut self, now: Timestamp, random: &mut Random, frame: &[u8]) {
        self.frames += 1;
        self.free_at = self.free_at.max(now) + Duration::from_nanos(80) * frame.len() as u32;
        if self.is_cut || frame.len() > self.longest || random.chance(self.faults.lost) {
            return;
        }
        let copies = 1 + u32::from(random.chance(self.faults.repeated));
        for _ in 0..copies {
            let mut frame = frame.to_vec();
            if random.chance(self.faults.changed) {
                // Of the header: a changed payload is TLS's to find.
                let at = random.below(36) as usize;
                frame[at] ^= 1 << random.below(8);
            }
            let late = match random.chance(self.faults.late) {
                true => Duration::from_micros(random.below(3_000)),
                false => Duration::ZERO,
            };
            self.add(self.free_at + self.delay + late, frame);
        }
    }

    pub fn add(&mut self, at: Timestamp, frame: Vec<u8>) {
        self.number += 1;
        self.under_way.insert((at, self.number), frame);
    }

    pub fn next_at(&self) -> Option<Timestamp> {
        self.under_way.first_key_value().map(|((at, _), _)| *at)
    }

    pub fn take(&mut self, now: Timestamp) -> Option<Vec<u8>> {
        let first = self.under_way.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}
