//! Numbers as text, in few columns.

/// A rate in bits per second, of bytes per second.
pub(super) fn rate(bytes: f64) -> String {
    scaled(bytes * 8.0, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"])
}

/// A number of bytes.
pub(super) fn bytes(count: u64) -> String {
    scaled(count as f64, ["B", "kB", "MB", "GB"])
}

/// Three digits and a unit.
fn scaled(mut value: f64, units: [&str; 4]) -> String {
    let mut unit = 0;
    while value >= 999.5 && unit < units.len() - 1 {
        value /= 1000.0;
        unit += 1;
    }
    let digits = match value {
        _ if unit == 0 => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {}", units[unit])
}

/// A delay.
pub(super) fn milliseconds(ms: f64) -> String {
    if ms < 0.995 {
        format!("{ms:.2} ms")
    } else if ms < 9.95 {
        format!("{ms:.1} ms")
    } else {
        format!("{ms:.0} ms")
    }
}

/// A share, as percentage.
pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A span of time in its two largest units.
pub(super) fn span(seconds: f64) -> String {
    let s = seconds.max(0.0) as u64;
    match s {
        0..60 => format!("{s} s"),
        60..3600 => format!("{} min {} s", s / 60, s % 60),
        3600..86400 => format!("{} h {} min", s / 3600, s % 3600 / 60),
        _ => format!("{} d {} h", s / 86400, s % 86400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        for (value, expected) in [
            (0.0, "0 bit/s"),
            (12.4, "99 bit/s"),
            (125.0, "1.00 kbit/s"),
            (1_562_500.0, "12.5 Mbit/s"),
            (124_937_500.0, "1.00 Gbit/s"),
            (1e12, "8000 Gbit/s"),
        ] {
            assert_eq!(rate(value), expected);
        }
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1_234_567), "1.23 MB");
        assert_eq!(span(59.9), "59 s");
        assert_eq!(span(3725.0), "1 h 2 min");
        assert_eq!(span(90_000.0), "1 d 1 h");
    }
}
