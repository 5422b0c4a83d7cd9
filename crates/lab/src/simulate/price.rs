//! Price of helpers in worlds: from which burst on a helper's radio is woken.

use mpbond_sim::link::Rate;
use mpbond_sim::world::{LeastBurst, Scenario, TwoWay};
use mpbond_units::BitRate;

use crate::error::{Error, Result};
use crate::experiment::{Direction, EnergyPrice, Scheme};
use crate::transfer::energy::Accountant;

/// Sets the sizes of bursts for each helper of a scheme with a price of energy; `of_routes` are the
/// devices behind the routes. The primary knows the rates of the links. Without a direct path there
/// is nothing to compare a helper with.
///
/// # Errors
/// When a link has no constant rate.
pub(super) fn set_least_bursts(
    scheme: &Scheme,
    accountants: &[Accountant],
    of_routes: &[&str],
    scenario: &mut Scenario,
) -> Result<()> {
    let Some(price) = &scheme.energy_price else {
        return Ok(());
    };
    let model = |a: &&Accountant| a.is_called(price.model.get_ref());
    let routes = &scenario.routes;
    let direct = routes
        .iter()
        .find(|r| r.helper.is_none() && r.links.len() == 1);
    let (Some(accountant), Some(direct)) = (accountants.iter().find(model), direct) else {
        return Ok(());
    };
    let own = direct.links[0];
    for (route, device) in scenario.routes.iter_mut().zip(of_routes) {
        if let (Some(_), [pipe, hs]) = (route.helper, &route.links[..]) {
            let of = |direction| {
                let links = [own, *hs, *pipe].map(|link| &scenario.links[link]);
                let store = scenario.relay_bound_bytes;
                least_burst(accountant, price, device, links, store, direction)
            };
            route.least_bursts = Some([of(Direction::Up)?, of(Direction::Down)?]);
        }
    }
    Ok(())
}

/// Sizes of bursts in one direction; links are the own one, the helper's and the pipe.
fn least_burst(
    accountant: &Accountant,
    price: &EnergyPrice,
    helper: &str,
    links: [&TwoWay; 3],
    store_bytes: u64,
    direction: Direction,
) -> Result<LeastBurst> {
    let mut rates = [BitRate::ZERO; 3];
    for (rate, link) in rates.iter_mut().zip(links) {
        *rate = constant_rate(link, direction)?;
    }
    let priced = accountant.priced_helper(helper, rates, store_bytes, direction)?;
    let size = |joules_per_second| {
        let asleep = std::time::Duration::MAX;
        let size = priced.break_even(joules_per_second, asleep);
        size.unwrap_or(LeastBurst::NEVER).min(LeastBurst::NEVER)
    };
    Ok(LeastBurst {
        bytes: size(price.mode.joules_per_second()),
        background_bytes: size(0.0),
        tail: priced.helper.radio.tail.min(LeastBurst::MAX_TAIL),
    })
}

fn constant_rate(link: &TwoWay, direction: Direction) -> Result<BitRate> {
    let one_way = match direction {
        Direction::Down => &link.down,
        Direction::Up => &link.up,
    };
    match one_way.rate {
        Rate::Constant(rate) => Ok(rate),
        _ => Err(Error::Experiment(format!(
            "link \"{}\": energy_price needs constant rates",
            link.name
        ))),
    }
}
