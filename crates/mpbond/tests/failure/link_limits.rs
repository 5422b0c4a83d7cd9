//! Caps of links, and floors of batteries in a policy: links that are used up or low carry nothing
//! more, over restarts as well, and no byte is lost.

use std::io::{ErrorKind, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use mpbond::status::LinkStatus;
use mpbond_session::IDLE_LONG;
use mpbond_testing::Need;
use mpbond_testing::namespaces::{is_called_for, play, sh};

use crate::apart::Apart;
use crate::api::{Listener, ask, got};
use crate::battery::{CLASS, LONG, charge, class};
use crate::daemons::{Bond, WITHIN, Ways, download_over, origin, until, until_within};
use crate::policy_paths::{
    LITTLE, SIZE, download, play_with_counters, put, start, start_scheduled,
};
use crate::reload::{read, write};

#[test]
fn a_link_whose_cap_is_used_up_carries_nothing_more() {
    play_with_counters("link_limits::cap_of_a_helper");
}

#[test]
fn a_cap_holds_for_bytes_that_move_again_while_another_link_is_excluded() {
    play_with_counters("link_limits::cap_after_a_pause");
}

#[test]
fn a_link_on_standby_carries_what_no_other_one_can() {
    play_with_counters("link_limits::standby");
}

#[test]
fn costly_links_carry_what_cheaper_ones_cannot() {
    play_with_counters("link_limits::costs");
}

#[test]
fn a_costly_link_carries_data_beside_a_cheap_one_while_its_signal_is_weak() {
    play_with_counters("link_limits::weak_signal");
}

#[test]
fn a_helper_that_costs_less_carries_what_it_has_room_for() {
    play_with_counters("link_limits::cheap_helper");
}

#[test]
fn the_cap_of_an_own_link_counts_all_bytes_of_its_interface() {
    play_with_counters("link_limits::cap_of_an_interface");
}

#[test]
fn the_account_of_an_own_link_goes_on_when_its_counter_is_set_back() {
    play("-Urnm", "link_limits::counter_set_back");
}

#[test]
fn a_cap_that_a_status_finds_used_up_excludes_its_link_when_it_is_watched() {
    play("-Urnm", "link_limits::found_by_a_status");
}

#[test]
fn links_whose_batteries_are_low_carry_nothing() {
    if !Path::new(CLASS).exists() {
        return Need::Namespaces.is_missing(format_args!("this kernel has no {CLASS}"));
    }
    play_with_counters("link_limits::floors");
}

#[test]
fn a_battery_that_is_low_is_told_and_stays_low_while_its_level_is_not_known() {
    if !Path::new(CLASS).exists() {
        return Need::Namespaces.is_missing(format_args!("this kernel has no {CLASS}"));
    }
    play_with_counters("link_limits::floors_kept");
}

fn link(bond: &Bond, name: &str) -> LinkStatus {
    let links = bond.status("primary").unwrap().links;
    links.into_iter().find(|link| link.name == name).unwrap()
}

fn used(bond: &Bond, name: &str) -> u64 {
    link(bond, name).cap.unwrap().used_bytes
}

/// A policy with a cap of the helper.
fn capped(bytes: &str, more: &str) -> String {
    format!(
        "[policy]\nzone = \"UTC\"\n[[link]]\nname = \"helper\"\n\
         cap = {{ bytes = \"{bytes}\", warn = \"50%\"{more} }}\n"
    )
}

#[test]
#[ignore = "a role of another test"]
fn cap_of_a_helper() {
    if !is_called_for() {
        return;
    }
    let origin = origin();
    let (bond, counters, [_proxy, _helper, mut primary]) = start("policy = \"policy.toml\"");
    // Before the cap.
    download(&bond, origin);
    put(&bond, &capped("3 MB", ""));
    assert_eq!(used(&bond, "helper"), 0);
    // It is used up during one of them, of which it carries a half.
    let [own, helper] = counters.carried(|| (0..3).for_each(|_| download(&bond, origin)));
    // Without a cap, each has 6 MB and headers. In 500 ms without a look, 1.25 MB move.
    assert!(own > 6_500_000, "{own} {helper}");
    let cap = 3_000_000;
    let used_up = used(&bond, "helper");
    assert!((cap..cap + 2_500_000).contains(&used_up), "{used_up}");
    assert!((cap..cap + 3_000_000).contains(&helper), "{helper}");
    assert!(link(&bond, "helper").cap.unwrap().used_up);
    primary.logs("the cap of a link is used up: it carries nothing more");
    primary.logs("much of a link's cap is used");
    let other = counters.carried(|| download(&bond, origin));
    assert!(other[1] < LITTLE, "{other:?}");
    // A restart renews nothing.
    assert!(primary.stop().success());
    std::fs::write(bond.file("policy.toml"), capped("3 MB", "")).unwrap();
    let primary = bond.start("primary");
    bond.joined(2);
    // Its connections' handshakes count.
    let again = used(&bond, "helper");
    assert!((used_up..used_up + 50_000).contains(&again), "{again}");
    let other = counters.carried(|| download(&bond, origin));
    assert!(other[1] < LITTLE, "{other:?}");
    // Another cap applies at once, to open connections as well.
    let stream = bond.connect(origin).unwrap();
    let carried = counters.carried(|| {
        put(&bond, &capped("30 MB", ""));
        assert!(!link(&bond, "helper").cap.unwrap().used_up);
        let all = download_over(stream, SIZE).end().unwrap();
        assert_eq!(all, SIZE as usize);
    });
    assert!(carried[1] > u64::from(SIZE) / 8, "{carried:?}");
    // A file that is no account is named.
    drop(primary);
    std::fs::write(bond.file("primary.usage"), "nonsense").unwrap();
    let mut primary = bond.start_unseen("primary", "exec \"$0\" \"$@\"");
    assert_eq!(primary.ends().code(), Some(2));
    primary.logs("primary.usage: ");
}

#[test]
#[ignore = "a role of another test"]
fn cap_after_a_pause() {
    if !is_called_for() {
        return;
    }
    let origin = origin();
    let (bond, counters, [_proxy, _helper, primary]) = start("policy = \"policy.toml\"");
    let own = "[[link]]\nname = \"own\"\ncap = { bytes = \"1 MB\" }\n";
    put(&bond, &format!("{}{own}", capped("12 MB", "")));
    let used_up = "the cap of a link is used up: it carries nothing more";
    let first = counters.carried(|| {
        download(&bond, origin);
        primary.logs(used_up);
    });
    assert!(first[1] < 8_000_000, "{first:?}");
    // Nothing moves, and the watch waits for the end of the own link's period.
    std::thread::sleep(Duration::from_secs(7));
    let rest = counters.carried(|| {
        let running = download_over(bond.connect(origin).unwrap(), 60_000_000);
        until("the other cap is used up, too", || {
            primary.log().matches(used_up).count() == 2
        });
        // What was under way arrives.
        std::thread::sleep(Duration::from_secs(1));
        assert!(!running.is_over());
    });
    let all = first[1] + rest[1];
    assert!((12_000_000..18_000_000).contains(&all), "{all}");
}

#[test]
#[ignore = "a role of another test"]
fn standby() {
    if !is_called_for() {
        return;
    }
    let origin = origin();
    let (bond, counters, _daemons) = start("policy = \"policy.toml\"");
    put(&bond, &capped("1 MB", ", at_cap = \"standby\""));
    download(&bond, origin);
    until("the cap is used up", || used(&bond, "helper") >= 1_000_000);
    assert!(counters.spares(1, || download(&bond, origin)));
    let off = ask(&bond, "PATCH /v1/links/own", "{\"mode\": \"off\"}");
    assert_eq!(off.code, 200, "{off:?}");
    let carried = counters.carried(|| download(&bond, origin));
    assert!(carried[1] > u64::from(SIZE), "{carried:?}");
    until("it exceeds the cap", || used(&bond, "helper") > 5_000_000);
}

#[test]
#[ignore = "a role of another test"]
fn costs() {
    if !is_called_for() {
        return;
    }
    let origin = origin();
    let (bond, counters, _daemons) = start("policy = \"policy.toml\"");
    let with = |mode: &str, link: &str, cost: &str| {
        let link = format!("[[link]]\nname = \"{link}\"\n{cost}\n");
        put(&bond, &format!("[policy]\n{mode}\n{link}"));
    };
    let saver = |link: &str, cost: &str| with("mode = \"saver\"", link, cost);
    // What is known of links costs 1 if it is metered, else nothing.
    for (link, cost, unused) in [
        ("helper", "cost = 3", 1),
        ("helper", "metered = true", 1),
        ("own", "cost = 1", 0),
    ] {
        saver(link, cost);
        let spares = counters.spares(unused, || download(&bond, origin));
        assert!(spares, "{link} {cost}");
    }
    // The cheap one has room for what the origin sends.
    for mode in ["zone = \"UTC\"", "mode = \"balanced\""] {
        with(mode, "helper", "cost = 3");
        assert!(counters.spares(1, || download(&bond, origin)), "{mode}");
    }
    with("mode = \"fastest\"", "helper", "cost = 3");
    let carried = counters.carried(|| download(&bond, origin));
    assert!(carried.iter().all(|bytes| *bytes > 300_000), "{carried:?}");
    put(&bond, "");
    let carried = counters.carried(|| download(&bond, origin));
    assert!(carried.iter().all(|bytes| *bytes > 300_000), "{carried:?}");
    // The only link that works, during a transfer.
    saver("helper", "cost = 3");
    let stream = bond.connect(origin).unwrap();
    let carried = counters.carried(|| {
        let running = download_over(stream, SIZE);
        let off = ask(&bond, "PATCH /v1/links/own", "{\"mode\": \"off\"}");
        assert_eq!(off.code, 200, "{off:?}");
        assert_eq!(running.end().unwrap(), SIZE as usize);
    });
    assert!(carried[1] > u64::from(SIZE) / 2, "{carried:?}");
    let on = ask(&bond, "PATCH /v1/links/own", "{\"mode\": \"bonded\"}");
    assert_eq!(on.code, 200, "{on:?}");
    until("the cheaper link works again", || {
        link(&bond, "own").state == "up"
    });
    assert!(counters.spares(1, || download(&bond, origin)));
}

#[test]
#[ignore = "a role of another test"]
fn weak_signal() {
    if !is_called_for() {
        return;
    }
    let origin = origin();
    let (bond, counters, _daemons) = start("policy = \"policy.toml\"");
    let costs = "[policy]\nmode = \"saver\"\n[[link]]\nname = \"helper\"\ncost = 3\n";
    let threshold = "[[link]]\nname = \"own\"\nweak_below = \"-60 dBm\"\n";
    let own = || {
        let explained = got(&bond, "POST /v1/explain", "{\"port\": 1}");
        let links = explained["links"].as_array().unwrap();
        let own = links.iter().find(|link| link["name"] == "own");
        own.unwrap().clone()
    };
    // As a program tells it; the kernel has no signal of this interface.
    let tell = |dbm: &str| {
        let body = format!("{{\"signal_dbm\": {dbm}}}");
        let answer = ask(&bond, "PATCH /v1/links/own", &body);
        assert_eq!(answer.code, 200, "{answer:?}");
    };
    // During a transfer it is told again and again: it lasts for 5 s.
    let transfer = |dbm: &str| {
        let (goes_on, is_over) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let wait = Duration::from_millis(200);
            scope.spawn(move || {
                while is_over.recv_timeout(wait) == Err(mpsc::RecvTimeoutError::Timeout) {
                    tell(dbm);
                }
            });
            download(&bond, origin);
            drop(goes_on);
        });
    };
    let until_weak = |dbm: &str, is_weak: bool| {
        tell(dbm);
        assert_eq!(own()["measured"]["signal_dbm"].to_string(), dbm);
        until(&format!("with {dbm}, weak is {is_weak}"), || {
            tell(dbm);
            transfer(dbm);
            own()["use"]["weak"] == is_weak
        });
    };
    put(&bond, &format!("{costs}{threshold}"));
    for (dbm, is_weak) in [
        ("null", false),
        ("-68", true),
        ("-51", false),
        ("-68", true),
        ("null", false),
    ] {
        until_weak(dbm, is_weak);
        let is_as_expected = |carried: [u64; 2]| match is_weak {
            true => carried.iter().all(|bytes| *bytes > 300_000),
            false => carried[1] < LITTLE,
        };
        let carries = counters.carries(|| transfer(dbm), is_as_expected);
        assert!(carries, "{dbm}");
    }
    // Another policy forgets it.
    until_weak("-68", true);
    put(&bond, costs);
    assert!(counters.spares(1, || transfer("-68")));
    assert_eq!(own()["use"]["weak"], false);
}

