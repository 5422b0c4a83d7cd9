//! A page in a browser: what it shows, its faults, keys and the mouse.

use std::path::Path;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};

use super::pipe::Pipe;

/// A page, in a browser of its own.
#[derive(Debug)]
pub struct Page {
    pipe: Pipe,
    session: String,
    /// Begin of the addresses that the page may ask for, and the number of events before.
    opened: (String, usize),
}

/// Keys that write no character, with their codes on Windows, by which browsers know them.
const KEYS: [(&str, u32); 9] = [
    ("Backspace", 8),
    ("ArrowLeft", 37),
    ("ArrowUp", 38),
    ("ArrowRight", 39),
    ("ArrowDown", 40),
    ("Home", 36),
    ("Escape", 27),
    ("Enter", 13),
    ("Tab", 9),
];

impl Page {
    /// An empty page without a network; `folder` is for the browser's own files.
    ///
    /// # Panics
    /// When the browser does not start.
    pub fn new(folder: &Path) -> Self {
        Self::of(Pipe::open(folder, false))
    }

    /// As [`Page::new`], with the network of the test.
    pub fn with_network(folder: &Path) -> Self {
        Self::of(Pipe::open(folder, true))
    }

    fn of(mut pipe: Pipe) -> Self {
        let target = pipe.call("", "Target.createTarget", json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let session = pipe.call("", "Target.attachToTarget", target);
        let session = session["sessionId"].as_str().unwrap().to_owned();
        let mut page = Self {
            pipe,
            session,
            opened: Default::default(),
        };
        for domain in ["Page", "Runtime", "Log", "Network"] {
            page.call(&format!("{domain}.enable"), json!({}));
        }
        page
    }

    /// Calls a method of the Chrome DevTools Protocol.
    ///
    /// # Panics
    /// When it fails.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.pipe.call(&self.session, method, params)
    }

    /// Has every page that is opened later run this script before its own.
    pub fn run_first(&mut self, script: &str) {
        let params = json!({ "source": script });
        self.call("Page.addScriptToEvaluateOnNewDocument", params);
    }

    /// Opens a file, and waits until it is loaded.
    pub fn open(&mut self, file: &Path) {
        let address = format!("file://{}", file.display());
        self.go(&address, &address);
    }

    /// Opens a page of a server, and waits until it is loaded. It may ask for whatever is at
    /// addresses that begin with `origin`.
    pub fn open_address(&mut self, origin: &str, rest: &str) {
        self.go(&format!("{origin}{rest}"), origin);
    }

    fn go(&mut self, address: &str, allowed: &str) {
        let since = self.pipe.events.len();
        self.opened = (allowed.to_owned(), since);
        let answer = self.call("Page.navigate", json!({ "url": address }));
        assert!(answer["errorText"].is_null(), "{address}: {answer}");
        self.pipe.wait_for("Page.loadEventFired", since);
    }

