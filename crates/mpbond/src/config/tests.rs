//! Configurations of all roles: complete ones, and errors that name line, key and remedy.

use std::path::Path;

use super::*;

fn id(n: u8) -> String {
    mpbond_net::DeviceId::from_bytes([n; 32]).to_string()
}

/// `ID` in `text` stands for a valid device id.
fn with<T>(text: &str, load: impl Fn(&Path) -> Result<T, ConfigError>) -> Result<T, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.toml");
    std::fs::write(&path, text.replace("ID", &id(7))).unwrap();
    load(&path).map_err(|e| {
        let text = e.to_string();
        assert_eq!(text.lines().count(), 1, "{text}");
        text.replace(&format!("{}/", folder.path().display()), "")
    })
}

fn primary_error(text: &str) -> String {
    with(text, PrimaryConfig::load).expect_err(text)
}

const PROXY: &str = "[proxy]\naddress = \"203.0.113.1:4433\"\nid = \"ID\"\n";

#[test]
fn wrong_primaries_are_told_what_is_wrong_and_where() {
    for (text, expected) in [
        ("", "c.toml: proxy: missing: a [proxy] section"),
        ("scheduler = ", "c.toml:1:"),
        (
            "shceduler = \"mpbond\"\n",
            "c.toml:1: shceduler: unknown key; allowed here are identity, status_socket, metrics, \
             sandbox, scheduler, reinjection, feedback, buffer_delay, congestion, \
             resume_for, on_proxy_loss, policy, proxy, path, helper, socks5, http, transparent",
        ),
        (
            "\nscheduler = \"best\"\n",
            "c.toml:2: scheduler: unknown scheduler \"best\": allowed are mpbond, pams, min-pad,",
        ),
        (
            "resume_for = \"0s\"\n",
            "c.toml:1: resume_for: \"0s\" is not a span of time such as \"60s\", from 1s to 1h",
        ),
        (
            "on_proxy_loss = \"panic\"\n",
            "c.toml:1: on_proxy_loss: \"panic\" is not allowed; allowed are direct, fail",
        ),
        (
            "feedback = \"always\"\n",
            "c.toml:1: feedback: \"always\" is not allowed; allowed are helper-radio, flexible, \
             fixed-always, fixed-on-demand",
        ),
        (
            "reinjection = \"yes\"\n",
            "c.toml:1: reinjection: \"yes\" is not allowed; allowed are ours, published, none",
        ),
        (
            "[proxy]\naddress = \"203.0.113:4433\"\n",
            "c.toml:2: proxy.address: \"203.0.113:4433\" is not an address and port",
        ),
        (
            "[proxy]\naddress = [\"example.net\"]\n",
            "c.toml:2: proxy.address: \"example.net\" is not an address and port",
        ),
        (
            "[proxy]\naddress = \"203.0.113.1:0\"\n",
            "c.toml:2: proxy.address: \"203.0.113.1:0\" is not an address and port",
        ),
        (
            "PROXY[[helper]]\nid = \"ID\"\naddress = \"10.0.0.2:0\"\n",
            "c.toml:6: helper.address: \"10.0.0.2:0\": nobody listens at port 0; ports are from 1",
        ),
        (
            "[proxy]\naddress = []\nid = \"ID\"\n",
            "c.toml:2: proxy.address: from 1 to 8, not 0",
        ),
        (
            "[proxy]\naddress = \"a:1\"\nfallback_port = 0\nid = \"ID\"\n",
            "c.toml:3: proxy.fallback_port: ",
        ),
        (
            "[proxy]\naddress = 4433\n",
            "c.toml:2: proxy.address: invalid type: integer \"4433\", expected an address and port",
        ),
        (
            "[proxy]\nid = \"ID\"\n",
            "c.toml:1: proxy.address: missing: write the proxy's address and port",
        ),
        (
            "[proxy]\naddress = \"203.0.113.1:4433\"\n",
            "c.toml:1: proxy.id: missing: run `mpbond id` on the proxy",
        ),
        (
            "[proxy]\naddress = \"203.0.113.1:4433\"\nid = \"ABC\"\n",
            "c.toml:3: proxy.id: a device id has 56 letters and digits in groups of 7, not 3",
        ),
        (
            PROXY,
            "c.toml: path: missing: no [[path]] and no [[helper]]",
        ),
        (
            "PROXY[[path]]\ninterface = \"wlan0\"\n[[path]]\nname = \"b\"\n",
            "c.toml:6: path: with more than one [[path]], each needs `interface` or `source`",
        ),
        (
            "PROXY[[path]]\ninterfaces = \"wlan0\"\n",
            "c.toml:5: path.interfaces: unknown key; allowed here are name, interface, source, \
             proxy, backup",
        ),
        (
            "PROXY[[path]]\ninterface = \"a very long interface\"\n",
            "c.toml:5: path.interface: \"a very long interface\" cannot be a network interface's",
        ),
        (
            "PROXY[[path]]\nname = \"x\"\n[[helper]]\nname = \"x\"\naddress = \"10.0.0.2:4434\"\n\
             id = \"ID\"\n",
            "c.toml:7: helper.name: \"x\" is the name of the link in line 5 already",
        ),
        (
            "PROXY[[helper]]\nid = \"ID\"\naddress = \"unix:pipe\"\n",
            "c.toml:6: helper.address: \"unix:pipe\" is not an address and port such as \
             \"192.168.49.2:4434\", the path of a Unix socket",
        ),
        (
            "PROXY[[helper]]\nid = \"ID\"\naddress = \"unix:/run/pipe\"\nsource = \"10.0.0.1\"\n",
            "c.toml:7: helper.source: a pipe over a Unix socket has none: remove this key",
        ),
        (
            "PROXY[[helper]]\naddress = \"10.0.0.2:4434\"\n",
            "c.toml:4: helper.id: missing: run `mpbond id` on the helper",
        ),
        (
            "PROXY[[helper]]\nid = \"ID\"\n",
            "c.toml:4: helper.address: missing: write the helper's address",
        ),
        (
            "PROXY[[helper]]\nid = \"ID\"\nbackup = false\n[[helper.pipe]]\naddress = \"discover\"\n",
            "c.toml:6: helper.backup: this helper has [[helper.pipe]] sections: move the key",
        ),
        (
            "PROXY[[helper]]\nid = \"ID\"\npipe = []\n",
            "c.toml:4: helper.address: missing: write the helper's address",
        ),
        (
            "PROXY[[helper]]\nid = \"ID\"\n[[helper.pipe]]\ninterface = \"wlan0\"\n",
            "c.toml:6: helper.pipe.address: missing: write the helper's address",
        ),
        (
            "PROXY[[helper]]\nid = \"ID\"\n[[helper.pipe]]\nkind = \"tcp\"\n",
            "c.toml:7: helper.pipe.kind: unknown key; allowed here are name, address, interface, \
             source, backup",
        ),
        (
            "PROXY[[helper]]\nid = \"ID\"\n[[helper.pipe]]\naddress = \"10.0.0.2:4434\"\n\
             [[helper.pipe]]\nname = \"b\"\naddress = \"10.0.0.2:4434\"\nbackup = true\n",
            "c.toml:8: helper.pipe: the same way as \"10.0.0.2:4434\": pipes to one helper differ",
        ),
        // Two sections of one device, the form of before.
        (
            "PROXY[[helper]]\nid = \"ID\"\naddress = \"10.0.0.2:4434\"\n\
             [[helper]]\nid = \"ID\"\nname = \"b\"\naddress = \"10.0.0.2:4434\"\n",
            "c.toml:7: helper: the same way as \"10.0.0.2:4434\": pipes to one helper differ",
        ),
        (
            "PROXY[[helper]]\nid = \"ID\"\naddress = \"discover\"\n\
             [[helper]]\nid = \"ID\"\naddress = \"10.0.0.2:4434\"\n",
            "c.toml:6: helper.address: \"discover\" finds one address of a helper, and this one has \
             several pipes",
        ),
        (
            "PROXY[[helper]]\nid = \"ID\"\n[[helper.pipe]]\naddress = \"10.0.0.2:4434\"\n\
             [[helper.pipe]]\ninterface = \"usb0\"\naddress = \"discover\"\n",
            "c.toml:10: helper.pipe.address: \"discover\" finds one address of a helper",
        ),
        (
            "PROXY[[helper]]\nid = \"ID\"\nname = \"LONG\"\n[[helper.pipe]]\n\
             address = \"10.0.1.2:4434\"\n[[helper.pipe]]\naddress = \"10.0.0.2:4434\"\n",
            "c.toml:9: helper.pipe.name: missing: \"LONG 2\" is too long for a name",
        ),
        (
            "PROXY[[path]]\nname = \"phone 2\"\n[[helper]]\nid = \"ID\"\nname = \"phone\"\n\
             [[helper.pipe]]\naddress = \"10.0.0.2:4434\"\n\
             [[helper.pipe]]\naddress = \"10.0.1.2:4434\"\n",
            "c.toml:11: helper.pipe.name: \"phone 2\" is the name of the link in line 5 already",
        ),
        (
            "PROXY[[path]]\n[transparent]\nmode = \"tun\"\n",
            "c.toml:6: transparent.mode: \"tun\" is not allowed; allowed are redirect, tproxy",
        ),
        (
            "PROXY[[path]]\n[transparent]\nresolvers = []\n",
            "c.toml:6: transparent.resolvers: empty",
        ),
        (
            "PROXY[[path]]\n[transparent]\nkill_switch = true\n",
            "c.toml:6: transparent.kill_switch: ",
        ),
        (
            "on_proxy_loss = \"direct\"\nPROXY[[path]]\n[transparent]\nkill_switch = \"permanent\"\n",
            "c.toml:1: on_proxy_loss: \"direct\" contradicts transparent.kill_switch",
        ),
        (
            "PROXY[[path]]\n[transparent]\nkill_switch = \"until-stop\"\nudp = \"pass\"\n",
            "c.toml:7: transparent.udp: \"pass\" contradicts kill_switch",
        ),
        (
            "PROXY[[path]]\n[socks5]\nlisten = \"1080\"\n",
            "c.toml:6: socks5.listen: \"1080\" is not an address and port",
        ),
        (
            "PROXY[[path]]\n[http]\nlisten = \"0.0.0.0:8080\"\n",
            "c.toml:6: http.listen: other hosts reach this address: name a file",
        ),
        (
            "PROXY[[path]]\n[socks5]\nlisten = \"[fd00::1]:1080\"\nopen = false\n",
            "c.toml:6: socks5.listen: other hosts reach this address",
        ),
        (
            "metrics = \"127.0.0.1:1080\"\nPROXY[[path]]\n[socks5]\nlisten = \"127.0.0.1:1080\"\n",
            "c.toml: metrics and socks5.listen are both 127.0.0.1:1080: give one of them another",
        ),
        (
            "identity = \"a\"\nidentity = \"b\"\n",
            "c.toml:2: identity: duplicate key",
        ),
    ] {
        let long = "n".repeat(64);
        let (text, expected) = (text.replace("LONG", &long), expected.replace("LONG", &long));
        let error = primary_error(&text.replace("PROXY", PROXY));
        assert!(
            error.starts_with(&expected),
            "{text:?} gave\n  {error}\nwhere this was expected:\n  {expected}"
        );
    }
}

