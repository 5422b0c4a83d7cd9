//! Pages as lists of objects, in text that people write.
//!
//! ```text
//! # bytes  host  asked for
//!   18000  www   at 0ms
//!    9000  www   after 1
//!   52000  cdn   after 1 + 20ms
//!     400  ads   at 1.5s
//! ```
//!
//! A line an object. It is asked for at a time from the page's start on, or
//! when an object further up, by its number from 1, is there; a time behind
//! that is what a browser does with it first. Empty lines and lines that begin
//! with `#` are skipped, and not counted as objects.

use std::time::Duration;

use mpbond_sim::application::page::{Begins, PageObject};
use mpbond_units::duration_text;

/// Maximum number of objects of a page.
pub(crate) const MAX_OBJECTS: usize = 10_000;
/// Maximum number of hosts, each of which has its own connections.
pub(crate) const MAX_HOSTS: usize = 50;
/// Maximum delay of an object.
const MAX_WAIT: Duration = Duration::from_secs(600);

/// Reads a list.
///
/// # Errors
/// One line naming the file and the wrong line.
pub(crate) fn parse(file: &str, text: &str) -> Result<Vec<PageObject>, String> {
    let mut hosts = Hosts::default();
    let mut objects = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let at = |reason: String| format!("{file}:{}: {reason}", index + 1);
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [bytes, host, begins @ ..] = fields.as_slice() else {
            return Err(at("not `BYTES HOST at TIME` or `BYTES HOST after N`".into()));
        };
        let bytes = bytes
            .parse()
            .map_err(|_| at(format!("\"{}\" is not a number of bytes", short(bytes))))?;
        let begins = begins_of(begins, objects.len()).map_err(&at)?;
        let host = hosts.number(host).map_err(&at)?;
        objects.push(PageObject {
            bytes,
            host,
            begins,
        });
        if objects.len() > MAX_OBJECTS {
            return Err(at(format!("a page has at most {MAX_OBJECTS} objects")));
        }
    }
    if objects.is_empty() {
        return Err(format!("{file}: it contains no object"));
    }
    Ok(objects)
}

/// Hosts by name, in order of appearance.
#[derive(Default)]
pub(super) struct Hosts(Vec<String>);

impl Hosts {
    /// The number of host `name`.
    ///
    /// # Errors
    /// When there are too many hosts.
    pub fn number(&mut self, name: &str) -> Result<usize, String> {
        if let Some(place) = self.0.iter().position(|host| host == name) {
            return Ok(place);
        }
        if self.0.len() == MAX_HOSTS {
            return Err(format!("a page has at most {MAX_HOSTS} hosts"));
        }
        self.0.push(name.to_owned());
        Ok(self.0.len() - 1)
    }
}

fn begins_of(fields: &[&str], objects: usize) -> Result<Begins, String> {
    let time = |text: &str| {
        let time = duration_text::parse(text).map_err(|e| e.to_string())?;
        if time > MAX_WAIT {
            return Err(format!("\"{}\" is longer than ten minutes", short(text)));
        }
        Ok(time)
    };
    let after = |number: &str, delay| {
        let wanted = number.parse::<usize>().ok();
        let known = wanted.filter(|n| (1..=objects).contains(n));
        let object = known.ok_or_else(|| {
            let number = short(number);
            format!("\"{number}\" must be the number of an object above: 1 to {objects}")
        })? - 1;
        Ok(Begins::After { object, delay })
    };
    match fields {
        ["at", text] => Ok(Begins::At(time(text)?)),
        ["after", number] => after(number, Duration::ZERO),
        ["after", number, "+", text] => after(number, time(text)?),
        _ => Err("expected `at TIME`, `after N` or `after N + TIME`".into()),
    }
}

/// A quotation of wrong text for errors.
pub(super) fn short(text: &str) -> String {
    let short: String = text.chars().take(40).collect();
    short.escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read() {
        let text = "# a page\n\n 18000 www at 0ms\n9 cdn after 1\n7 www after 2 + 20ms\n";
        let objects = parse("p", text).unwrap();
        let after = |object, ms| Begins::After {
            object,
            delay: Duration::from_millis(ms),
        };
        let begins: Vec<_> = objects.iter().map(|o| o.begins).collect();
        assert_eq!(
            begins,
            [Begins::At(Duration::ZERO), after(0, 0), after(1, 20)]
        );
        let rest: Vec<_> = objects.iter().map(|o| (o.bytes, o.host)).collect();
        assert_eq!(rest, [(18_000, 0), (9, 1), (7, 0)]);
    }

    #[test]
    fn errors_name_file_and_line() {
        for (text, want) in [
            ("", "p: it contains no object"),
            ("5\n", "p:1: not `BYTES HOST at TIME`"),
            (
                "# x\nfive www at 0s\n",
                "p:2: \"five\" is not a number of bytes",
            ),
            ("5 www\n", "p:1: expected `at TIME`"),
            ("5 www at noon\n", "p:1: "),
            (
                "5 www at 700s\n",
                "p:1: \"700s\" is longer than ten minutes",
            ),
            (
                "5 www after 1\n",
                "p:1: \"1\" must be the number of an object above: 1 to 0",
            ),
            (
                "5 www at 0s\n5 www after 2\n",
                "p:2: \"2\" must be the number of an object",
            ),
            (
                "5 www at 0s\n5 www after 0\n",
                "p:2: \"0\" must be the number of an object",
            ),
            (
                "5 www at 0s\n5 www after 1 20ms\n",
                "p:2: expected `at TIME`",
            ),
        ] {
            let e = parse("p", text).unwrap_err();
            assert!(e.starts_with(want), "{text:?}: {e}");
            assert!(!e.contains('\n'), "{e}");
        }
        let many: String = (0..=MAX_HOSTS).map(|i| format!("1 h{i} at 0s\n")).collect();
        let e = parse("p", &many).unwrap_err();
        assert_eq!(e, "p:51: a page has at most 50 hosts");
    }
}
