//! The real daemons on loopback: what `top` and the page's stream say of a download over two paths.

use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use mpbond::config::{HelperConfig, PrimaryConfig, ProxyConfig, TrustFile};
use mpbond::pairing::{Book, Own, call};
use mpbond::reload::Configured;
use mpbond_net::pairing::{Introduction, Role};
use mpbond_net::tls::Trust;
use mpbond_net::{DeviceId, Identity};
use mpbond_testing::free_address;
use serde_json::Value;

use crate::console::{CONSOLE, Console};
use crate::page::open_in;

/// Something that a mode has an effect on, and none on the tests: the links are of one cost.
pub const POLICY: &str =
    "[[link]]\nname = \"wifi\"\ncost = 1\n[[link]]\nname = \"phone\"\ncost = 1\n";

/// Password of the HTTP front.
pub const PASSWORD: &str = "open-sesame-4711";

struct Only(DeviceId);

impl Trust for Only {
    fn trusts(&self, id: &DeviceId) -> bool {
        *id == self.0
    }
}

/// An origin that sends zeroes as long as somebody reads.
fn origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // Slow enough for a busy machine: 4 MB/s.
            thread::spawn(move || {
                while stream.write_all(&[0; 40_000]).is_ok() {
                    thread::sleep(Duration::from_millis(10));
                }
            });
        }
    });
    address
}

/// Starts a primary with an own path and a helper, and their proxy, with sockets in `folder`. They
/// end with the test's process. Returns the address of the SOCKS server.
pub fn start(folder: &Path) -> SocketAddr {
    let id = |name: &str| {
        let file = folder.join(format!("{name}.pem"));
        Identity::load_or_create(file).unwrap().id()
    };
    let [proxy, helper, primary] = ["proxy", "helper", "primary"].map(id);
    let (at_proxy, at_helper, socks5) = (free_address(), free_address(), free_address());
    let write = |name: &str, text: String| {
        let file = folder.join(format!("{name}.toml"));
        let head = format!(
            "identity = \"{name}.pem\"\nstatus_socket = \"{name}.sock\"\nsandbox = false\n"
        );
        std::fs::write(&file, head + &text).unwrap();
        file
    };
    let file = write(
        "proxy",
        // Both links carry bytes in turn: here, the own one alone would be fast enough.
        format!(
            "listen = \"{at_proxy}\"\nscheduler = \"round-robin\"\n\
             [destinations]\nallow = [\"127.0.0.0/8\"]\n"
        ),
    );
    let config = ProxyConfig::load(&file).unwrap();
    thread::spawn(move || mpbond::proxy::run(config, Arc::new(Only(primary))).unwrap());
    let text = format!(
        "name = \"phone\"\nlisten = \"{at_helper}\"\nproxies = [\"{at_proxy}\"]\n\
         max_bytes_per_month = \"1 GB\"\n"
    );
    let config = HelperConfig::load(&write("helper", text)).unwrap();
    thread::spawn(move || mpbond::helper::run(config, Arc::new(Only(primary))).unwrap());
    let text = format!(
        "policy = \"policy.toml\"\n[proxy]\naddress = \"{at_proxy}\"\nid = \"{proxy}\"\n[[path]]\nname = \"wifi\"\n\
         [[helper]]\nname = \"phone\"\naddress = \"{at_helper}\"\nid = \"{helper}\"\n\
         [socks5]\nlisten = \"{socks5}\"\n\
         [http]\nlisten = \"{http}\"\ncredentials = \"http.password\"\n",
        http = free_address()
    );
    let password = folder.join("http.password");
    std::fs::write(&password, format!("anna:{PASSWORD}\n")).unwrap();
    std::fs::set_permissions(password, Permissions::from_mode(0o600)).unwrap();
    std::fs::write(folder.join("policy.toml"), POLICY).unwrap();
    let file = write("primary", text);
    thread::spawn(move || {
        let config = Configured::from_file(file, PrimaryConfig::load);
        mpbond::primary::run(config.unwrap()).unwrap();
    });
    socks5
}

fn top(socket: &Path) -> Option<Value> {
    let outcome = CONSOLE.run(&["top", "--once", "--json", "--socket", socket.to_str()?]);
    (outcome.code == 0).then(|| serde_json::from_str(&outcome.stdout).unwrap())
}