#[test]
fn wrong_helpers_are_told_what_is_wrong_and_where() {
    for (text, expected) in [
        ("", "c.toml: proxies: missing: the addresses of the proxies"),
        (
            "proxies = \"203.0.113.1:4433\"\nlisten = [\"0.0.0.0:1\", \"unix:/a\", \"[::]:1\"]\n",
            "c.toml:2: listen: one address of TCP at most",
        ),
        (
            "proxies = \"203.0.113.1:4433\"\nlisten = \"unix:/FOLDER/p\"\n",
            "c.toml:2: listen: the folder of a Unix socket has 98 octets at most",
        ),
        (
            "proxies = \"203.0.113.1:4433\"\nlisten = \"/run/pipe\"\n",
            "c.toml:2: listen: \"/run/pipe\" is not an address and port such as",
        ),
        ("proxies = []\n", "c.toml:1: proxies: empty: the addresses"),
        (
            "proxies = \"203.0.113.1:4433\"\nbuffer = \"4 parsecs\"\n",
            "c.toml:2: buffer: \"4 parsecs\" is not a size such as",
        ),
        (
            "proxies = \"203.0.113.1:4433\"\nbuffer = \"1 B\"\n",
            "c.toml:2: buffer: from \"64 KiB\" to \"256 MiB\"",
        ),
        (
            "proxies = \"203.0.113.1:4433\"\nmax_bytes_per_month = -1\n",
            "c.toml:2: max_bytes_per_month: a size must not be negative",
        ),
        (
            "proxies = \"203.0.113.1:4433\"\nbattery_floor = \"0%\"\n",
            "c.toml:2: battery_floor: \"0%\" is not a whole percentage from \"1%\" to \"100%\"",
        ),
        (
            "proxies = \"203.0.113.1:4433\"\nbattery_floor = \"+9%\"\n",
            "c.toml:2: battery_floor: \"+9%\" is not a whole percentage",
        ),
        (
            "proxies = \"203.0.113.1:4433\"\nuplink = { device = \"x\" }\n",
            "c.toml:2: uplink.device: unknown key; allowed here are interface, source, capacity_down, \
             capacity_up, metered",
        ),
        (
            "proxies = \"203.0.113.1:4433\"\n[uplink]\ncapacity_up = \"20 Mbit/s\"\n",
            "c.toml:3: uplink.capacity_up: write `interface` as well: the capacity is that of one",
        ),
        (
            "proxies = \"203.0.113.1:4433\"\n[uplink]\ninterface = \"x\"\ncapacity_down = \"20\"\n",
            "c.toml:4: uplink.capacity_down: \"20\" is not a data rate such as \"20 Mbit/s\", from",
        ),
        (
            "proxies = \"203.0.113.1:4433\"\n[uplink]\ninterface = \"x\"\ncapacity_up = \"999 kbit/s\"\n",
            "c.toml:4: uplink.capacity_up: \"999 kbit/s\" is not a data rate such as \"20 Mbit/s\", from \
             1 Mbit/s to 100 Gbit/s",
        ),
        (
            "proxies = \"203.0.113.1:4433\"\nname = \"\"\n",
            "c.toml:2: name: a name has 1 to 64 octets",
        ),
        (
            "trust = [\"ID\",\n  \"oops\"]\n",
            "c.toml:2: trust: a device id has 56 letters",
        ),
    ] {
        let text = &text.replace("FOLDER", &"n".repeat(98));
        let error = with(text, HelperConfig::load).expect_err(text);
        assert!(
            error.starts_with(expected),
            "{text:?} gave\n  {error}\nwhere this was expected:\n  {expected}"
        );
    }
}