#[test]
#[ignore = "a role of another test"]
fn cheap_helper() {
    if !is_called_for() {
        return;
    }
    let origin = origin();
    let policy = "policy = \"policy.toml\"";
    let (bond, counters, _daemons) = start_scheduled("mpbond", policy, |_| ());
    // An own path has the shorter delay.
    let own_has_more = |[own, helper]: [u64; 2]| own > helper;
    let helper_has_most = |[own, helper]: [u64; 2]| helper > 5 * own;
    assert!(counters.carries(|| download(&bond, origin), own_has_more));
    put(&bond, "[[link]]\nname = \"own\"\nmetered = true\n");
    assert!(counters.carries(|| download(&bond, origin), helper_has_most));
}

#[test]
#[ignore = "a role of another test"]
fn cap_of_an_interface() {
    if !is_called_for() {
        return;
    }
    let origin = origin();
    let (bond, counters, _daemons) = start("policy = \"policy.toml\"");
    let policy =
        "[policy]\nzone = \"UTC\"\n[[link]]\nname = \"own\"\ncap = { bytes = \"60 MB\" }\n";
    put(&bond, policy);
    // All bytes on the loopback interface: those of the application and the helper, too, each
    // received and sent. The first reading counts nothing.
    let all = || {
        let text = std::fs::read_to_string("/proc/net/dev").unwrap();
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("lo:"));
        let columns: Vec<u64> = line
            .unwrap()
            .split_whitespace()
            .map(|column| column.parse().unwrap())
            .collect();
        columns[0] + columns[8]
    };
    let before = all();
    download(&bond, origin);
    let passed = all() - before;
    assert!(passed > 6 * u64::from(SIZE), "{passed}");
    until("it is counted", || used(&bond, "own") >= passed);
    assert!(used(&bond, "own") < passed + 500_000);
    until("the cap is used up", || {
        download(&bond, origin);
        used(&bond, "own") >= 60_000_000
    });
    let carried = counters.carried(|| download(&bond, origin));
    assert!(carried[0] < LITTLE, "{carried:?}");
}

