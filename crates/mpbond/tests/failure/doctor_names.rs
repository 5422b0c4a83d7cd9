//! Name servers as the doctor finds them: those of the network, of local names, of the proxy, and
//! those that the configuration names; and probes that are intercepted. In namespaces of the test's
//! own.

use crate::apart::Apart;
use crate::daemons::until;
use crate::families::{V4, resolver};
use mpbond_testing::has_nft;
use mpbond_testing::names::{resolv_conf, serve, with_resolv_conf};
use mpbond_testing::namespaces::{is_called_for, play, sh};

#[test]
fn the_doctor_asks_each_name_server_and_says_which_is_dead() {
    if has_nft() {
        play("-Urnm", "doctor_names::role");
    }
}

/// Runs the doctor over there, by a line of shell in which `$doctor` is its command.
fn doctor(apart: &Apart, file: &str, line: &str) -> String {
    let command = format!(
        "{} doctor primary --config {}",
        env!("CARGO_BIN_EXE_mpbond"),
        apart.bond.file(file).display()
    );
    apart.run_there(&format!("{} || true", line.replace("$doctor", &command)))
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    let apart = Apart::new();
    let bond = &apart.bond;
    sh("ip addr add 11.0.0.1/32 dev lo
        ip addr add 11.0.0.3/32 dev lo
        ip route add default via 10.9.0.2");
    apart.there(&["route add default via 10.9.0.1"]);
    let edit = |name: &str, from: &str, to: &str| {
        let file = bond.file(name);
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains(from), "{text}");
        std::fs::write(file, text.replace(from, to)).unwrap();
    };
    // The proxy has a public address, with which it is not in an excluded network.
    edit("proxy.toml", "listen = \"10.9.0.1", "listen = \"11.0.0.1");
    edit(
        "proxy.toml",
        "\"127.0.0.0/8\"",
        "[\"127.0.0.0/8\", \"11.0.0.0/8\"]",
    );
    edit(
        "primary.toml",
        "[proxy]\naddress = \"10.9.0.1",
        "[proxy]\naddress = \"11.0.0.1",
    );
    let config = std::fs::read_to_string(bond.file("primary.toml")).unwrap() + "[transparent]\n";
    std::fs::write(bond.file("primary.toml"), &config).unwrap();
    let of_network = bond.file("resolv.conf");
    resolv_conf(&of_network, "nameserver 10.9.0.1\n");
    let of_proxy = bond.file("proxy.resolv.conf");
    std::fs::write(&of_proxy, "nameserver 11.0.0.1\n").unwrap();
    resolver();
    serve([10, 9, 0, 1].into(), |query| {
        Some(query.answer(&[V4.into()]))
    });
    let _proxy = bond.start_by("proxy", &with_resolv_conf(&of_proxy));
    let _primary = apart.start_primary();
    bond.joined(1);
    let lines = [
        "the name server 10.9.0.1, which is asked for local names, answers in ",
        "the primary, asked as by an application, answers in ",
        "the resolver of the proxy answers in ",
    ];
    let mut said = String::new();
    until("all answer", || {
        said = doctor(&apart, "primary.toml", "$doctor");
        lines.iter().all(|line| said.contains(line))
    });
    assert!(!said.contains("FAIL"), "{said}");

    // Resolvers that the configuration names, one of which is dead.
    let named = config + "resolvers = [\"11.0.0.1\", \"11.0.0.3\"]\n";
    std::fs::write(bond.file("named.toml"), named).unwrap();
    sh("nft add table inet block
        nft add chain inet block in '{ type filter hook input priority 0; }'
        nft add rule inet block in ip daddr 11.0.0.3 tcp dport 53 drop");
    let said = doctor(&apart, "named.toml", "$doctor");
    for line in [
        "the resolver 11.0.0.1, asked through the proxy, answers in ",
        "the resolver 11.0.0.3, asked through the proxy, does not answer within 5 s",
    ] {
        assert!(said.contains(line), "{said}");
    }

    // That of the proxy.
    sh("nft add rule inet block in ip daddr 11.0.0.1 meta l4proto { tcp, udp } th dport 53 drop");
    let said = doctor(&apart, "primary.toml", "$doctor");
    assert!(said.contains(lines[0]), "{said}");
    for line in [
        "the resolver of the proxy does not answer within 5 s",
        "the primary, asked as by an application, ",
    ] {
        let mut fails = said.lines().filter(|line| line.starts_with("FAIL  names "));
        assert!(fails.any(|fails| fails.contains(line)), "{line}: {said}");
    }

    // That of the network: its own look-ups are not intercepted, or the primary would answer.
    sh("nft flush chain inet block in
        nft add rule inet block in iifname far0 udp dport 53 drop");
    let said = doctor(&apart, "primary.toml", "$doctor");
    let dead =
        "the name server 10.9.0.1, which is asked for local names, does not answer within 3 s";
    assert!(said.contains(dead) && said.contains(lines[2]), "{said}");

    // Another address of the proxy, before the primary has read it: a program without privileges is
    // intercepted on its way there.
    edit(
        "named.toml",
        "[proxy]\naddress = \"11.0.0.1",
        "[proxy]\naddress = \"11.0.0.3",
    );
    let plain = "setpriv --inh-caps=-all --bounding-set=-all --ambient-caps=-all $doctor";
    let said = doctor(&apart, "named.toml", plain);
    for line in [
        "the proxy: not checked: a primary that runs here intercepts this probe",
        "the name servers of this network: not checked: the primary that runs intercepts",
    ] {
        assert!(said.contains(line), "{said}");
    }
    let said = doctor(&apart, "named.toml", "$doctor");
    assert!(!said.contains("intercepts this probe"), "{said}");
    // Nobody answers there: look-ups go direct, past the interception, to the network's server.
    for line in [
        "the resolvers behind the proxy: not checked: no path leads to the proxy",
        "the name server 10.9.0.1, asked while connections go direct, does not answer within 3 s",
    ] {
        assert!(said.contains(line), "{said}");
    }
    assert!(!said.contains("the resolver 11.0.0."), "{said}");

    // Where the network names none, they go to those of the configuration. A mount hides the files
    // of a resolver of this host.
    std::fs::write(of_network, "").unwrap();
    sh("mount -t tmpfs none /run");
    let said = doctor(&apart, "named.toml", "$doctor");
    for line in [
        "the resolver 11.0.0.1, asked while connections go direct, answers in ",
        "the resolver 11.0.0.3, asked while connections go direct, cannot be asked: Connection refused",
    ] {
        assert!(said.contains(line), "{said}");
    }
}
