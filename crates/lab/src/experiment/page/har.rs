//! Pages from HTTP archives (HAR 1.2), as browsers save them.
//!
//! An archive has the start of each request, not its cause. A request is taken to depend on the one
//! that had ended last before its start, and to follow it after the same delay; so a page that
//! loads faster also requests faster.

use std::time::Duration;

use mpbond_sim::application::page::{Begins, PageObject};
use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::list::{Hosts, MAX_OBJECTS, short};

/// The fields of an archive that are used.
#[derive(Deserialize)]
struct Archive {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    started_date_time: String,
    /// Duration of the request in milliseconds; -1 where unknown.
    #[serde(default)]
    time: f64,
    request: Request,
    response: Response,
}

#[derive(Deserialize)]
struct Request {
    url: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    /// Size on the wire; -1 or 0 where unknown, or where nothing was fetched.
    #[serde(default)]
    body_size: i64,
    #[serde(default)]
    content: Body,
}

#[derive(Default, Deserialize)]
struct Body {
    /// Decoded size.
    #[serde(default)]
    size: i64,
}

/// A request, in nanoseconds since the start of the first one.
struct Timed {
    begin_ns: i128,
    end_ns: i128,
    bytes: u64,
    host: usize,
}

/// Reads an archive. Requests that are not HTTP are left out; those without a size on the wire,
/// such as cached ones, count with their decoded size.
///
/// # Errors
/// One line naming the file and the wrong line or entry.
pub(crate) fn parse(file: &str, text: &str) -> Result<Vec<PageObject>, String> {
    let archive: Archive = serde_json::from_str(text).map_err(|e| {
        let reason = e.to_string();
        // serde_json appends line and column to the reason.
        let words = reason.split(" at line ").next().unwrap_or_default();
        format!("{file}:{}: not an HTTP archive: {words}", e.line())
    })?;
    let mut hosts = Hosts::default();
    let mut all = Vec::new();
    let mut first: Option<OffsetDateTime> = None;
    for (index, entry) in archive.log.entries.iter().enumerate() {
        let at = |reason: String| format!("{file}: entry {}: {reason}", index + 1);
        let Some(host) = host_of(&entry.request.url) else {
            continue;
        };
        let begin = OffsetDateTime::parse(&entry.started_date_time, &Rfc3339).map_err(|_| {
            let text = short(&entry.started_date_time);
            at(format!("cannot read startedDateTime \"{text}\""))
        })?;
        let first = *first.get_or_insert(begin);
        let begin_ns = (begin - first).whole_nanoseconds();
        let took_ns = (entry.time.clamp(0.0, 600_000.0) * 1e6) as i128;
        let size = [entry.response.body_size, entry.response.content.size];
        let bytes = size
            .into_iter()
            .find_map(|n| u64::try_from(n).ok().filter(|n| *n > 0));
        all.push(Timed {
            begin_ns,
            end_ns: begin_ns + took_ns,
            bytes: bytes.unwrap_or(0),
            host: hosts.number(host).map_err(at)?,
        });
        if all.len() > MAX_OBJECTS {
            return Err(at(format!("a page has at most {MAX_OBJECTS} objects")));
        }
    }
    if all.is_empty() {
        return Err(format!("{file}: it contains no HTTP request"));
    }
    Ok(objects(all))
}

fn objects(mut all: Vec<Timed>) -> Vec<PageObject> {
    all.sort_by_key(|timed| timed.begin_ns);
    let origin = all.first().map_or(0, |timed| timed.begin_ns);
    let span = |ns: i128| Duration::from_nanos(u64::try_from(ns).unwrap_or(0));
    let begins = |place: usize, timed: &Timed| {
        let before = all.iter().take(place).enumerate();
        let over = before.filter(|(_, other)| other.end_ns <= timed.begin_ns);
        match over.max_by_key(|(_, other)| other.end_ns) {
            Some((object, other)) => Begins::After {
                object,
                delay: span(timed.begin_ns - other.end_ns),
            },
            None => Begins::At(span(timed.begin_ns - origin)),
        }
    };
    all.iter()
        .enumerate()
        .map(|(place, timed)| PageObject {
            bytes: timed.bytes,
            host: timed.host,
            begins: begins(place, timed),
        })
        .collect()
}

/// Host and port of an HTTP URL; `None` for other URLs.
fn host_of(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once("://")?;
    let http = ["http", "https"]
        .iter()
        .any(|s| scheme.eq_ignore_ascii_case(s));
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    (http && !host.is_empty()).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(at: &str, time: &str, url: &str, size: &str) -> String {
        format!(
            "{{\"startedDateTime\": \"2024-10-01T12:00:{at}\", \"time\": {time}, \
             \"request\": {{\"method\": \"GET\", \"url\": \"{url}\"}}, \
             \"response\": {{\"status\": 200, {size}}}}}"
        )
    }

    fn archive(entries: &[String]) -> String {
        let entries = entries.join(",\n");
        format!("{{\"log\": {{\"version\": \"1.2\", \"entries\": [{entries}]}}}}")
    }

    #[test]
    fn requests_wait_for_what_had_ended_last() {
        let text = archive(&[
            entry(
                "00.000Z",
                "100",
                "https://www.example/",
                "\"bodySize\": 5000",
            ),
            entry(
                "00.120Z",
                "80.5",
                "https://www.example/a.js",
                "\"bodySize\": 700",
            ),
            // Another time zone, and a size that only the content has.
            entry(
                "00.150+00:00",
                "10",
                "https://cdn.example:444/b.png?x=/",
                "\"bodySize\": -1, \"content\": {\"size\": 900}",
            ),
            entry("00.165Z", "-1", "HTTP://www.example/c", "\"bodySize\": 0"),
            entry("00.010Z", "5", "data:text/plain,x", "\"bodySize\": 1"),
            // While the first one is under way.
            entry(
                "00.050Z",
                "400",
                "https://www.example/d",
                "\"bodySize\": 40",
            ),
        ]);
        let objects = parse("p.har", &text).unwrap();
        let after = |object, ms| Begins::After {
            object,
            delay: Duration::from_millis(ms),
        };
        let seen: Vec<_> = objects
            .iter()
            .map(|o| (o.bytes, o.host, o.begins))
            .collect();
        assert_eq!(
            seen,
            [
                (5000, 0, Begins::At(Duration::ZERO)),
                (40, 0, Begins::At(Duration::from_millis(50))),
                (700, 0, after(0, 20)),
                (900, 1, after(0, 50)),
                (0, 0, after(3, 5)),
            ]
        );
    }

    #[test]
    fn errors_name_the_place() {
        let bad_time = entry("0", "1", "http://h/", "\"bodySize\": 1");
        for (text, want) in [
            ("{", "p:1: not an HTTP archive: EOF"),
            (
                "{\"log\":\n{}}",
                "p:2: not an HTTP archive: missing field `entries`",
            ),
            (&archive(&[]), "p: it contains no HTTP request"),
            (
                &archive(&[bad_time]),
                "p: entry 1: cannot read startedDateTime",
            ),
        ] {
            let e = parse("p", text).unwrap_err();
            assert!(e.starts_with(want) && !e.contains('\n'), "{text}: {e}");
        }
    }
}
