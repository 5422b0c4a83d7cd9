//! The files of the page, which are part of the program, and the headers of every answer.

use hyper::HeaderMap;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};

/// A file: path, type, content.
type File = (&'static str, &'static str, &'static str);

const SCRIPT: &str = "text/javascript; charset=utf-8";

const FILES: [File; 13] = [
    (
        "/",
        "text/html; charset=utf-8",
        include_str!("../../page/index.html"),
    ),
    (
        "/style.css",
        "text/css; charset=utf-8",
        include_str!("../../page/style.css"),
    ),
    (
        "/icon.svg",
        "image/svg+xml",
        include_str!("../../page/icon.svg"),
    ),
    ("/main.js", SCRIPT, include_str!("../../page/main.js")),
    ("/stream.js", SCRIPT, include_str!("../../page/stream.js")),
    ("/chart.js", SCRIPT, include_str!("../../page/chart.js")),
    ("/views.js", SCRIPT, include_str!("../../page/views.js")),
    (
        "/controls.js",
        SCRIPT,
        include_str!("../../page/controls.js"),
    ),
    (
        "/elements.js",
        SCRIPT,
        include_str!("../../page/elements.js"),
    ),
    ("/usage.js", SCRIPT, include_str!("../../page/usage.js")),
    ("/bundle.js", SCRIPT, include_str!("../../page/bundle.js")),
    ("/why.js", SCRIPT, include_str!("../../page/why.js")),
    ("/text.js", SCRIPT, include_str!("../../page/text.js")),
];

/// Only files of this server; no script made of text; in no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

/// Type and content of the file at a path.
pub(super) fn find(path: &str) -> Option<(&'static str, &'static str)> {
    let file = FILES.iter().find(|file| file.0 == path)?;
    Some((file.1, file.2))
}

/// Adds the headers that every answer has, among them the methods of what was asked for. There are
/// none of cross-origin sharing, and no cookies.
pub(super) fn add_headers(headers: &mut HeaderMap, methods: &'static str) {
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
        (ALLOW, methods),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    for (name, value) in [
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
