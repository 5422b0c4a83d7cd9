//! The path manager with which a world begins.

use mpbond_manager::{Config, Link, LinkId, Manager};
use mpbond_units::Timestamp;

use super::scenario::Scenario;

/// A manager of all routes, whose session is open.
pub(super) fn first_manager(scenario: &Scenario) -> Manager {
    let start = Timestamp::ZERO;
    let links = scenario.routes.iter().map(|route| Link {
        helper: route.helper,
        backup: route.backup,
        place: route.place,
        radios: route.radios,
        pause: route.pause,
        ..Link::path(&route.name)
    });
    let config = Config {
        without_proxy: scenario.without_proxy,
        express_at: scenario.express_at,
        ..Config::new(links.collect())
    };
    let mut manager = Manager::new(config, start);
    for (route, r) in scenario.routes.iter().enumerate() {
        manager.handle_link(start, LinkId(route), r.joins_at.is_zero());
    }
    manager.handle_session_opened(start);
    manager
}
