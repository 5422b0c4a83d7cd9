//! Quantities for people: three digits are enough to compare by.
//!
//! Sizes have decimal units, as rates have: 10 MB take 8 s at 10 Mbit/s, and a budget of "5 GB" is
//! shown as 5.00 GB.

const STEPS: [(f64, &str); 4] = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];

/// "512 B", "1.50 MB".
pub fn bytes(bytes: u64) -> String {
    let value = bytes as f64;
    match STEPS.iter().find(|(step, _)| value >= *step) {
        Some((step, unit)) => format!("{} {unit}", three_digits(value / step)),
        None => format!("{bytes} B"),
    }
}

/// "7.95 Mbit/s", "2.40 Gbit/s".
pub fn rate(mbps: f64) -> String {
    if mbps >= 1000.0 {
        return format!("{} Gbit/s", three_digits(mbps / 1e3));
    }
    format!("{} Mbit/s", three_digits(mbps))
}

/// "54.1 ms", "2.40 s".
pub fn millis(ms: f64) -> String {
    if ms >= 1000.0 {
        format!("{} s", three_digits(ms / 1e3))
    } else {
        format!("{} ms", three_digits(ms))
    }
}

/// "42 s", "3 min 20 s", "2 h 5 min", "3 d 4 h"; a second part that is zero is left out, as in
/// "1 d".
pub fn span(seconds: f64) -> String {
    let s = seconds.max(0.0) as u64;
    let (whole, rest) = match s {
        0..60 => return format!("{s} s"),
        60..3600 => ((s / 60, "min"), (s % 60, "s")),
        3600..86_400 => ((s / 3600, "h"), (s % 3600 / 60, "min")),
        _ => ((s / 86_400, "d"), (s % 86_400 / 3600, "h")),
    };
    match rest {
        (0, _) => format!("{} {}", whole.0, whole.1),
        (rest, unit) => format!("{} {} {rest} {unit}", whole.0, whole.1),
    }
}

/// "0.42", "54.1", "2400": for columns whose heading has the unit.
pub fn three_digits(value: f64) -> String {
    if value >= 99.95 {
        format!("{value:.0}")
    } else if value >= 9.995 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_well() {
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1_000), "1.00 kB");
        assert_eq!(bytes(10_000_000), "10.0 MB");
        assert_eq!(bytes(5_000_000_000), "5.00 GB");
        assert_eq!(bytes(123_400_000_000_000), "123 TB");
        assert_eq!(rate(7.953), "7.95 Mbit/s");
        assert_eq!(rate(23_621.0), "23.6 Gbit/s");
        assert_eq!(millis(54.12), "54.1 ms");
        assert_eq!(millis(2400.0), "2.40 s");
        assert_eq!(span(200.4), "3 min 20 s");
        assert_eq!(span(-1.0), "0 s");
        assert_eq!(span(86_400.0), "1 d");
        assert_eq!(span(7_205.0), "2 h");
        assert_eq!(span(90_000.0), "1 d 1 h");
    }
}
