//! Strength of the signals of the pipes' radios: of WiFi as the kernel has it.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use mpbond_manager::SIGNAL_EVERY;
use mpbond_units::{Timestamp, wireless};

/// Maximum number of octets that are read of it: an interface takes a line of about 80.
const MAX_BYTES: usize = 4_096;

/// The kernel's table, opened before this process gives up access to files. There is none in a
/// kernel without wireless extensions.
pub(super) struct Signals {
    file: Option<File>,
    /// The table when it was last read: a driver may have to ask its device.
    last: RefCell<(Timestamp, String)>,
}

impl Signals {
    pub(super) fn of_this_device() -> Self {
        Self::of(File::open(wireless::TABLE).ok())
    }

    fn of(file: Option<File>) -> Self {
        Self {
            file,
            last: RefCell::default(),
        }
    }

    /// Strength of the signal of an interface in dBm, if it has one.
    pub(super) fn dbm(&self, now: Timestamp, interface: &str) -> Option<i16> {
        let file = self.file.as_ref()?;
        let mut last = self.last.borrow_mut();
        if now.since(last.0) >= SIGNAL_EVERY {
            *last = (now, read(file));
        }
        let mut signals = wireless::signals(&last.1);
        signals.find_map(|(of, dbm)| (of == interface).then_some(dbm))
    }
}

/// The table as it is now; empty if it cannot be read.
fn read(file: &File) -> String {
    let mut table = vec![0; MAX_BYTES];
    let octets = file.read_at(&mut table, 0).unwrap_or(0);
    table.truncate(octets);
    String::from_utf8(table).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADING: &str = "Inter-| sta-|   Quality        |   Discarded packets               | \
        Missed | WE\n face | tus | link level noise |  nwid  crypt   frag  retry   misc | beacon \
        | 22\n";

    #[test]
    fn the_table_is_read_every_200_ms_and_may_be_missing() {
        let path = std::env::temp_dir().join(format!("mpbond-signals-{}", std::process::id()));
        let write = |level: &str| {
            let line = format!("wlan0: 0000   54.  {level}.  -256");
            std::fs::write(&path, format!("{HEADING} {line}\n")).unwrap();
        };
        write("-56");
        let file = File::open(&path).unwrap();
        let signals = Signals::of(file.try_clone().ok());
        let at = Timestamp::from_millis;
        assert_eq!(signals.dbm(at(1_000), "wlan0"), Some(-56));
        write("-71");
        assert_eq!(signals.dbm(at(1_199), "wlan0"), Some(-56));
        assert_eq!(signals.dbm(at(1_200), "wlan0"), Some(-71));
        std::fs::write(&path, [b'x'; 3 * MAX_BYTES]).unwrap();
        assert_eq!(read(&file).len(), MAX_BYTES);
        std::fs::write(&path, [0xff; 10]).unwrap();
        assert_eq!(read(&file), "");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(Signals::of(None).dbm(at(1_200), "wlan0"), None);
    }
}
