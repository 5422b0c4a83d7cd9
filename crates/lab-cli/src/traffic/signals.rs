//! Log of the strength of WiFi signals, for `mpbond capture owd --rssi`.

use std::io::Read;
use std::path::Path;

use mpbond_command::Failure;

/// The kernel's table of wireless interfaces (wireless extensions).
const TABLE: &str = "/proc/net/wireless";
/// Maximum size of the table: an interface takes a line of about 80 octets.
const MAX_BYTES: u64 = 64 << 10;
/// Signals in dBm are negative, and receivers hear none below this.
const LEAST_DBM: f64 = -150.0;

/// Strengths of the signal by interface, in dBm. Interfaces without one are left out.
///
/// # Errors
/// The kernel has no table.
pub(super) fn signals() -> Result<Vec<(String, f64)>, Failure> {
    read(Path::new(TABLE)).map(|text| parse(&text))
}

fn read(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let open = std::fs::File::open(path);
    open.and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text))
        .map_err(|e| {
            let path = path.display();
            Failure::run(format_args!(
                "{path}: {e}; without wireless extensions, leave out --rssi"
            ))
        })?;
    Ok(text)
}

/// Interface, status, quality, level: `wlan0: 0000   54.  -56.  -256 …`. Two lines are a heading.
fn parse(table: &str) -> Vec<(String, f64)> {
    let line = |line: &str| {
        let (interface, rest) = line.split_once(':')?;
        let level = rest.split_whitespace().nth(2)?;
        let dbm: f64 = level.trim_end_matches('.').parse().ok()?;
        let heard = (LEAST_DBM..0.0).contains(&dbm);
        heard.then(|| (interface.trim().to_owned(), dbm))
    };
    table.lines().skip(2).filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADING: &str = "Inter-| sta-|   Quality        |   Discarded packets               | \
        Missed | WE\n face | tus | link level noise |  nwid  crypt   frag  retry   misc | beacon \
        | 22\n";

    #[test]
    fn signals_are_read_and_nonsense_is_left_out() {
        let table = format!(
            "{HEADING} wlan0: 0000   54.  -56.  -256        0      0      0      0      0     0\n\
             wlp2s0: 0000   70.  -40   -256        0\n\
             off0: 0000    0     0     0\n\
             odd0: 0000   54.  201.  0\n\
             low0: 0000   54.  -256.  0\n\
             nan0: 0000   54.  NaN  0\n\
             short0: 0000\n\
             no colon\n\n"
        );
        let want = [("wlan0".to_owned(), -56.0), ("wlp2s0".to_owned(), -40.0)];
        assert_eq!(parse(&table), want);
        assert_eq!(parse(""), []);
    }

    #[test]
    fn a_kernel_without_the_table_is_one_line() {
        let e = read(Path::new("/none/wireless")).unwrap_err().to_string();
        assert!(e.contains("/none/wireless") && e.contains("--rssi"), "{e}");
    }
}