#[test]
fn wrong_proxies_are_told_what_is_wrong_and_where() {
    for (text, expected) in [
        (
            "listen = []\n",
            "c.toml:1: listen: empty: write at least one",
        ),
        ("workers = 0\n", "c.toml:1: workers: from 1 to 1024"),
        (
            "memory = \"4 KiB\"\n",
            "c.toml:1: memory: at least \"1 MiB\"",
        ),
        (
            "[destinations]\nallow = [\"10.0.0.0/33\"]\n",
            "c.toml:2: destinations.allow: \"10.0.0.0/33\" is not a destination rule",
        ),
        (
            "[destinations]\npermit = []\n",
            "c.toml:2: destinations.permit: unknown key; allowed here are allow, deny",
        ),
        (
            "congestion = \"cu bic\"\n",
            "c.toml:1: congestion: \"cu bic\" cannot be a congestion control's name",
        ),
        (
            "scheduler = \"fixed-ratio=2\"\n",
            "c.toml:1: scheduler: unknown scheduler \"fixed-ratio=2\"",
        ),
    ] {
        let error = with(text, ProxyConfig::load).expect_err(text);
        assert!(
            error.starts_with(expected),
            "{text:?} gave\n  {error}\nwhere this was expected:\n  {expected}"
        );
    }
}

