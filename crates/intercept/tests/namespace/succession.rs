//! Rules of a process that takes over, beside those of the one before it.

use std::io::{BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use mpbond_intercept::Protocol;
use mpbond_intercept::rules::{Method, Rules, find_stale};

use crate::lifetime::wait_until;
use crate::{
    PORT, SITE, SITE_V6, ask, assert_clean, config, is_clean, is_role, sh, start_front, wait_for,
};

/// Process beside whose rules a holder installs its own.
const BESIDE: &str = "MPBOND_INTERCEPT_BESIDE";

/// Installs rules, reports it, and begins to remove them when it is told to.
#[test]
#[ignore = "a role: see the top of main.rs"]
fn role_holder() {
    if !is_role() {
        return;
    }
    let config = config(Method::Tproxy);
    let mut rules = match std::env::var(BESIDE) {
        Ok(other) => Rules::install_beside(&config, other.parse().unwrap()).unwrap(),
        Err(_) => Rules::install(&config).unwrap(),
    };
    println!("installed {}", rules.table());
    std::io::stdin().read_line(&mut String::new()).unwrap();
    rules.begin_removal();
    while rules.in_force() {
        std::thread::yield_now();
    }
    println!("removed them");
    // It serves what is open.
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

struct Holder {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    table: String,
}

impl Holder {
    fn start(beside: Option<&Self>) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        if let Some(other) = beside {
            command.env(BESIDE, other.child.id().to_string());
        }
        let mut child = command
            .args([
                "--ignored",
                "--exact",
                "succession::role_holder",
                "--nocapture",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let table = wait_for(&mut out, "installed ");
        Self { child, out, table }
    }

    fn removes_its_rules(&mut self) {
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(b"\n").unwrap();
        wait_for(&mut self.out, "removed ");
    }

    fn ends(mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

/// Tables, interfaces and preferences of routing rules that are there.
fn there() -> [Vec<String>; 3] {
    let found = |command: &str| -> Vec<String> {
        let mut lines: Vec<_> = sh(command).lines().map(str::to_owned).collect();
        lines.sort();
        lines.dedup();
        lines
    };
    [
        found("nft list tables inet | sed -n 's/^table inet //p'"),
        found("ip -o link | grep -o 'mpbond[0-9]' || true"),
        found("(ip rule; ip -6 rule) | grep -o '^90[01]' || true"),
    ]
}

#[test]
#[ignore = "a role: see the top of main.rs"]
fn role_succession() {
    if !is_role() {
        return;
    }
    sh("ip link set lo up");
    start_front(Protocol::Tproxy, &format!("127.0.0.1:{PORT}"));
    start_front(Protocol::Tproxy, &format!("[::1]:{PORT}"));
    let mut old = Holder::start(None);

    // Connections are intercepted all the time.
    let (stop, asked) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let (over, count) = (Arc::clone(&stop), Arc::clone(&asked));
    let asking = std::thread::spawn(move || {
        while !over.load(SeqCst) {
            for site in [SITE, SITE_V6] {
                assert_eq!(ask(site, 0), site);
                count.fetch_add(1, SeqCst);
            }
        }
    });

    // Four times, with interfaces and preferences by turns.
    for slot in [1, 0, 1, 0] {
        let mut new = Holder::start(Some(&old));
        let mut both = [old.table.clone(), new.table.clone()];
        both.sort();
        let [tables, interfaces, rules] = there();
        assert_eq!(tables, both);
        assert_eq!(interfaces, ["mpbond0", "mpbond1"]);
        assert_eq!(rules, ["900", "901"]);
        assert!(find_stale().unwrap().is_empty());
        old.removes_its_rules();
        let [tables, interfaces, rules] = there();
        assert_eq!(tables, [new.table.clone()]);
        assert_eq!(interfaces, [format!("mpbond{slot}")]);
        assert_eq!(rules, [format!("90{slot}")]);
        std::mem::swap(&mut old, &mut new);
        // The one that has ended removes nothing more.
        new.ends();
        assert_eq!(there(), [tables, interfaces, rules]);
    }

    // One that is killed beside another leaves that one's rules, be it the newer or the older.
    let mut new = Holder::start(Some(&old));
    new.child.kill().unwrap();
    new.child.wait().unwrap();
    wait_until("the older one's are left", || {
        let [tables, interfaces, rules] = there();
        tables == [old.table.clone()] && interfaces == ["mpbond0"] && rules == ["900"]
    });
    let before = asked.load(SeqCst);
    wait_until("connections are made", || asked.load(SeqCst) > before + 4);
    let mut new = Holder::start(Some(&old));
    old.child.kill().unwrap();
    old.child.wait().unwrap();
    wait_until("the other's are left", || {
        let [tables, interfaces, rules] = there();
        tables == [new.table.clone()] && interfaces == ["mpbond1"] && rules == ["901"]
    });
    let before = asked.load(SeqCst);
    wait_until("connections are made", || asked.load(SeqCst) > before + 4);
    stop.store(true, SeqCst);
    asking.join().unwrap();
    new.removes_its_rules();
    assert_clean();
    new.ends();

    // Rules in the second place, of a process that was killed, delay the next one only until its
    // guard has removed them.
    let old = Holder::start(None);
    let mut new = Holder::start(Some(&old));
    old.ends();
    new.child.kill().unwrap();
    new.child.wait().unwrap();
    let mut next = Holder::start(None);
    let [tables, interfaces, rules] = there();
    assert_eq!(tables, [next.table.clone()]);
    assert_eq!(
        (interfaces, rules),
        (vec!["mpbond0".to_owned()], vec!["900".to_owned()])
    );
    next.removes_its_rules();
    assert!(is_clean());
    next.ends();
}
