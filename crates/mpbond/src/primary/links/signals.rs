//! Strength of the signals of this device's radios: of WiFi as the kernel has it; and which of them
//! are weak by the policy.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use mpbond_manager::{SIGNAL_EVERY, WeakSignal};
use mpbond_units::{Timestamp, wireless};

/// Maximum number of octets that are read of it: an interface takes a line of about 80.
const MAX_BYTES: usize = 4_096;

/// The kernel's table, opened before this process gives up access to files. There is none in a
/// kernel without wireless extensions.
pub(in crate::primary) struct Signals {
    file: Option<File>,
    /// The table when it was last read: a driver may have to ask its device.
    last: RefCell<(Timestamp, String)>,
}

impl Signals {
    pub(in crate::primary) fn of_this_device() -> Self {
        Self::of(File::open(wireless::TABLE).ok())
    }

    fn of(file: Option<File>) -> Self {
        Self {
            file,
            last: RefCell::default(),
        }
    }

    /// Whether this kernel has the table.
    pub(super) const fn have_table(&self) -> bool {
        self.file.is_some()
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

/// Signals of links for which the policy has thresholds, by name. For use on one thread.
#[derive(Default)]
pub(in crate::primary) struct WeakLinks {
    /// With the threshold, in dBm, with which each was compared.
    signals: RefCell<BTreeMap<String, (i16, WeakSignal)>>,
    pub(super) are_watched: Cell<bool>,
}

impl WeakLinks {
    /// Whether the signal of a link is weak.
    pub(in crate::primary) fn is_weak(&self, link: &str) -> bool {
        let signals = self.signals.borrow();
        signals
            .get(link)
            .is_some_and(|(_, signal)| signal.is_weak())
    }

    /// Takes what is known of the signal of a link at a look: a sample, which is compared with a
    /// threshold, or nothing. Returns whether the signal is weak now, if that has changed.
    pub(super) fn looked(
        &self,
        now: Timestamp,
        link: &str,
        sample: Option<(Timestamp, i16)>,
        threshold_dbm: i16,
    ) -> Option<bool> {
        let mut signals = self.signals.borrow_mut();
        let new = || (threshold_dbm, WeakSignal::default());
        let (_, signal) = signals.entry(link.to_owned()).or_insert_with(new);
        let before = signal.is_weak();
        signal.handle_look(now, sample, threshold_dbm);
        Some(signal.is_weak()).filter(|is_weak| *is_weak != before)
    }

    /// Smoothed strength of the signal of a link at a time of its samples, in dBm.
    pub(super) fn smoothed_dbm(&self, now: Timestamp, link: &str) -> Option<f64> {
        let signals = self.signals.borrow();
        signals.get(link)?.1.smoothed_dbm(now)
    }

    /// Forgets links that are compared with another threshold now, in dBm, or with none.
    pub(super) fn keep(&self, threshold_dbm: impl Fn(&str) -> Option<i16>) {
        let mut signals = self.signals.borrow_mut();
        signals.retain(|link, (dbm, _)| threshold_dbm(link) == Some(*dbm));
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
    fn a_link_whose_signal_is_no_longer_known_or_compared_is_not_weak() {
        let weak = WeakLinks::default();
        let at = Timestamp::from_millis;
        let look = |ms, dbm: Option<i16>| {
            let sample = dbm.map(|dbm| (at(ms), dbm));
            weak.looked(at(ms), "wifi", sample, -60)
        };
        assert_eq!(look(1_000, Some(-70)), Some(true));
        assert_eq!(look(1_200, Some(-72)), None);
        let smoothed = weak.smoothed_dbm(at(1_200), "wifi").unwrap();
        assert!((-72.0..-70.0).contains(&smoothed), "{smoothed}");
        assert_eq!(look(3_200, None), None);
        assert_eq!(look(3_400, None), Some(false));
        assert!(!weak.is_weak("wifi"));
        assert_eq!(weak.smoothed_dbm(at(3_400), "wifi"), None);
        assert_eq!(look(3_600, Some(-70)), Some(true));
        assert!(weak.is_weak("wifi") && !weak.is_weak("mobile"));
        let threshold = |dbm| move |link: &str| (link == "wifi").then_some(dbm);
        weak.keep(threshold(-60));
        assert!(weak.is_weak("wifi"));
        weak.keep(threshold(-72));
        assert!(!weak.is_weak("wifi"), "another threshold");
        assert_eq!(
            weak.looked(at(3_800), "wifi", Some((at(3_800), -70)), -72),
            None
        );
        assert_eq!(
            weak.looked(at(4_000), "wifi", Some((at(4_000), -99)), -72),
            Some(true)
        );
        weak.keep(|_| None);
        assert!(!weak.is_weak("wifi"));
    }

    fn table(level: i16) -> String {
        format!("{HEADING} wlan0: 0000   54.  {level}.  -256\n")
    }

    #[test]
    fn an_interface_whose_level_in_the_kernels_table_sinks_below_the_threshold_is_weak() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wireless");
        std::fs::write(&path, table(-51)).unwrap();
        let signals = Signals::of(File::open(&path).ok());
        let weak = WeakLinks::default();
        let look = |ms| {
            let now = Timestamp::from_millis(ms);
            let sample = signals.dbm(now, "wlan0").map(|dbm| (now, dbm));
            weak.looked(now, "wifi", sample, -60)
        };
        assert_eq!(look(1_000), None);
        std::fs::write(&path, table(-68)).unwrap();
        let changes: Vec<_> = (6..20).map(|n| look(n * 200)).collect();
        let first = changes.iter().position(Option::is_some);
        assert_eq!(first.and_then(|n| changes[n]), Some(true), "{changes:?}");
        assert!(weak.is_weak("wifi"));
        // The interface goes.
        std::fs::write(&path, HEADING).unwrap();
        assert_eq!(look(4_000), None);
        assert_eq!(look(6_000), Some(false));
    }

    #[test]
    fn the_table_is_read_every_200_ms_and_may_be_missing() {
        let path = std::env::temp_dir().join(format!("mpbond-signals-{}", std::process::id()));
        let write = |level: i16| std::fs::write(&path, table(level)).unwrap();
        write(-56);
        let file = File::open(&path).unwrap();
        let signals = Signals::of(file.try_clone().ok());
        let at = Timestamp::from_millis;
        assert_eq!(signals.dbm(at(1_000), "wlan0"), Some(-56));
        write(-71);
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
