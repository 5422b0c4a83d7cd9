//! The kernel's table of wireless interfaces (wireless extensions), as text.

/// Its place.
pub const TABLE: &str = "/proc/net/wireless";

/// Signals in dBm are negative, and receivers hear none below this.
const LEAST_DBM: i16 = -150;

/// Interfaces with the strength of their signals in dBm. Interfaces without one, and lines of
/// another form, are left out.
///
/// A line is `wlan0: 0000   54.  -56.  -256 …`: interface, status, quality, level. Two lines are a
/// heading.
pub fn signals(table: &str) -> impl Iterator<Item = (&str, i16)> {
    let of_line = |line| {
        let (interface, rest) = str::split_once(line, ':')?;
        let level = rest.split_whitespace().nth(2)?;
        let dbm = level.trim_end_matches('.').parse().ok()?;
        let is_heard = (LEAST_DBM..0).contains(&dbm);
        is_heard.then(|| (interface.trim(), dbm))
    };
    table.lines().skip(2).filter_map(of_line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_that_of_its_interface_and_nonsense_is_left_out() {
        let table = "Inter-| sta-|   Quality        |   Discarded packets               | Missed \
            | WE\n face | tus | link level noise |  nwid  crypt   frag  retry   misc | beacon \
            | 22\n \
            wlan0: 0000   54.  -56.  -256        0      0      0      0      0     0\n\
            wlan01: 0000   70.  -40   -256        0\n\
            off0: 0000    0     0     0\n\
            odd0: 0000   54.  201.  0\n\
            low0: 0000   54.  -256.  0\n\
            much0: 0000   54.  -99999999.  0\n\
            nan0: 0000   54.  NaN  0\n\
            short0: 0000\n\
            no colon\n\n";
        let found: Vec<_> = signals(table).collect();
        assert_eq!(found, [("wlan0", -56), ("wlan01", -40)]);
        assert_eq!(signals("").count(), 0);
    }
}
