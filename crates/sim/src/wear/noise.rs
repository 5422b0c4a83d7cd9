//! Noise of the samples of a signal.

use mpbond_manager::SIGNAL_NOISE;
use rand_chacha::ChaCha8Rng;

use crate::link::draw;

/// Error of a sample of Bluetooth's signal in dB, with the variance of the recording of ADR 0023
/// (Box and Muller).
pub(crate) fn signal_noise(rng: &mut ChaCha8Rng) -> f64 {
    let (u, v): (f64, f64) = (1.0 - draw(rng), draw(rng));
    SIGNAL_NOISE.sqrt() * (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}