    /// Sets the size of the window, as of a screen of single density.
    pub fn resize(&mut self, width: u32, height: u32) {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600,
        });
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// Sets whether the user prefers dark colours.
    pub fn darken(&mut self, dark: bool) {
        let value = if dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": value }]);
        self.call(
            "Emulation.setEmulatedMedia",
            json!({ "features": features }),
        );
    }

    /// The value of an expression, or of its promise, in the page's script.
    ///
    /// # Panics
    /// When it throws.
    pub fn eval(&mut self, expression: &str) -> Value {
        let params = json!({
            "expression": expression, "returnByValue": true, "awaitPromise": true,
        });
        let mut answer = self.call("Runtime.evaluate", params);
        let thrown = &answer["exceptionDetails"];
        assert!(thrown.is_null(), "{expression}: {thrown}");
        answer["result"]["value"].take()
    }

    /// Presses a key: its name, or the character that it writes.
    ///
    /// # Panics
    /// When it has an unknown name.
    pub fn press(&mut self, key: &str) {
        let known = KEYS.iter().find(|(name, _)| *name == key);
        let text = match key {
            "Enter" => "\r",
            _ if known.is_some() => "",
            character => character,
        };
        assert!(known.is_some() || key.chars().count() == 1, "{key}");
        let code = known.map_or(0, |(_, code)| *code);
        let mut down = json!({ "type": "keyDown", "key": key, "windowsVirtualKeyCode": code });
        if !text.is_empty() {
            down["text"] = text.into();
        }
        self.call("Input.dispatchKeyEvent", down);
        let up = json!({ "type": "keyUp", "key": key, "windowsVirtualKeyCode": code });
        self.call("Input.dispatchKeyEvent", up);
    }

    /// Clicks the middle of the first element of a selector, which is scrolled into view.
    ///
    /// # Panics
    /// When there is none.
    pub fn click(&mut self, selector: &str) {
        let at = self.middle_of(selector);
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({
                "type": kind, "x": at.0, "y": at.1, "button": "left", "clickCount": 1,
            });
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    /// Turns the wheel over an element by this many pixels, with Ctrl or without.
    pub fn wheel(&mut self, selector: &str, down: f64, control: bool) {
        let at = self.middle_of(selector);
        let modifiers = if control { 2 } else { 0 };
        let event = json!({
            "type": "mouseWheel", "x": at.0, "y": at.1, "deltaX": 0, "deltaY": down,
            "modifiers": modifiers,
        });
        self.call("Input.dispatchMouseEvent", event);
    }

    /// Drags from the middle of an element to the right.
    pub fn drag(&mut self, selector: &str, right: f64) {
        let (x, y) = self.middle_of(selector);
        for (kind, x) in [
            ("mousePressed", x),
            ("mouseMoved", x + right),
            ("mouseReleased", x + right),
        ] {
            let event = json!({
                "type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1,
            });
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    fn middle_of(&mut self, selector: &str) -> (f64, f64) {
        let selector = Value::from(selector);
        let at = self.eval(&format!(
            "(() => {{ const element = document.querySelector({selector});
               element.scrollIntoView({{ block: 'center', behavior: 'instant' }});
               const box = element.getBoundingClientRect();
               return [box.left + box.width / 2, box.top + box.height / 2]; }})()"
        ));
        (at[0].as_f64().unwrap(), at[1].as_f64().unwrap())
    }

    /// Waits until an expression is true.
    ///
    /// # Panics
    /// When it does not become true in 60 s.
    pub fn until(&mut self, expression: &str) {
        let waiting = format!(
            "new Promise((done, fail) => {{ const since = Date.now(); (function look() {{
               if ({expression}) done(true);
               else if (Date.now() - since > 60000) fail('not in time');
               else setTimeout(look, 10); }})(); }})"
        );
        self.eval(&waiting);
    }

    /// Errors and warnings on the console, exceptions, and requests for anything else than
    /// the page may ask for.
    pub fn faults(&mut self) -> Vec<String> {
        // What has happened has arrived before this answer.
        self.eval("new Promise(done => requestAnimationFrame(() => done(true)))");
        let (allowed, since) = &self.opened;
        let events = self.pipe.events[*since..].iter();
        let text = |v: &Value| v.to_string();
        let faults = events.filter_map(|event| {
            let params = &event["params"];
            match event["method"].as_str()? {
                "Log.entryAdded" => Some(text(&params["entry"])),
                "Runtime.exceptionThrown" => Some(text(&params["exceptionDetails"])),
                "Runtime.consoleAPICalled" => Some(text(&params["args"])),
                "Network.requestWillBeSent" => {
                    let asked = params["request"]["url"].as_str()?;
                    (!asked.starts_with(allowed)).then(|| format!("a request: {asked}"))
                }
                _ => None,
            }
        });
        faults.collect()
    }

    /// Writes what the page shows, from its top to its end, as PNG.
    pub fn save_picture(&mut self, file: &Path) {
        let size = self.call("Page.getLayoutMetrics", json!({}));
        self.save_part(file, &size["cssContentSize"]);
    }

    /// Writes the top of the page as PNG, so many pixels high.
    pub fn save_top(&mut self, file: &Path, height: u32) {
        let size = self.call("Page.getLayoutMetrics", json!({}));
        let width = &size["cssLayoutViewport"]["clientWidth"];
        self.save_part(file, &json!({ "width": width, "height": height }));
    }

    fn save_part(&mut self, file: &Path, size: &Value) {
        let clip = json!({
            "x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1,
        });
        let shot = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let shot = self.call("Page.captureScreenshot", shot);
        let text = shot["data"].as_str().unwrap();
        std::fs::write(file, BASE64_STANDARD.decode(text).unwrap()).unwrap();
    }
}
