//! Each condition of a rule, by the link that carries the bytes of the connections that it selects,
//! and of those that it does not, by the kernel's counters.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use mpbond_testing::Need;
use mpbond_testing::names::{resolv_conf, serve};
use mpbond_testing::namespaces::is_called_for;
use socket2::Socket;

use crate::api::ask;
use crate::battery::{CLASS, class};
use crate::daemons::{Bond, download_over, origin, origin_at};
use crate::names;
use crate::policy_paths::{Counters, LITTLE, play_with_counters, put, start_with};
use crate::policy_rules::{Group, connect, socket};

/// Bytes of a download: more than what else passes.
const SIZE: u32 = 1_000_000;

/// CS1 in IP_TOS.
const CS1: u32 = 8 << 2;

#[test]
fn connections_that_a_condition_selects_go_over_the_links_of_its_rule_and_others_do_not() {
    play_with_counters("policy_conditions::conditions");
}

/// Daemons, and an origin to which connections go.
struct Place {
    bond: Bond,
    counters: Counters,
    to: SocketAddr,
}

impl Place {
    /// Puts a rule in force whose connections use the helper only; all others use the own link.
    fn rule(&self, condition: &str) {
        put(
            &self.bond,
            &format!(
                "[policy]\nzone = \"UTC\"\ndefault = {{ paths = [\"own\"] }}\n[[rule]]\n\
                 name = \"it\"\n{condition}\nset = {{ paths = [\"helper\"] }}\n"
            ),
        );
    }

    /// Checks that the bytes of a connection go over the helper's link, or the own one, only.
    #[track_caller]
    fn is_selected(&self, expected: bool, what: &str, open: TcpStream) {
        let carried = self.counters.carried(|| {
            assert_eq!(download_over(open, SIZE).end().unwrap(), SIZE as usize);
        });
        let (used, other) = match expected {
            true => (carried[1], carried[0]),
            false => (carried[0], carried[1]),
        };
        let is_so = used > u64::from(SIZE) && other < LITTLE;
        assert!(is_so, "{what}: own and helper {carried:?}");
    }

    /// The same of a socket's connection.
    #[track_caller]
    fn selects(&self, expected: bool, what: &str, socket: Socket) {
        let open = connect(&self.bond, socket, self.to).unwrap();
        self.is_selected(expected, what, open);
    }

    /// The same of connections of this process, by a condition that selects them and one that
    /// does not.
    #[track_caller]
    fn by(&self, selects: &str, selects_not: &str) {
        for (condition, expected) in [(selects, true), (selects_not, false)] {
            self.rule(condition);
            self.selects(expected, condition, socket());
        }
    }
}

#[test]
#[ignore = "a role of another test"]
fn conditions() {
    if !is_called_for() {
        return;
    }
    let has_batteries = Path::new(CLASS).exists();
    let prepare = |bond: &Bond| {
        let file = tempfile::NamedTempFile::new().unwrap();
        resolv_conf(file.path(), "nameserver 127.0.0.1\n");
        serve(Ipv4Addr::LOCALHOST, |query| {
            names::answer(query, Ipv4Addr::LOCALHOST)
        });
        has_batteries.then(|| class(bond, 40));
    };
    let (bond, counters, _daemons) = start_with("policy = \"policy.toml\"", prepare);
    let place = Place {
        bond,
        counters,
        to: origin(),
    };
    let there = origin_at((Ipv4Addr::new(127, 0, 0, 3), 0).into());
    of_destinations(&place, there);
    of_sockets(&place);
    of_control_groups(&place);
    of_links(&place);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let hour = |later: u64| (now.as_secs() / 3600 + later) % 24;
    place.by(
        &format!("time = \"{}:00-{}:00\"", hour(23), hour(2)),
        &format!("time = \"{}:00-{}:00\"", hour(11), hour(13)),
    );
    if !has_batteries {
        return Need::Namespaces.is_missing(format_args!("this kernel has no {CLASS}"));
    }
    place.by("battery = \"< 41%\"", "battery = \"< 40%\"");
    place.by("charging = false", "charging = true");
}

fn of_destinations(place: &Place, there: SocketAddr) {
    let port = place.to.port();
    place.by(
        &format!("port = {port}"),
        &format!("port = \"{}-65535\"", u32::from(port) + 1),
    );
    place.rule("ip = \"127.0.0.3\"");
    let open = connect(&place.bond, socket(), there).unwrap();
    place.is_selected(true, "the address", open);
    place.selects(false, "another address", socket());
    place.rule("domain = \"*.one.test\"");
    for (name, expected) in [("www.one.test", true), ("www.both.test", false)] {
        let open = place.bond.connect_to_name(name, port).unwrap();
        place.is_selected(expected, name, open);
    }
    place.selects(false, "an address", socket());
}

fn of_sockets(place: &Place) {
    place.rule("source = \"127.0.0.4\"");
    let from = socket();
    from.bind(&SocketAddr::from(([127, 0, 0, 4], 0)).into())
        .unwrap();
    place.selects(true, "the source", from);
    place.selects(false, "another source", socket());
    place.rule("dscp = \"CS1\"");
    let marked = socket();
    marked.set_tos_v4(CS1).unwrap();
    place.selects(true, "the code point", marked);
    place.selects(false, "another code point", socket());
    let uid = nix::unistd::getuid().as_raw();
    place.by(&format!("uid = {uid}"), &format!("uid = {}", uid + 1));
}

fn of_control_groups(place: &Place) {
    let Some(group) = Group::make() else {
        return Need::Root.is_missing("no control group of version 2 can be made here");
    };
    let path = format!("cgroup = \"/{}\"", group.name());
    for condition in ["app = \"org.example.A\"", &path] {
        place.rule(condition);
        place.selects(true, condition, group.inside(socket));
        place.selects(false, condition, socket());
    }
}

/// What programs tell of links. A condition needs it of every link that works.
fn of_links(place: &Place) {
    for what in ["metered", "roaming"] {
        place.rule(&format!("{what} = true"));
        place.selects(false, "not known", socket());
        for (links, expected) in [(["own", "own"], false), (["own", "helper"], true)] {
            for link in links {
                let fact = format!("{{\"{what}\": true}}");
                let told = ask(&place.bond, &format!("PATCH /v1/links/{link}"), &fact);
                assert_eq!(told.code, 200, "{told:?}");
            }
            place.selects(expected, what, socket());
        }
    }
}
