//! What the doctor says of paths that fail, and of a daemon that has not read its configuration, in
//! namespaces of the test's own.

use crate::apart::Apart;
use crate::daemons::until;
use mpbond_testing::has_nft;
use mpbond_testing::namespaces::{is_called_for, play, sh};

#[test]
fn the_doctor_tells_reasons_of_a_failing_path_apart() {
    if !has_nft() {
        return;
    }
    play("-Urnm", "doctor::role");
}

fn doctor(apart: &Apart, file: &str) -> String {
    apart.run_there(&format!(
        "{} doctor primary --config {} || true",
        env!("CARGO_BIN_EXE_mpbond"),
        apart.bond.file(file).display()
    ))
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    let apart = Apart::new();
    let bond = &apart.bond;
    // One packet for each segment: what is dropped is what a wire would carry.
    sh("ip link set far0 gso_max_segs 1");
    apart.there(&["link set near0 gso_max_segs 1"]);
    apart.there_runs("sysctl -q net.ipv4.ping_group_range=\"0 0\"");
    let file = bond.file("primary.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    let bound = config.replace(
        "name = \"own\"\n",
        "name = \"own\"\ninterface = \"near0\"\n",
    );
    assert_ne!(config, bound);
    std::fs::write(&file, &bound).unwrap();
    let _proxy = bond.start("proxy");
    let _primary = apart.start_primary();
    bond.joined(1);
    let mut said = String::new();
    until("all is well over the path", || {
        said = doctor(&apart, "primary.toml");
        said.contains("4 kB pass, up in ")
    });
    assert!(
        said.contains("only one way (through \"own\"); nothing is bonded"),
        "{said}"
    );
    assert!(
        !said.contains("FAIL") && !said.contains("has changed since the daemon"),
        "{said}"
    );

    // It was changed while the daemon ran.
    std::fs::write(&file, &bound).unwrap();
    let said = doctor(&apart, "primary.toml");
    assert!(
        said.contains("primary.toml has changed since the daemon that runs has read it"),
        "{said}"
    );
    assert!(said.contains("mpbond reload primary --config "), "{said}");
    let reloaded = mpbond::status_socket::reload(&bond.file("primary.sock"));
    assert!(
        format!("{reloaded:?}").starts_with("Ok(Read"),
        "{reloaded:?}"
    );
    let said = doctor(&apart, "primary.toml");
    assert!(!said.contains("has changed since the daemon"), "{said}");
    let restart = bound.replace("[proxy]", "scheduler = \"single\"\n[proxy]");
    std::fs::write(&file, restart).unwrap();
    mpbond::status_socket::reload(&bond.file("primary.sock")).unwrap();
    let said = doctor(&apart, "primary.toml");
    let waits = "changes of scheduler are not in force yet";
    assert!(said.contains(waits), "{said}");
    assert!(said.contains("start it again to use it: "), "{said}");
    std::fs::write(&file, &bound).unwrap();

    let port = bond.proxy.port();
    let there = format!("\"10.9.0.1:{port}\"");
    for (address, word) in [
        (
            "10.9.0.77",
            "nobody on near0 has the address 10.9.0.77 (no answer to ARP)",
        ),
        ("10.99.0.1", "there is no route through near0"),
    ] {
        let elsewhere = bound.replace(&there, &format!("\"{address}:{port}\""));
        assert_ne!(elsewhere, bound);
        std::fs::write(bond.file("elsewhere.toml"), elsewhere).unwrap();
        let said = doctor(&apart, "elsewhere.toml");
        assert!(
            said.contains("FAIL") && said.contains(word),
            "{word}: {said}"
        );
        for what in ["4 kB each way", "the resolvers behind the proxy"] {
            let skipped = format!("{what}: not checked: ");
            assert!(said.contains(&skipped), "{what}: {said}");
        }
    }

    let chain = "nft add table inet block
         nft add chain inet block input '{ type filter hook input priority 0; }'";
    sh(&format!(
        "{chain}
         nft add rule inet block input tcp dport {port} reject with icmp admin-prohibited"
    ));
    let said = doctor(&apart, "primary.toml");
    let refused = "a firewall or router on the way through near0 refuses";
    assert!(said.contains("FAIL") && said.contains(refused), "{said}");
    sh(&format!(
        "nft delete table inet block
         {chain}
         nft add rule inet block input iifname far0 meta length gt 1300 drop"
    ));
    let said = doctor(&apart, "primary.toml");
    let dropped = "packets of full size are dropped on the way to the proxy, small ones pass";
    assert!(said.contains(dropped), "{said}");
    sh("nft delete table inet block");
    apart.there_obeys(
        "table inet block {
            chain in { type filter hook input priority 0; iifname near0 meta length gt 1300 drop; }
        }",
    );
    let said = doctor(&apart, "primary.toml");
    assert!(
        said.contains(&dropped.replace("to the", "from the")),
        "{said}"
    );
    assert!(said.contains("`sudo ip link set near0 mtu 1300`"), "{said}");
}
