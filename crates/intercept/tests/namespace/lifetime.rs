//! Lifetime of the rules.

use std::io::BufReader;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mpbond_intercept::rules::{
    Method, Owner, Rules, RulesError, StaleRules, find_stale, remove_stale,
};

use crate::{LIMIT, assert_clean, config, is_clean, is_role, sh, wait_for};

/// Installs rules, reports it, and waits to be killed.
#[test]
#[ignore = "a role: see the top of main.rs"]
fn role_holder() {
    if is_role() {
        let rules = Rules::install(&config(Method::Tproxy)).unwrap();
        println!("installed {}", rules.table());
        std::thread::sleep(LIMIT * 20);
    }
}

#[test]
#[ignore = "a role: see the top of main.rs"]
fn role_lifetime() {
    if !is_role() {
        return;
    }
    sh("ip link set lo up");
    // A drop removes them.
    let rules = Rules::install(&config(Method::Tproxy)).unwrap();
    assert!(!is_clean());
    let busy = Rules::install(&config(Method::Redirect)).unwrap_err();
    assert!(matches!(busy, RulesError::Busy(o) if o == Owner::current().unwrap()));
    drop(rules);
    assert_clean();

    // So does a SIGKILL of the owner.
    let (mut holder, table) = start_holder();
    assert!(sh("nft list tables").contains(&table));
    // Rules of a living daemon are not stale, and stay.
    assert!(find_stale().unwrap().is_empty());
    assert!(remove_stale().unwrap().is_empty());
    assert!(sh("nft list tables").contains(&table));
    let rules = sh("ip -d rule; ip -6 -d rule");
    let mut own = rules.lines().filter(|line| line.starts_with("900"));
    assert!(own.clone().any(|line| line.starts_with("9000:")), "{rules}");
    // systemd-networkd removes others when it starts.
    assert!(own.all(|line| line.contains("proto kernel")), "{rules}");
    holder.kill().unwrap();
    holder.wait().unwrap();
    wait_until("nothing is left", is_clean);

    // A daemon killed together with its guard leaves no table; the next start removes the rest.
    let (mut holder, _) = start_holder();
    kill_all(&mut holder);
    wait_until("the table is gone", || sh("nft list tables").is_empty());
    assert!(!is_clean());
    drop(Rules::install(&config(Method::Redirect)).unwrap());
    assert_clean();

    // So does an explicit removal.
    let (mut holder, _) = start_holder();
    kill_all(&mut holder);
    wait_until("the table is gone", || sh("nft list tables").is_empty());
    // A table as it would stay on a kernel without owners; another program's rule.
    sh("nft add table inet mpbond_1073741824_1; ip rule add pref 9000 fwmark 9 lookup 254");
    let found = StaleRules {
        tables: vec![Owner {
            pid: 1 << 30,
            start_ticks: 1,
        }],
        // One of TPROXY, and eight that lead to the interface; of both families.
        routing_rules: 2 * 9,
    };
    assert_eq!(find_stale().unwrap(), found);
    assert_eq!(remove_stale().unwrap(), found);
    assert!(find_stale().unwrap().is_empty());
    assert!(sh("nft list tables").is_empty());
    assert!(sh("ip rule").contains("fwmark 0x9 "));
    sh("ip rule del pref 9000 fwmark 9");
    assert_clean();

    // Stale rules are removed, rules of other programs are not.
    sh("nft add table inet mpbond_1073741824_1; nft add table inet mpbond_other");
    let rules = Rules::install(&config(Method::Redirect)).unwrap();
    let tables = sh("nft list tables");
    assert!(!tables.contains("mpbond_1073741824_1"), "{tables}");
    assert!(tables.contains("mpbond_other"), "{tables}");
    drop(rules);
    sh("nft delete table inet mpbond_other");
    assert_clean();

    // Later input of the owner does not reach nft, as from a compromised daemon.
    let (mut holder, table) = start_holder();
    let commands = format!("/proc/{}/fd/0", children(holder.id())[0]);
    std::fs::write(commands, "add table inet mpbond_intruder\n").unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let tables = sh("nft list tables");
    assert!(
        tables.contains(&table) && !tables.contains("intruder"),
        "{tables}"
    );
    holder.kill().unwrap();
    holder.wait().unwrap();
    wait_until("nothing is left", is_clean);

    // When nft dies, the guard cleans up, which the daemon notices.
    let mut rules = Rules::install(&config(Method::Tproxy)).unwrap();
    let nft = nft_of(std::process::id());
    sh(&format!("kill -KILL {nft}"));
    wait_until("the guard's end is noticed", || !rules.in_force());
    assert_clean();
    drop(rules);

    // The daemon notices the guard's death, and nft exits with the owner.
    let mut rules = Rules::install(&config(Method::Redirect)).unwrap();
    sh(&format!("kill -KILL {}", children(std::process::id())[0]));
    wait_until("the guard's death is noticed", || !rules.in_force());
    drop(rules);
    wait_until("nothing is left", is_clean);
}

fn start_holder() -> (Child, String) {
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "lifetime::role_holder",
            "--nocapture",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(holder.stdout.take().unwrap());
    let table = wait_for(&mut out, "installed ");
    (holder, table)
}

pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let since = Instant::now();
    while !done() {
        assert!(since.elapsed() < LIMIT * 6, "waited too long: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Kills an owner with its guard and all cleaning processes, these first. Stopped, it cannot answer
/// to the end of one of them.
fn kill_all(holder: &mut Child) {
    sh(&format!("kill -STOP {}", holder.id()));
    let helpers: Vec<_> = descendants(holder.id())
        .iter()
        .map(u32::to_string)
        .collect();
    // A helper may have ended since it was listed.
    let all = format!("{} {}", helpers.join(" "), holder.id());
    sh(&format!("kill -KILL {all} || true"));
    holder.wait().unwrap();
}

/// The process that holds the table of an owner.
fn nft_of(owner: u32) -> u32 {
    let is_nft = |pid: &u32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|name| name.trim() == "nft")
    };
    let found = descendants(owner).into_iter().find(is_nft);
    found.unwrap()
}

/// Children, their children, and so on.
fn descendants(parent: u32) -> Vec<u32> {
    let mut all = children(parent);
    let mut next = 0;
    while let Some(pid) = all.get(next) {
        all.extend(children(*pid));
        next += 1;
    }
    all
}

/// Living children of a process.
fn children(parent: u32) -> Vec<u32> {
    let pids = std::fs::read_dir("/proc").unwrap();
    let pids = pids.filter_map(|e| e.unwrap().file_name().to_str()?.parse::<u32>().ok());
    let is_child = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let mut fields = stat.rsplit(')').next().unwrap().split_whitespace();
        fields.next() != Some("Z") && fields.next() == Some(&parent.to_string())
    };
    pids.filter(is_child).collect()
}