/// A download through the primary that goes on.
pub fn download(socks5: SocketAddr, from: SocketAddr) {
    let mut stream = TcpStream::connect(socks5).unwrap();
    let port = from.port().to_be_bytes();
    stream.write_all(&[5, 1, 0]).unwrap();
    stream.read_exact(&mut [0; 2]).unwrap();
    let request = [5, 1, 0, 1, 127, 0, 0, 1, port[0], port[1]];
    stream.write_all(&request).unwrap();
    stream.read_exact(&mut [0; 10]).unwrap();
    thread::spawn(move || while matches!(stream.read(&mut [0; 65536]), Ok(1..)) {});
}

/// The first result of `top` for which `wanted` holds.
pub fn until(socket: &Path, wanted: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let frame = top(socket);
        match frame {
            Some(frame) if wanted(&frame) => return frame,
            other => assert!(Instant::now() < deadline, "it stays like this: {other:#?}"),
        }
    }
}

#[test]
fn a_download_over_two_paths_is_shown_at_all_three_daemons() {
    let folder = tempfile::tempdir().unwrap();
    let socket = |role: &str| folder.path().join(format!("{role}.sock"));
    let socks5 = start(folder.path());
    let are_up = |frame: &Value| {
        let paths = frame["paths"].as_array().unwrap();
        paths.len() == 2 && paths.iter().all(|p| p["state"] == "up")
    };
    until(&socket("primary"), are_up);
    let from = origin();
    download(socks5, from);
    let moves = |frame: &Value| {
        frame["total"]["down"]
            .as_f64()
            .is_some_and(|rate| rate > 1e6)
    };
    let frame = until(&socket("primary"), moves);
    let names: Vec<_> = frame["paths"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| &p["name"])
        .collect();
    assert_eq!(names, ["wifi", "phone"]);
    assert_eq!(frame["paths"][1]["kind"], "helper");
    let of = &frame["streams"]["applications"][0];
    let uid = nix::unistd::geteuid().as_raw();
    assert_eq!(of["application"]["uid"], uid, "{of}");
    let stream = &of["groups"][0];
    assert_eq!(stream["destination"], from.to_string());
    assert!(stream["rate"]["down"].as_f64().unwrap() > 1e6, "{stream}");
    let proxy = until(&socket("proxy"), moves);
    assert_eq!(proxy["daemon"]["role"], "proxy");
    assert_eq!(proxy["streams"]["open"], 1);
    assert!(proxy["memory"]["max_bytes"].as_u64().unwrap() > 0);
    let helper = until(&socket("helper"), |frame| {
        frame["daemon"]["role"] == "helper"
    });
    assert_eq!(helper["budget"]["max_bytes"], 1_000_000_000);
    assert_eq!(helper["paths"][0]["kind"], "primary");
    // The console's server says the same.
    let console = Console::start(socket("primary").to_str().unwrap());
    let mut connection = console.connect();
    let head = format!(
        "GET /stream HTTP/1.1\r\nHost: localhost:{}\r\n",
        console.port
    );
    let request = format!("{head}{}\r\n", console.bearer());
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    let mut block = [0; 65536];
    while !answer.contains("\"sample\":{") {
        let octets = connection.read(&mut block).unwrap();
        assert_ne!(octets, 0, "{answer}");
        answer.push_str(&String::from_utf8_lossy(&block[..octets]));
    }
    assert!(
        answer.contains(&format!("\"destination\":\"{from}\"")),
        "{answer}"
    );
}

/// A device that lends its link calls with a code, and agrees. The name is one of a web page.
fn pair(folder: &Path, address: SocketAddr, code: &str) {
    let key = folder.join("tablet.pem");
    let own = Own {
        identity: Identity::load_or_create(&key).unwrap(),
        introduction: Introduction {
            role: Role::Helper,
            name: TABLET.to_owned(),
            service: Some(free_address()),
        },
        book: Book::Trust(TrustFile::beside(&key)),
    };
    let code = code.parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    let called = async { call(&own, &[address.into()], None, &code, async |_| true).await };
    runtime.block_on(called).unwrap();
}

const TABLET: &str = "<b>tablet</b>";

