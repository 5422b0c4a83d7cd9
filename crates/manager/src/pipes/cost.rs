//! Order of the pipes of one helper by cost.

use mpbond_price::PipeRadios;
use mpbond_units::BitRate;

use super::known::Known;
use crate::ids::LinkId;

/// Ratio of the power of the used pipe's radios to that of another one's from which on the other
/// one is cheaper: models of radios are right to a quarter (docs/energy.md).
const MARGIN: f64 = 1.25;

/// Puts the cheapest one first, while these rates go down and up: by the energy of their radios,
/// then those whose radios are not named, by their places.
pub(super) fn sort(pipes: &mut [Known], used: LinkId, [down, up]: [BitRate; 2]) {
    // Sums of one end and of both are not comparable.
    let mut named = pipes.iter().filter_map(|pipe| pipe.radios);
    let has_far = named.all(|radios| radios.far.is_some());
    for pipe in pipes.iter_mut() {
        let radios = pipe.radios.map(|radios| PipeRadios {
            far: radios.far.filter(|_| has_far),
            ..radios
        });
        pipe.watts = radios.map(|radios| radios.watts(down, up));
    }
    let cost = |pipe: &Known| {
        let watts = pipe.watts.unwrap_or(f64::INFINITY);
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
