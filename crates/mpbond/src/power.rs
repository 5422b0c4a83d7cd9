//! Batteries of this device, by the kernel's class `power_supply`
//! (Documentation/ABI/testing/sysfs-class-power).
//!
//! Their files are opened once, before a daemon gives up access to files. A battery that is built
//! in later is not known. They are read only when a level is needed: after an event of the kernel,
//! or once the last reading is old.

use std::cell::Cell;
use std::fs::{self, File};
use std::future::pending;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mpbond_policy::{Fact, Supply};
use tokio::sync::{Mutex, Notify};
use tokio::time::{Instant, sleep};
use tracing::debug;

use crate::uevents::Uevents;

/// Folder of the class.
const CLASS: &str = "/sys/class/power_supply";

/// Maximum number of batteries.
const MAX_BATTERIES: usize = 16;

/// Subsystem of the kernel's events about batteries and chargers.
const SUBSYSTEM: &[u8] = b"power_supply";

/// Time for which a reading is used if no event comes. Many drivers send none for a level that
/// sinks, which takes a minute for a point or two; floors have a hysteresis of five. The kernel
/// asks some batteries over a slow bus, for tens of milliseconds.
const VALID_FOR: Duration = Duration::from_secs(60);

/// Least time between the begins of two readings. A charger that is loose, or a driver that has
/// much to tell, makes tens of events a second.
const SPACING: Duration = Duration::from_secs(1);

/// Origin of the facts.
const KERNEL: &str = "the kernel";

/// Batteries of this device.
pub struct Power {
    batteries: Arc<[Battery]>,
    /// None on a device without a battery, and where the kernel refuses the socket.
    uevents: Option<Uevents>,
    /// Number of events that have come.
    events: Cell<u64>,
    /// Number of those after which [`changed`](Power::changed) has returned.
    answered: Cell<u64>,
    /// An event has been taken from the socket, by whatever caller.
    taken: Notify,
    /// The newest reading that has ended.
    newest: Cell<Option<Looked>>,
    /// The last reading, which is held while one is under way, also where its caller has given up.
    last: Arc<Mutex<Option<Looked>>>,
}

/// A reading.
#[derive(Clone, Copy, Debug)]
struct Looked {
    /// When it was begun.
    begun: Instant,
    /// Number of events that had come by then.
    events: u64,
    reading: Reading,
}

/// Files of a battery.
struct Battery {
    /// Level in percent.
    capacity: File,
    status: File,
}

/// Level of the batteries, and whether they are being charged, as far as they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    percent: Option<u8>,
    is_charging: Option<bool>,
}

impl Power {
    /// The batteries of this device.
    pub fn of_this_device() -> Self {
        Self::at(Path::new(CLASS))
    }

    fn at(class: &Path) -> Self {
        let supplies = fs::read_dir(class).into_iter().flatten().flatten();
        let batteries = supplies.filter_map(|supply| Battery::open(&supply.path()));
        let batteries: Arc<[_]> = batteries.take(MAX_BATTERIES).collect();
        let uevents = (!batteries.is_empty()).then(|| Uevents::of(SUBSYSTEM));
        let uevents = uevents.and_then(|uevents| {
            let told = |error: &io::Error| debug!(%error, "no events of batteries");
            uevents.inspect_err(told).ok()
        });
        Self {
            batteries,
            uevents,
            events: Cell::default(),
            answered: Cell::default(),
            taken: Notify::new(),
            newest: Cell::default(),
            last: Arc::default(),
        }
    }

    /// Whether this device has no battery.
    pub fn is_empty(&self) -> bool {
        self.batteries.is_empty()
    }

    /// The newest reading, unless it is out of date: it was begun at least 60 s ago, or at least
    /// 1 s ago and before an event. None as well before the first one has ended.
    pub fn newest(&self) -> Option<Reading> {
        if self.uevents.as_ref().is_some_and(Uevents::take) {
            self.note_event();
        }
        let newest = self.newest.get()?;
        let valid_for = match newest.events == self.events.get() {
            true => VALID_FOR,
            false => SPACING,
        };
        (newest.begun.elapsed() < valid_for).then_some(newest.reading)
    }