#[test]
fn files_that_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.toml");
    let error = |path: &Path| ProxyConfig::load(path).unwrap_err().to_string();
    assert!(error(&path).contains("c.toml: cannot be read: "));
    std::fs::write(&path, b"# fine\n\xff").unwrap();
    assert!(error(&path).contains("c.toml:2: not UTF-8"));
    std::fs::write(&path, vec![b'#'; (1 << 20) + 1]).unwrap();
    assert!(error(&path).contains("longer than"));
    std::fs::write(&path, "\"\u{1b}[31m\" = 1\n").unwrap();
    let text = error(&path);
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

#[test]
fn defaults() {
    let proxy = with("", ProxyConfig::load).unwrap();
    assert_eq!(proxy.listen, ["0.0.0.0:4433".parse().unwrap()]);
    assert_eq!(proxy.reinjection, mpbond_session::ReinjectionRule::Ours);
    assert!(proxy.trust.is_empty());
    assert_eq!(proxy.scheduler, mpbond_session::SchedulerKind::Mpbond);

    let helper = with("proxies = \"203.0.113.1:4433\"\n", HelperConfig::load).unwrap();
    assert_eq!(helper.buffer_bytes, 4 << 20);
    assert!(helper.enabled && !helper.name.is_empty());

    let text = format!("{PROXY}[[path]]\n");
    let primary = with(&text, PrimaryConfig::load).unwrap();
    assert_eq!(primary.paths[0].name, "direct");
    assert_eq!(primary.on_proxy_loss, OnProxyLoss::Direct);
    let socks5 = primary.socks5.map(|f| f.listen.to_string());
    assert_eq!(socks5.as_deref(), Some("127.0.0.1:1080"));
    assert!(primary.http.is_none() && primary.transparent.is_none());
}