#[test]
fn a_person_switches_links_and_pairs_a_device_on_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("primary.sock");
    start(folder.path());
    let has =
        |at: usize, state: &'static str| move |frame: &Value| frame["paths"][at]["state"] == state;
    until(&socket, has(1, "up"));
    let console = Console::start(socket.to_str().unwrap());
    let Some(mut page) = open_in(folder.path(), &console, 1280, 900) else {
        return;
    };
    page.until("document.querySelectorAll('#paths .use:not([hidden])').length === 2");
    let choose = |at: usize, mode: &str| {
        format!(
            "(() => {{ const use = document.querySelectorAll('#paths .use')[{at}];
                use.value = '{mode}'; use.dispatchEvent(new Event('change')); return 1 }})()"
        )
    };
    page.eval(&choose(1, "off"));
    until(&socket, has(1, "off"));
    page.until("document.querySelectorAll('#paths .pill')[1].textContent === 'off'");
    assert_eq!(page.faults(), Vec::<String>::new());
    // The last one is kept, with the reason.
    page.eval(&choose(0, "off"));
    page.until(
        "/^wifi: this is the only link/.test(document.getElementById('refusal').textContent)",
    );
    page.until("document.querySelector('#paths .use').value === 'bonded'");
    page.eval(&choose(1, "standby"));
    until(&socket, has(1, "backup"));
    page.until("document.getElementById('refusal').hidden");

    // An answer from before a change that comes after it is not shown.
    page.eval(
        "(() => { const ask = fetch; window.fetch = async (...question) => {
            const answer = await ask(...question);
            if (question[0] === '/v1/links') await new Promise((done) => { window.late = done; });
            return answer; }; window.ask = ask; return 1 })()",
    );
    page.until("!!window.late");
    page.eval(&choose(1, "off"));
    until(&socket, has(1, "off"));
    page.eval("(window.fetch = ask, late(), 1)");
    page.until("!document.querySelectorAll('#paths .use')[1].disabled");
    thread::sleep(Duration::from_millis(1500));
    let shown = page.eval("document.querySelectorAll('#paths .use')[1].value");
    assert_eq!(shown, "off");
    page.eval(&choose(1, "standby"));
    until(&socket, has(1, "backup"));

    // The mode of the policy.
    page.until("document.getElementById('mode').value === 'auto'");
    let saver = "(() => { const mode = document.getElementById('mode'); mode.value = 'saver';
        mode.dispatchEvent(new Event('change')); return 1 })()";
    page.eval(saver);
    page.until("/another policy is in force/.test(document.getElementById('events').textContent)");
    page.until("!document.getElementById('mode').disabled");
    assert_eq!(page.eval("document.getElementById('mode').value"), "saver");

    // The usual port is taken: by this test, or by another program.
    let _taken = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 4435));
    page.click("#pairing-begin");
    page.until("/4435/.test(document.getElementById('refusal').textContent)");
    let body = "{\"listen\": \"127.0.0.1:0\"}";
    let answer = console.request(&format!(
        "POST /v1/pairing HTTP/1.1\r\nHost: localhost:{}\r\n{}Sec-Fetch-Site: same-origin\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        console.port,
        console.bearer(),
        body.len()
    ));
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let shown = "document.getElementById('pairing-shown').textContent";
    page.until(&format!("/^mpbond pair --role helper 127/.test({shown})"));
    let line = page.eval(shown);
    let words: Vec<&str> = line.as_str().unwrap().split(' ').collect();
    let (address, code) = (words[4].parse().unwrap(), words[5].to_owned());
    let at = folder.path().to_owned();
    let caller = thread::spawn(move || pair(&at, address, &code));
    page.until("!document.getElementById('pairing-trust').hidden");
    let text = page.eval("document.getElementById('pairing-text').textContent");
    assert!(text.as_str().unwrap().starts_with(TABLET), "{text}");
    let tablet = Identity::load_or_create(folder.path().join("tablet.pem")).unwrap();
    assert_eq!(page.eval(shown), tablet.id().to_string());
    page.until(&format!(
        "document.getElementById('events').textContent.includes('{TABLET} has called with the code')"
    ));
    page.click("#pairing-trust");
    caller.join().unwrap();
    page.until(&format!("/name = \"<b>tablet<.b>\"/.test({shown})"));
    page.until("document.querySelectorAll('#paths li').length === 3");
    // The device goes again, at the second click.
    let buttons = "[...document.querySelectorAll('.remove:not([hidden])')]";
    page.until(&format!("{buttons}.length === 2"));
    let press = format!("{buttons}[1].click(), 1");
    page.eval(&press);
    assert_eq!(
        page.eval(&format!("{buttons}[1].textContent")),
        "Confirm removal"
    );
    page.eval(&press);
    page.until("document.querySelectorAll('#paths li').length === 2");
    let advice = format!("mpbond unpair {}", tablet.id());
    page.until(&format!(
        "document.getElementById('removed').textContent.endsWith('{advice}')"
    ));
    page.click("#pairing-cancel");
    page.until("document.getElementById('pairing').dataset.state === 'none'");
}

