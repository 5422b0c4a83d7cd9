//! Two pipes to one helper, over two links between network namespaces of the test's own.

use mpbond_testing::namespaces::{is_called_for, play};

use crate::apart::Apart;
use crate::daemons::{download, origin, until};
use crate::reload::{read, write};

#[test]
fn two_pipes_to_one_helper_carry_and_one_dies() {
    play("-Urnm", "pipes::role");
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    let apart = Apart::with_helper();
    let (bond, helper) = (&apart.bond, apart.helper_pid());
    apart.there(&[
        &format!("link add pipe2 type veth peer name pipe3 netns {helper}"),
        "addr add 10.5.0.1/24 dev pipe2",
        "link set pipe2 up",
    ]);
    apart.helper_runs("ip addr add 10.5.0.2/24 dev pipe3");
    apart.helper_runs("ip link set pipe3 up");
    let port = bond.helper.port();
    let config = read(bond, "helper").replace("listen = \"10.6.0.2", "listen = \"0.0.0.0");
    write(bond, "helper", &config);

    // No way but the two pipes, and bytes on both whatever their delays are.
    let config = "scheduler = \"round-robin\"\n".to_owned() + &read(bond, "proxy");
    write(bond, "proxy", &config);
    let config = read(bond, "primary").replace("[[path]]\nname = \"own\"\n", "");
    let address = format!("address = \"10.6.0.2:{port}\"\n");
    assert!(config.contains(&address), "{config}");
    let config = config.replace(&address, "").replace(
        "[socks5]",
        &format!(
            "[[helper.pipe]]\n{address}interface = \"pipe0\"\n\
             [[helper.pipe]]\naddress = \"10.5.0.2:{port}\"\ninterface = \"pipe2\"\n[socks5]"
        ),
    );
    write(bond, "primary", &config);

    let _daemons = [bond.start("proxy"), apart.start_helper()];
    let primary = apart.start_primary();
    bond.joined(2);
    until("status shows both pipes by their names", || {
        let status = bond.status("primary");
        status.is_some_and(|s| s.links.iter().map(|l| &l.name).eq(["helper", "helper 2"]))
    });

    let wanted = 60_000_000;
    let download = download(bond, origin(), wanted);
    until("both pipes carry bytes", || {
        bond.status("primary").is_some_and(|status| {
            let subflows = status.sessions.iter().flat_map(|s| &s.subflows);
            subflows.filter(|s| s.bytes_in > 0).count() == 2
        })
    });
    assert!(!download.is_over(), "{}", primary.log());
    apart.there(&["link del pipe0"]);
    assert_eq!(download.end().unwrap(), wanted as usize);
    bond.joined(1);
    assert!(bond.works(origin()), "{}", primary.log());
}
