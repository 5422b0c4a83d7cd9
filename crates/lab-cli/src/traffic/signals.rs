//! Log of the strength of WiFi signals, for `mpbond capture owd --rssi`.

use std::io::Read;
use std::path::Path;

use mpbond_command::Failure;
use mpbond_units::wireless;

/// Maximum size of the table: an interface takes a line of about 80 octets.
const MAX_BYTES: u64 = 64 << 10;

/// Strengths of the signal by interface, in dBm. Interfaces without one are left out.
///
/// # Errors
/// The kernel has no table.
pub(super) fn signals() -> Result<Vec<(String, f64)>, Failure> {
    let table = read(Path::new(wireless::TABLE))?;
    let owned = |(interface, dbm): (&str, i16)| (interface.to_owned(), dbm.into());
    Ok(wireless::signals(&table).map(owned).collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_the_table_is_one_line() {
        let e = read(Path::new("/none/wireless")).unwrap_err().to_string();
        assert!(e.contains("/none/wireless") && e.contains("--rssi"), "{e}");
    }
}