#[test]
fn the_page_says_by_which_rule_and_over_which_links_a_stream_goes() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("primary.sock");
    let socks5 = start(folder.path());
    let are_up = |frame: &Value| {
        let paths = frame["paths"].as_array().unwrap();
        paths.len() == 2 && paths.iter().all(|p| p["state"] == "up")
    };
    until(&socket, are_up);
    let (kept, other) = (origin(), origin());
    let rule = format!(
        "[policy]\nzone = \"UTC\"\n[[rule]]\nname = \"<b>kept</b>\"\nport = {}\n\
         set = {{ paths = [\"wifi\"], class = \"background\" }}\n\
         [[link]]\nname = \"phone\"\ncap = {{ bytes = \"1 GB\", warn = \"80%\" }}\n",
        kept.port()
    );
    let mut api = UnixStream::connect(socket.with_extension("api")).unwrap();
    api.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let length = rule.len();
    let head =
        format!("PUT /v1/policy HTTP/1.0\r\nIf-Match: *\r\nContent-Length: {length}\r\n\r\n");
    api.write_all((head + &rule).as_bytes()).unwrap();
    let mut answer = String::new();
    api.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.0 200 "), "{answer}");
    download(socks5, kept);
    download(socks5, other);
    let console = Console::start(socket.to_str().unwrap());
    let Some(mut page) = open_in(folder.path(), &console, 1280, 900) else {
        return;
    };
    // Both streams are of this process.
    page.until("document.querySelectorAll('.fold').length === 1");
    page.click(".fold");
    let buttons = "[...document.querySelectorAll('.ask:not([hidden])')]";
    page.until(&format!("{buttons}.length === 2"));
    let lines = "document.getElementById('why-lines').textContent";
    let ask = |of: SocketAddr| {
        format!("{buttons}.find((b) => b.about.destination === '{of}').click(), 1")
    };
    page.eval(&ask(kept));
    page.until(&format!("{lines}.includes('phone')"));
    let text = page
        .eval(lines)
        .as_str()
        .unwrap()
        .replace(['\u{2068}', '\u{2069}'], "");
    assert!(
        text.starts_with("Rule <b>kept</b> in line 3 of the policy selects it."),
        "{text}"
    );
    assert!(
        text.contains("Class background; all links together."),
        "{text}"
    );
    assert!(
        text.contains("wifi: may carry its bytes; has carried"),
        "{text}"
    );
    assert!(
        text.contains("phone: not used: its rule does not allow it."),
        "{text}"
    );
    page.eval(&ask(other));
    page.until(&format!("{lines}.startsWith('No rule selects it')"));
    let text = page
        .eval(lines)
        .as_str()
        .unwrap()
        .replace(['\u{2068}', '\u{2069}'], "");
    let passed = "Not rule <b>kept</b> in line 3: its condition port does not hold.";
    assert!(text.ends_with(passed), "{text}");
    page.click("#why-close");
    page.until("document.getElementById('why').hidden");
    assert!(
        page.eval("document.activeElement.className === 'ask'")
            .as_bool()
            .unwrap()
    );
    // What the phone has carried, by day.
    page.until("document.querySelectorAll('#usage-cards li.card').length === 1");
    page.until("/phone/.test(document.getElementById('usage-cards').textContent)");
    page.until(
        "parseFloat(document.querySelector('.days li:last-child .fill').style.height) === 100",
    );
    assert_eq!(page.faults(), Vec::<String>::new());
}
