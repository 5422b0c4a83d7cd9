//! Questions of `mpbond setup` at a terminal: two on each device.

use std::time::Instant;

use crate::setup::{Device, WITHIN};
use crate::terminal::Terminal;
use mpbond_testing::has_script;
use mpbond_testing::namespaces::{is_called_for, play, sh};

const ID: &str = "EYGTWYB-WWIZNSL-4KBHPXP-SOYIV7T-EFA3AUC-QRIQWSU-XFSNIHN-FOCWDQC";

#[test]
fn setup_asks_two_questions_on_each_device() {
    if has_script() {
        play("-Urnm", "setup_questions::role");
    }
}

/// Answers all questions of a dry run; returns their number, and the screen.
fn dialogue(device: &Device, answers: &[&str]) -> (usize, String) {
    let folder = device.folder().to_str().unwrap();
    let variables = [
        ("CONFIGURATION_DIRECTORY", folder),
        ("RUNTIME_DIRECTORY", folder),
    ];
    let line = format!("exec {} setup --dry-run", env!("CARGO_BIN_EXE_mpbond"));
    let mut terminal = Terminal::open(&line, &variables);
    let (mut asked, deadline) = (0, Instant::now() + WITHIN);
    loop {
        let ended = terminal.ended();
        if terminal.question().is_some() && ended.is_none() {
            let answer = answers.get(asked);
            let answer = answer.unwrap_or_else(|| panic!("a question more: {}", terminal.screen()));
            terminal.type_in(&format!("{answer}\n"));
            asked += 1;
        }
        if let Some(code) = ended {
            assert_eq!(code, 0, "{}", terminal.screen());
            return (asked, terminal.screen());
        }
        assert!(Instant::now() < deadline, "{}", terminal.screen());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
#[ignore = "a role: see mpbond_testing::namespaces"]
fn role() {
    if !is_called_for() {
        return;
    }
    // The interfaces of this namespace alone, and a link with a private address.
    sh("mount -t sysfs sysfs /sys
        ip link set lo up
        ip link add net0 type veth peer name far0
        ip addr add 10.1.0.2/24 dev net0
        ip link set net0 up
        ip link set far0 up
        ip route add default via 10.1.0.1");
    let token = format!("MPBOND:ENROL/203.0.113.1:4433/{ID}/{}", "0".repeat(32));
    let calls = "sudo mpbond pair 10.42.0.1 1234-5678";
    let helper = "10.42.0.1:4435";
    for (answers, words) in [
        // The laptop, by the server's token, and by what the second device shows.
        (&[&token[..], calls][..], &[ID, helper][..]),
        (&[calls, &token], &[ID, helper]),
        (&[&token, ""], &[ID, "[socks5]"]),
        // The second device, and the server.
        (&["2", "203.0.113.1"], &["proxies = [\"203.0.113.1:4433\"]"]),
        (&["server", "203.0.113.1"], &["listen = \"0.0.0.0:4433\""]),
    ] {
        let (asked, screen) = dialogue(&Device::new(), answers);
        assert_eq!(asked, 2, "{screen}");
        for word in words {
            assert!(screen.contains(word), "no {word} in {screen}");
        }
        assert!(!screen.contains("shows [3]: "), "{screen}");
    }

    // A device that is set up already is offered its role.
    let laptop = Device::new();
    let known = format!("[proxy]\naddress = \"203.0.113.1:4433\"\nid = \"{ID}\"\n[[path]]\n");
    std::fs::write(laptop.folder().join("primary.toml"), known).unwrap();
    let (asked, screen) = dialogue(&laptop, &["", "10.42.0.1 1234-5678"]);
    assert_eq!(asked, 2, "{screen}");
    assert!(
        screen.contains("shows [1]: ") && screen.contains(helper),
        "{screen}"
    );

    // A machine with a public address and no radio is most probably a server.
    sh("ip addr add 11.0.0.2/24 dev net0
        ip route replace default via 11.0.0.1");
    let (asked, screen) = dialogue(&Device::new(), &["", ""]);
    assert_eq!(asked, 2, "{screen}");
    for word in ["shows [3]: ", "server [11.0.0.2]: ", "listen = \""] {
        assert!(screen.contains(word), "no {word} in {screen}");
    }
    // A modem is that of a laptop or phone.
    sh("ip link add wwan0 type veth peer name far1");
    let (_, screen) = dialogue(&Device::new(), &["3", ""]);
    assert!(!screen.contains("shows [3]: "), "{screen}");
}