/// The interface is made anew with its old name and index, as by a driver that is loaded again.
#[test]
#[ignore = "a role of another test"]
fn counter_set_back() {
    if !is_called_for() {
        return;
    }
    let origin = origin();
    let apart = Apart::with("policy = \"policy.toml\"\non_proxy_loss = \"fail\"", "");
    let (bond, pid) = (&apart.bond, apart.pid());
    let config = read(bond, "primary");
    let own = config.replace(
        "name = \"own\"\n",
        "name = \"own\"\ninterface = \"near0\"\n",
    );
    assert_ne!(own, config);
    write(bond, "primary", &own);
    let policy = "[policy]\nzone = \"UTC\"\n\
                  [[link]]\nname = \"own\"\ncap = { bytes = \"1 GB\" }\n";
    std::fs::write(bond.file("policy.toml"), policy).unwrap();
    let counter = || {
        let text = apart.run_there("cat /proc/net/dev");
        let mut lines = text.lines();
        let line = lines.find_map(|line| line.trim().strip_prefix("near0:"));
        let columns = line.unwrap().split_whitespace();
        let columns: Vec<u64> = columns.map(|column| column.parse().unwrap()).collect();
        columns[0] + columns[8]
    };
    let _proxy = bond.start("proxy");
    let _primary = apart.start_primary();
    bond.joined(1);
    download(bond, origin);
    let mut before = used(bond, "own");
    until("the connection's end has passed", || {
        std::thread::sleep(Duration::from_millis(500));
        let last = before;
        before = used(bond, "own");
        before == last
    });
    assert!(before > u64::from(SIZE), "{before}");
    let shown = apart.run_there("ip -o link show near0");
    let (index, _) = shown.split_once(':').unwrap();
    let here = std::process::id();
    sh(&format!(
        "ip link del far0
         nsenter -t {pid} -n ip link add near0 index {index} type veth peer name far0 netns {here}
         ip addr add 10.9.0.1/24 dev far0
         ip link set far0 up
         nsenter -t {pid} -n ip addr add 10.9.0.2/24 dev near0
         nsenter -t {pid} -n ip link set near0 up"
    ));
    assert!(apart.run_there("ip -o link show near0").starts_with(index));
    // A part of what passed before: the counter is lower, not only another one.
    until("it works again", || bond.works(origin));
    for _ in 0..2 {
        let least = counter();
        let since = used(bond, "own") - before;
        let most = counter();
        assert!((least..=most).contains(&since), "{since} {least} {most}");
        download(bond, origin);
    }
}