#[test]
fn a_kill_switch_lets_nothing_go_direct() {
    let load = |more: &str| with(&format!("{PROXY}[[path]]\n{more}"), PrimaryConfig::load).unwrap();
    let config = load("[transparent]\nkill_switch = \"permanent\"\n");
    assert_eq!(config.on_proxy_loss, OnProxyLoss::Fail);
    assert_eq!(config.transparent.unwrap().udp, UdpPolicy::Reject);
    // Interception that is switched off has no kill switch either.
    let off = load("[transparent]\nenabled = false\nkill_switch = \"permanent\"\n");
    assert_eq!(off.on_proxy_loss, OnProxyLoss::Direct);
    assert!(off.transparent.is_none());
}

#[test]
fn a_proxy_has_one_address_or_several() {
    let load = |address: &str| {
        let text =
            format!("[proxy]\naddress = {address}\nfallback_port = 443\nid = \"ID\"\n[[path]]\n");
        with(&text, PrimaryConfig::load).unwrap()
    };
    let config = load("[\"proxy.example.org:4433\", \"203.0.113.1:4433\", \"[2001:db8::1]:1\"]");
    let shown: Vec<_> = config
        .proxy
        .addresses
        .iter()
        .map(ToString::to_string)
        .collect();
    let written = [
        "proxy.example.org:4433",
        "203.0.113.1:4433",
        "[2001:db8::1]:1",
    ];
    assert_eq!(shown, written);
    assert_eq!(config.proxy.fixed().count(), 2);
    assert_eq!(config.proxy.fallback_port, Some(443));
    assert_eq!(load("\"203.0.113.1:4433\"").proxy.addresses.len(), 1);
}