    /// The level and state at present, or the newest ones while they are valid. One caller reads at
    /// a time; the others wait for it.
    pub async fn read(&self) -> Reading {
        if let Some(reading) = self.newest() {
            return reading;
        }
        if self.batteries.is_empty() {
            return Reading::default();
        }
        let mut last = Arc::clone(&self.last).lock_owned().await;
        // Of a caller who has given up, perhaps.
        self.note(*last);
        if let Some(reading) = self.newest() {
            return reading;
        }
        let (begun, events) = (Instant::now(), self.events.get());
        let batteries = Arc::clone(&self.batteries);
        let read = tokio::task::spawn_blocking(move || {
            let reading = Reading::read(&batteries);
            *last = Some(Looked {
                begun,
                events,
                reading,
            });
            *last
        });
        let looked = read.await.unwrap_or_default();
        self.note(looked);
        looked.map_or_else(Reading::default, |looked| looked.reading)
    }

    /// A reading has ended. One that was begun before the newest one counts for nothing.
    fn note(&self, looked: Option<Looked>) {
        let begun = |looked: &Looked| (looked.events, looked.begun);
        let newest = self.newest.get();
        if looked.as_ref().map(begun) > newest.as_ref().map(begun) {
            self.newest.set(looked);
        }
    }

    fn note_event(&self) {
        self.events.update(|events| events + 1);
        self.taken.notify_one();
    }

    /// Waits for an event of a battery or a charger since the last one that this returned for,
    /// without end where none comes, and until the battery may be read after it. For one caller,
    /// the only one who is woken. Cancel-safe.
    pub async fn changed(&self) {
        let Some(uevents) = &self.uevents else {
            return pending().await;
        };
        while self.answered.get() == self.events.get() {
            tokio::select! {
                () = uevents.next() => self.note_event(),
                () = self.taken.notified() => {}
            }
        }
        while let Some(wait) = self.holds_for() {
            sleep(wait).await;
        }
        self.answered.set(self.events.get());
    }

    /// Time for which the newest reading is still used, if an event has come since its begin.
    fn holds_for(&self) -> Option<Duration> {
        let newest = self.newest.get()?;
        let left = SPACING.saturating_sub(newest.begun.elapsed());
        (newest.events != self.events.get() && !left.is_zero()).then_some(left)
    }
}

impl Battery {
    /// Opens the files of a supply, if it is a battery of this device: not a charger, and not the
    /// battery of a mouse.
    fn open(supply: &Path) -> Option<Self> {
        let text = |name: &str| fs::read_to_string(supply.join(name)).ok();
        let scope = text("scope");
        let is_another = scope.is_some_and(|scope| scope.trim_end() == "Device");
        if text("type")?.trim_end() != "Battery" || is_another {
            return None;
        }
        Some(Self {
            capacity: File::open(supply.join("capacity")).ok()?,
            status: File::open(supply.join("status")).ok()?,
        })
    }

    fn percent(&self) -> Option<u8> {
        let percent = value(&self.capacity)?.parse().ok()?;
        (percent <= 100).then_some(percent)
    }
}

/// The text in a file of the kernel, which makes it anew for each reading from the start. None for
/// a battery that has been taken out.
fn value(file: &File) -> Option<String> {
    let mut octets = [0; 32];
    let length = file.read_at(&mut octets, 0).ok()?;
    let text = str::from_utf8(octets.get(..length)?).ok()?;
    Some(text.trim_end().to_owned())
}

impl Reading {
    /// The mean of the levels of several batteries. They are being charged unless one discharges:
    /// those that are full, or held below that, are not said to be charging by the kernel.
    fn read(batteries: &[Battery]) -> Self {
        let levels: Vec<_> = batteries.iter().filter_map(Battery::percent).collect();
        let sum: usize = levels.iter().copied().map(usize::from).sum();
        let percent = sum.checked_div(levels.len());
        let states =
            batteries
                .iter()
                .filter_map(|battery| match value(&battery.status)?.as_str() {
                    "Charging" | "Full" | "Not charging" => Some(true),
                    "Discharging" => Some(false),
                    _ => None,
                });
        Self {
            percent: percent.and_then(|percent| u8::try_from(percent).ok()),
            is_charging: states.reduce(|all, one| all && one),
        }
    }