/// Another program uses the cap up while nothing watches it. If a status excluded the link then,
/// nothing would look whether a period has ended.
#[test]
#[ignore = "a role of another test"]
fn found_by_a_status() {
    if !is_called_for() {
        return;
    }
    let origin = origin();
    let apart = Apart::with("policy = \"policy.toml\"\non_proxy_loss = \"fail\"", "");
    let bond = &apart.bond;
    let config = read(bond, "primary");
    let own = "name = \"own\"\n";
    let with_interface = format!("{own}interface = \"near0\"\n");
    write(bond, "primary", &config.replace(own, &with_interface));
    let policy = "[policy]\nzone = \"UTC\"\n\
                  [[link]]\nname = \"own\"\ncap = { bytes = \"30 MB\" }\n";
    std::fs::write(bond.file("policy.toml"), policy).unwrap();
    let _proxy = bond.start("proxy");
    let _primary = apart.start_primary();
    bond.joined(1);
    download(bond, origin);
    assert!(used(bond, "own") < 20_000_000);
    // The watch ends when nothing has moved for 5 s.
    std::thread::sleep(Duration::from_secs(9));
    let _sink = std::net::UdpSocket::bind("10.9.0.1:9").unwrap();
    apart.run_there(r#"bash -c "head -c 32000000 /dev/zero > /dev/udp/10.9.0.1/9""#);
    assert!(used(bond, "own") >= 30_000_000);
    let admitted = bond.connect(origin);
    assert!(admitted.is_ok(), "{admitted:?}");
    until("it is excluded", || bond.connect(origin).is_err());
}

#[test]
#[ignore = "a role of another test"]
fn floors() {
    if !is_called_for() {
        return;
    }
    let origin = origin();
    let class = |bond: &Bond| class(bond, 40);
    let (bond, counters, _daemons) = crate::policy_paths::start_with("", class);
    let class = bond.file("class");
    let floor = |link: &str| format!("[[link]]\nname = \"{link}\"\nbattery_floor = \"20%\"\n");
    until("the helper tells its level", || {
        link(&bond, "helper").battery_percent == Some(40)
    });
    assert_eq!(link(&bond, "helper").charging, Some(false));
    assert_eq!(link(&bond, "own").battery_percent, None);
    put(&bond, &floor("helper"));
    let both = counters.carried(|| download(&bond, origin));
    assert!(both.iter().all(|bytes| *bytes > 300_000), "{both:?}");
    // It sinks while connections are open.
    charge(&class, 19, "Discharging");
    let stays = bond.connect(origin).unwrap();
    until_within(LONG, "the helper's link is not used", || {
        counters.carried(|| download(&bond, origin))[1] < LITTLE
    });
    assert_eq!(link(&bond, "helper").battery_percent, Some(19));
    let carried = counters.carried(|| {
        assert_eq!(download_over(stays, SIZE).end().unwrap(), SIZE as usize);
    });
    // It may be draining still.
    assert!(carried[0] > 1_000_000, "{carried:?}");
    // The same of the own link; the other one has no floor now.
    put(&bond, &floor("own"));
    until_within(LONG, "the own link is not used", || {
        counters.carried(|| download(&bond, origin))[0] < LITTLE
    });
    charge(&class, 25, "Charging");
    until_within(LONG, "it is used again", || {
        std::thread::sleep(Duration::from_millis(200));
        counters.carried(|| download(&bond, origin))[0] > 300_000
    });
    until_within(LONG, "the helper tells that it is charged", || {
        download(&bond, origin);
        link(&bond, "helper").charging == Some(true)
    });
    assert_eq!(got(&bond, "GET /v1/links/own", "")["state"], "up");
    // The only link: no byte moves until its battery has been charged.
    let off = ask(&bond, "PATCH /v1/links/helper", "{\"mode\": \"off\"}");
    assert_eq!(off.code, 200, "{off:?}");
    charge(&class, 19, "Discharging");
    until_within(LONG, "connections are refused", || {
        match bond.connect(origin) {
            Ok(_) => !bond.works(origin),
            Err(code) => code == 2,
        }
    });
    // Bytes have long not moved: the level is read each 60 s, or when it is told.
    std::thread::sleep(Duration::from_secs(12));
    charge(&class, 25, "Charging");
    until_within(LONG / 3, "connections are carried again", || {
        bond.connect(origin).is_ok()
    });
}

#[test]
#[ignore = "a role of another test"]
fn floors_kept() {
    if !is_called_for() {
        return;
    }
    let origin = origin();
    let class = |bond: &Bond| class(bond, 19);
    let (bond, counters, [_proxy, helper, _primary]) = crate::policy_paths::start_with("", class);
    let class = bond.file("class");
    let floor = |link: &str| format!("[[link]]\nname = \"{link}\"\nbattery_floor = \"20%\"\n");
    let level = || link(&bond, "helper").battery_percent;
    until("the helper tells its level", || level() == Some(19));
    let mut events = Listener::new(&bond, "/v1/events");
    // No connection is open.
    let mut is_low = |link: &str| {
        put(&bond, &floor(link));
        assert_eq!(events.next()["type"], "policy.changed");
        let event = events.next();
        assert_eq!([&event["type"], &event["link"]], ["battery.low", link]);
        assert_eq!(event["reason"], "19%");
    };
    is_low("own");
    charge(&class, 255, "Discharging");
    // The watch looks at once.
    std::thread::sleep(Duration::from_secs(2));
    let carried = counters.carried(|| download(&bond, origin));
    assert!(carried[0] < LITTLE, "no level can be read: {carried:?}");
    assert_eq!(level(), Some(19));
    is_low("helper");
    charge(&class, 22, "Discharging");
    drop(helper);
    let _helper = bond.start("helper");
    bond.joined(2);
    until("it tells its level again", || level() == Some(22));
    let carried = counters.carried(|| download(&bond, origin));
    assert!(carried[1] < LITTLE, "it was away: {carried:?}");
}

#[test]
fn connections_of_a_rule_move_no_more_than_its_budget() {
    let (origin, other) = (origin(), origin());
    let bond = Bond::new(Ways::Own, "policy = \"policy.toml\"", "");
    let policy = |bytes: &str| {
        let text = format!(
            "[[rule]]\nname = \"some\"\nport = {}\n\
             set = {{ budget = {{ bytes = \"{bytes}\", zone = \"UTC\" }} }}\n",
            origin.port()
        );
        std::fs::write(bond.file("policy.toml"), text).unwrap();
    };
    policy("6 MB");
    let _proxy = bond.start("proxy");
    let mut primary = bond.start("primary");
    bond.joined(1);
    download(&bond, origin);
    // Over a restart.
    assert!(primary.stop().success());
    let primary = bond.start("primary");
    bond.joined(1);
    // Two share what is left: 2 MB less what was asked for.
    let ends = [(); 2].map(|()| download_over(bond.connect(origin).unwrap(), SIZE));
    let results = ends.map(|end| end.end_with_count());
    let came: usize = results.iter().map(|(came, _)| came).sum();
    let left = 6_000_000 - SIZE as usize - 3 * 4;
    // Half of it comes where bytes count twice.
    assert!((left * 3 / 4..=left + 131_072).contains(&came), "{came}");
    assert!(results.iter().all(|(_, result)| result.is_err()));
    primary.logs("the budget of its rule is used up");
    assert_eq!(bond.connect(origin).err(), Some(2));
    assert!(bond.works(other), "of no rule");
    policy("20 MB");
    mpbond::status_socket::reload(&bond.file("primary.sock")).unwrap();
    download(&bond, origin);
}

/// What the first account on the disk has.
fn saved(bond: &Bond) -> u64 {
    let account = std::fs::read_to_string(bond.file("primary.usage")).unwrap_or_default();
    let mut lines = account
        .lines()
        .filter_map(|line| line.strip_prefix("used_bytes = "));
    lines.next().map_or(0, |bytes| bytes.parse().unwrap())
}

/// What a process has counted and not saved yet is not lost. So little of a budget is saved after
/// 30 s.
#[test]
fn a_budget_goes_on_through_upgrades() {
    let origin = origin();
    let bond = Bond::new(Ways::Own, "policy = \"policy.toml\"", "");
    let policy = format!(
        "[[rule]]\nname = \"some\"\nport = {}\n\
         set = {{ budget = {{ bytes = \"1 GB\", zone = \"UTC\" }} }}\n",
        origin.port()
    );
    std::fs::write(bond.file("policy.toml"), policy).unwrap();
    let _proxy = bond.start("proxy");
    let _primary = bond.start("primary");
    let mut upgraded = Vec::new();
    for n in 1..=2 {
        bond.joined(1);
        download(&bond, origin);
        upgraded.push(bond.upgrade("primary").unwrap());
        let saved = saved(&bond);
        assert!(saved >= n * u64::from(SIZE), "{n}: {saved}");
        until("the process before has ended", || {
            let notes = bond.status("primary").unwrap().notes;
            !notes.iter().any(|note| note.contains("which ran before"))
        });
    }
}

#[test]
fn connections_that_go_direct_move_no_more_than_the_budget_of_their_rule() {
    let (origin, other) = (origin(), origin());
    let sink = TcpListener::bind("127.0.0.1:0").unwrap();
    let more = "policy = \"policy.toml\"\non_proxy_loss = \"direct\"";
    let bond = Bond::new(Ways::Own, more, "");
    let policy = format!(
        "[[rule]]\nname = \"some\"\nport = {}\n\
         set = {{ budget = {{ bytes = \"6 MB\", zone = \"UTC\" }} }}\n\
         [[rule]]\nname = \"up\"\nport = {}\n\
         set = {{ budget = {{ bytes = \"1 MB\", zone = \"UTC\" }} }}\n",
        origin.port(),
        sink.local_addr().unwrap().port()
    );
    std::fs::write(bond.file("policy.toml"), policy).unwrap();
    // There is no proxy.
    let mut primary = bond.start("primary");
    let used = || saved(&bond);
    let size = u64::from(SIZE);
    // The limits are looked at no longer when it moves its first byte.
    let kept = bond.connect(origin).unwrap();
    std::thread::sleep(IDLE_LONG + Duration::from_secs(2));
    assert_eq!(download_over(kept, SIZE).end().unwrap(), SIZE as usize);
    until("it is counted", || used() >= size);
    assert!(primary.stop().success());
    let _primary = bond.start("primary");
    assert!(used() >= size, "over a restart");
    let cut = download_over(bond.connect(origin).unwrap(), SIZE);
    let (came, result) = cut.end_with_count();
    let left = 6_000_000 - SIZE as usize - 2 * 4;
    assert!((left * 3 / 4..=left + 131_072).contains(&came), "{came}");
    assert!(result.is_err(), "what is cut short is reset");
    assert_eq!(bond.connect(origin).err(), Some(2));
    assert!(bond.works(other), "of no rule");
    let mut client = bond.connect(sink.local_addr().unwrap()).unwrap();
    let (mut arrived, _) = sink.accept().unwrap();
    arrived.set_read_timeout(Some(WITHIN)).unwrap();
    let upload = std::thread::spawn(move || client.write_all(&[1; 8_000_000]));
    let seen = std::io::copy(&mut arrived, &mut std::io::sink());
    assert_eq!(seen.unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert!(upload.join().unwrap().is_err());
}