/// A pipe is the same link in either form, and has the name of its helper.
#[test]
fn a_pipe_is_described_in_the_section_of_its_helper_or_in_its_own() {
    let load = |helper: &str| {
        let text = format!("{PROXY}[[helper]]\nname = \"phone\"\nid = \"ID\"\n{helper}");
        with(&text, PrimaryConfig::load).unwrap().helpers
    };
    let keys = "address = \"10.0.0.2:4434\"\ninterface = \"wlan0\"\nbackup = true\n";
    let one = load(keys);
    assert_eq!(one, load(&format!("[[helper.pipe]]\n{keys}")));
    let several = load(&format!(
        "[[helper.pipe]]\n{keys}[[helper.pipe]]\naddress = \"10.0.1.2:4434\"\n\
         [[helper.pipe]]\nname = \"phone usb\"\naddress = \"10.0.0.2:4434\"\n"
    ));
    assert_eq!(several[..1], one);
    let names: Vec<_> = several.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["phone", "phone 2", "phone usb"]);
    assert!(several.iter().all(|pipe| pipe.id == one[0].id));
    assert!(several[2].interface.is_none() && !several[2].backup);
    // Which of them is used.
    assert!(several.iter().all(|pipe| pipe.place.is_none()));
    let more = "[[helper.pipe]]\naddress = \"10.0.1.2:4434\"\n";
    let best = load(&format!("pipes = \"best\"\n[[helper.pipe]]\n{keys}{more}"));
    let places: Vec<_> = best.iter().map(|pipe| pipe.place).collect();
    assert_eq!(places, [Some(1), Some(2)]);
    let app = load(&format!("pipes = \"app\"\n[[helper.pipe]]\n{keys}{more}"));
    let app = app.iter().map(|pipe| (pipe.place, pipe.by_app));
    let expected = [(Some(1), true), (Some(2), true)];
    assert!(app.eq(expected) && best.iter().all(|pipe| !pipe.by_app));
    // The form of before for several links to one device.
    let section = format!("[[helper]]\nid = \"ID\"\n{}", keys.replace("wlan0", "usb0"));
    let sections = load(&(keys.to_owned() + &section));
    assert_eq!(sections[..1], one);
    assert_eq!(sections[1].id, one[0].id);
    let names: Vec<_> = sections.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["phone", "10.0.0.2:4434"]);
    let looked_for = load("[[helper.pipe]]\naddress = \"discover\"\n");
    assert_eq!(looked_for[0].address, HelperAddress::Discover);
}

/// Sums of some radios and of others would be compared.
#[test]
fn radios_are_named_for_all_pipes_that_are_compared_or_for_none() {
    let pipe = |n: u8, keys: &str| format!("[[helper.pipe]]\naddress = \"10.0.0.{n}:1\"\n{keys}");
    let file = |pipes: &str, one: &str, other: &str| {
        let pipes = format!("pipes = \"{pipes}\"\n{}{}", pipe(1, one), pipe(2, other));
        format!("{PROXY}[[helper]]\nid = \"ID\"\n{pipes}")
    };
    let (bt, wifi) = ("radio = \"watch-bt\"\n", "radio = \"watch-wifi\"\n");
    let both = |near: &str, far: &str| format!("{near}far_radio = \"{far}\"\n");
    let best = with(
        &file("best", &both(bt, "phone-bt"), &both(wifi, "wifi-s4")),
        PrimaryConfig::load,
    );
    let named = |pipe: &HelperRef| {
        pipe.radios
            .map(|r| (r.near.name, r.far.map(|far| far.name)))
    };
    let radios: Vec<_> = best.unwrap().helpers.iter().map(named).collect();
    let expected = [("watch-bt", "phone-bt"), ("watch-wifi", "wifi-s4")];
    assert_eq!(radios, expected.map(|(near, far)| Some((near, Some(far)))));
    let names = "name the radios of all pipes of this helper, by which they are compared, or of \
                 none";
    for pipes in ["best", "app"] {
        let error = primary_error(&file(pipes, bt, ""));
        assert_eq!(
            error,
            format!("c.toml:10: helper.pipe.radio: missing: {names}")
        );
        let error = primary_error(&file(pipes, wifi, &both(bt, "phone-bt")));
        assert_eq!(
            error,
            format!("c.toml:7: helper.pipe.far_radio: missing: {names}")
        );
        with(&file(pipes, bt, "backup = true\n"), PrimaryConfig::load).unwrap();
    }
    with(&file("all", bt, ""), PrimaryConfig::load).unwrap();
    let error = primary_error(&file("best", "radio = \"bt\"\n", ""));
    let unknown = "c.toml:9: helper.pipe.radio: \"bt\" is not the name of a radio, such as \
                   \"watch-bt\"; radios are wifi-s4, ";
    assert!(error.starts_with(unknown), "{error}");
    let error = primary_error(&file("all", "far_radio = \"phone-bt\"\n", ""));
    let alone = "the radio of the helper alone: name that of this device as well, by `radio`";
    assert_eq!(error, format!("c.toml:9: helper.pipe.far_radio: {alone}"));
    // In the section of the helper, beside those of pipes.
    let error = primary_error(&file("all", "", "").replace("pipes = ", &format!("{bt}pipes = ")));
    let moved = "this helper has [[helper.pipe]] sections: move the key into one of them";
    assert_eq!(error, format!("c.toml:6: helper.radio: {moved}"));
}