    /// The level, and whether they are being charged.
    pub(crate) const fn supply(self) -> Supply {
        Supply {
            percent: self.percent,
            is_charging: self.is_charging,
        }
    }

    /// The level as a fact.
    pub(crate) fn level(self) -> Fact<u8> {
        fact(self.percent)
    }

    /// Whether the batteries are being charged, or full.
    pub(crate) fn is_charging(self) -> Fact<bool> {
        fact(self.is_charging)
    }
}

fn fact<T>(value: Option<T>) -> Fact<T> {
    match value {
        Some(value) => Fact::known(value, KERNEL),
        None => Fact::unknown("this device has no battery that the kernel knows"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use mpbond_testing::namespaces::{is_called_for, play, uevent};
    use tokio::time::timeout;

    use super::*;

    const WITHIN: Duration = Duration::from_secs(60);

    fn put(class: &Path, supply: &str, files: &[(&str, &str)]) {
        let folder = class.join(supply);
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in files {
            fs::write(folder.join(name), format!("{text}\n")).unwrap();
        }
    }

    fn battery(class: &Path, name: &str, capacity: &str, status: &str) {
        let files = [
            ("type", "Battery"),
            ("capacity", capacity),
            ("status", status),
        ];
        put(class, name, &files);
    }

    fn reading(power: &Power) -> (Option<u8>, Option<bool>) {
        let reading = Reading::read(&power.batteries);
        (reading.percent, reading.is_charging)
    }

    #[test]
    fn the_level_is_the_mean_of_this_devices_batteries() {
        let class = tempfile::tempdir().unwrap();
        battery(class.path(), "BAT0", "81", "Not charging");
        battery(class.path(), "BAT1", "20", "Discharging");
        put(class.path(), "AC", &[("type", "Mains"), ("online", "1")]);
        let mouse = [
            ("type", "Battery"),
            ("scope", "Device"),
            ("capacity", "3"),
            ("status", "Discharging"),
        ];
        put(class.path(), "hidpp_battery_0", &mouse);
        let power = Power::at(class.path());
        assert_eq!(reading(&power), (Some(50), Some(false)));
        battery(class.path(), "BAT1", "21", "Charging");
        assert_eq!(reading(&power), (Some(51), Some(true)), "read again");
    }

    #[test]
    fn states_are_charging_discharging_or_unknown() {
        for (status, is_charging) in [
            ("Charging", Some(true)),
            ("Full", Some(true)),
            ("Not charging", Some(true)),
            ("Discharging", Some(false)),
            ("Unknown", None),
            ("", None),
        ] {
            let class = tempfile::tempdir().unwrap();
            battery(class.path(), "BAT0", "7", status);
            let power = Power::at(class.path());
            assert_eq!(reading(&power), (Some(7), is_charging), "{status}");
        }
    }

    #[test]
    fn a_level_that_is_none_and_a_device_without_a_battery_are_unknown() {
        let class = tempfile::tempdir().unwrap();
        battery(class.path(), "BAT0", "101", "Full");
        battery(class.path(), "BAT1", "-1", "Full");
        battery(class.path(), "BAT2", &"9".repeat(40), "Full");
        let power = Power::at(class.path());
        assert_eq!(reading(&power), (None, Some(true)));
        let none = Power::at(&class.path().join("none"));
        assert_eq!(reading(&none), (None, None));
        assert!(fact::<u8>(None).origin().contains("no battery"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_reading_is_used_for_sixty_seconds() {
        let class = tempfile::tempdir().unwrap();
        let power = with_level(class.path(), "30");
        assert_eq!(power.newest(), None);
        assert_eq!(power.read().await.percent, Some(30));
        battery(class.path(), "BAT0", "29", "Discharging");
        tokio::time::advance(Duration::from_secs(59)).await;
        assert_eq!(power.read().await.percent, Some(30));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(power.newest(), None);
        assert_eq!(power.read().await.percent, Some(29));
    }

    #[test]
    fn a_reading_is_out_of_date_after_an_event_of_the_kernel() {
        play("-Urn", "power::tests::role");
    }

    #[tokio::test]
    #[ignore = "a role: see mpbond_testing::namespaces"]
    async fn role() {
        if !is_called_for() {
            return;
        }
        let class = tempfile::tempdir().unwrap();
        battery(class.path(), "BAT0", "30", "Discharging");
        let power = Power::at(class.path());
        assert_eq!(power.read().await.percent, Some(30));
        battery(class.path(), "BAT0", "30", "Charging");
        uevent("net");
        sleep(SPACING).await;
        assert_eq!(power.read().await.is_charging, Some(false), "of another");
        uevent("power_supply");
        assert_eq!(power.read().await.is_charging, Some(true));
        timeout(WITHIN, power.changed()).await.unwrap();
        sleep(SPACING).await;
        assert!(power.newest().is_some(), "one event is one reading");
        let (changed, ()) = tokio::join!(timeout(WITHIN, power.changed()), async {
            uevent("net");
            tokio::task::yield_now().await;
            uevent("power_supply");
            // A decision takes the event before the one that waits is polled.
            assert_eq!(power.newest(), None);
        });
        changed.unwrap();
        assert_eq!(power.newest(), None);
    }

    fn with_level(class: &Path, percent: &str) -> Power {
        battery(class, "BAT0", percent, "Discharging");
        Power {
            uevents: None,
            ..Power::at(class)
        }
    }

    /// Runs a test whose readings have one thread, in paused time.
    fn with_one_thread(test: impl Future<Output = ()>) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true);
        let runtime = runtime.max_blocking_threads(1).build().unwrap();
        runtime.block_on(test);
    }

    /// Occupies that thread until the result is dropped.
    fn occupy() -> mpsc::Sender<()> {
        let (release, released) = mpsc::channel();
        tokio::task::spawn_blocking(move || released.recv());
        release
    }

    #[test]
    fn a_reading_whose_caller_gives_up_renews_no_level() {
        with_one_thread(async {
            let class = tempfile::tempdir().unwrap();
            let power = with_level(class.path(), "30");
            assert_eq!(power.read().await.percent, Some(30));
            battery(class.path(), "BAT0", "9", "Discharging");
            tokio::time::advance(VALID_FOR).await;
            let release = occupy();
            tokio::select! {
                biased;
                _ = power.read() => panic!("a reading waits for its thread"),
                () = std::future::ready(()) => {}
            }
            drop(release);
            assert_eq!(power.newest(), None);
            assert_eq!(power.read().await.percent, Some(9));
        });
    }

    #[test]
    fn all_who_ask_while_one_reads_after_an_event_have_the_level_after_it() {
        with_one_thread(async {
            let class = tempfile::tempdir().unwrap();
            let power = with_level(class.path(), "30");
            assert_eq!(power.read().await.percent, Some(30));
            battery(class.path(), "BAT0", "9", "Discharging");
            tokio::time::advance(SPACING).await;
            power.note_event();
            let release = occupy();
            let meanwhile = async {
                let newest = power.newest();
                drop(release);
                newest
            };
            let (one, newest, other) = tokio::join!(biased; power.read(), meanwhile, power.read());
            assert_eq!(newest, None, "one is under way");
            assert_eq!([one, other].map(|read| read.percent), [Some(9); 2]);
        });
    }

    #[tokio::test(start_paused = true)]
    async fn the_newest_reading_is_the_one_begun_last() {
        let class = tempfile::tempdir().unwrap();
        let power = with_level(class.path(), "30");
        power.read().await;
        let old = power.newest.get();
        tokio::time::advance(VALID_FOR).await;
        battery(class.path(), "BAT0", "9", "Discharging");
        power.read().await;
        power.note(old);
        assert_eq!(power.newest().unwrap().percent, Some(9));
    }

    #[tokio::test(start_paused = true)]
    async fn readings_begin_a_second_apart_whatever_events_come() {
        let class = tempfile::tempdir().unwrap();
        let power = with_level(class.path(), "30");
        assert_eq!(power.read().await.percent, Some(30));
        battery(class.path(), "BAT0", "9", "Discharging");
        power.note_event();
        tokio::time::advance(SPACING - Duration::from_millis(1)).await;
        assert_eq!(power.read().await.percent, Some(30));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(power.read().await.percent, Some(9));
    }
}
