//! Order of the pipes of one helper by cost.

use mpbond_price::PipeRadios;
use mpbond_units::BitRate;

use super::known::Known;
use crate::ids::LinkId;

/// Ratio of the power of the used pipe's radios to that of another one's from which on the other
/// one is cheaper: models of radios are right to a quarter (docs/energy.md).
const MARGIN: f64 = 1.25;

/// Whether pipes are compared by the energy of their radios: where those of all are named. They are
/// compared by their places otherwise.
pub(super) fn is_energy(pipes: &[Known]) -> bool {
    pipes.iter().all(|pipe| pipe.radios.is_some())
}

/// Puts the cheapest one first, while these rates go down and up.
pub(super) fn sort(pipes: &mut [Known], used: LinkId, [down, up]: [BitRate; 2]) {
    let is_energy = is_energy(pipes);
    // Sums of one end and of both are not comparable.
    let far = |pipe: &Known| pipe.radios.and_then(|radios| radios.far);
    let has_far = pipes.iter().all(|pipe| far(pipe).is_some());
    for pipe in pipes.iter_mut() {
        let radios = pipe.radios.filter(|_| is_energy).map(|radios| PipeRadios {
            far: radios.far.filter(|_| has_far),
            ..radios
        });
        pipe.watts = radios.map(|radios| radios.watts(down, up));
    }
    let cost = |pipe: &Known| {
        let watts = pipe.watts.unwrap_or(0.0);
        match pipe.link == used {
            true => watts / MARGIN,
            false => watts,
        }
    };
    pipes.sort_by(|a, b| {
        let by_energy = cost(a).total_cmp(&cost(b));
        by_energy.then_with(|| a.order().cmp(&b.order()))
    });
}