#[test]
fn pipes_count_as_links_of_which_there_are_16() {
    let pipes = |count: usize| {
        let helpers: String = (0..count)
            .map(|n| {
                let device = format!("[[helper]]\nid = \"{}\"\n", id(n as u8 / 4 + 1));
                let head = if n % 4 == 0 { device } else { String::new() };
                format!("{head}[[helper.pipe]]\naddress = \"10.0.0.{n}:4434\"\n")
            })
            .collect();
        format!("{PROXY}[[path]]\n{helpers}")
    };
    let config = with(&pipes(15), PrimaryConfig::load).unwrap();
    assert_eq!(config.helpers.len(), 15);
    let error = primary_error(&pipes(16));
    assert_eq!(error, "c.toml: at most 16 paths and pipes to helpers");
}

/// Whether they are in one section or in several.
#[test]
fn there_are_at_most_4_pipes_to_one_device() {
    let address = |n| format!("address = \"10.0.0.{n}:4434\"\n");
    let pipe = |n| format!("[[helper.pipe]]\n{}", address(n));
    let one: String = (0..4).map(pipe).collect();
    let one = format!("{PROXY}[[helper]]\nid = \"ID\"\n{one}");
    assert_eq!(with(&one, PrimaryConfig::load).unwrap().helpers.len(), 4);
    let said = "at most 4 pipes to one helper: remove one of them";
    let error = primary_error(&format!("{one}{}", pipe(4)));
    assert_eq!(error, format!("c.toml:14: helper.pipe: {said}"));
    let error = primary_error(&format!("{one}[[helper]]\nid = \"ID\"\n{}", address(4)));
    assert_eq!(error, format!("c.toml:14: helper: {said}"));
    let another = format!("{one}[[helper]]\nid = \"{}\"\n{}", id(1), address(4));
    with(&another, PrimaryConfig::load).unwrap();
}

#[test]
fn relative_paths_start_at_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("proxy.toml");
    let text = format!("identity = \"key.pem\"\ntrust = \"{}\"\n", id(3));
    std::fs::write(&path, text).unwrap();
    let config = ProxyConfig::load(&path).unwrap();
    assert_eq!(config.identity, folder.path().join("key.pem"));
    let (identity, trust) = identity_and_trust(&path).unwrap();
    assert_eq!(identity, config.identity);
    assert_eq!(trust, config.trust);
}

#[test]
fn the_examples_in_the_help_are_valid() {
    use crate::config::example;
    with(
        &example::PROXY.replace("DEVICE-ID", &id(1)),
        ProxyConfig::load,
    )
    .unwrap();
    with(
        &example::HELPER.replace("DEVICE-ID", &id(1)),
        HelperConfig::load,
    )
    .unwrap();
    let text = example::PRIMARY
        .replace("PROXY-ID", &id(1))
        .replace("HELPER-ID", &id(2));
    let primary = with(&text, PrimaryConfig::load).unwrap();
    assert_eq!((primary.paths.len(), primary.helpers.len()), (1, 1));
    assert!(primary.transparent.is_some());
}

/// The form that the lab writes for its daemons.
#[test]
fn the_labs_form() {
    let text = "identity = \"/x/i.pem\"\nstatus_socket = \"/x/s.sock\"\nscheduler = \"mpbond\"\n\
                reinjection = \"ours\"\ncongestion = \"cubic\"\n[proxy]\naddress = \"203.0.113.1:4433\"\n\
                id = \"ID\"\n[[path]]\nname = \"lte\"\ninterface = \"lte\"\n[[helper]]\n\
                name = \"phone\"\naddress = \"10.0.1.2:4434\"\nid = \"ID\"\n\
                [transparent]\nenabled = true\nmode = \"redirect\"\n";
    let primary = with(text, PrimaryConfig::load).unwrap();
    assert_eq!(primary.helpers[0].name, "phone");
    assert!(primary.socks5.is_none(), "{:?}", primary.socks5);
    assert!(!primary.transparent.unwrap().exclude.is_empty());
}
