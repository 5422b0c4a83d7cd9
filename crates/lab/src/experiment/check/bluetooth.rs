//! Checks of links of Bluetooth.

use super::signals::strengths;
use crate::experiment::link::{BluetoothSpec, Change, Link, default_queue};
use crate::experiment::terms::Role;

/// Checks a link of Bluetooth; the error is a sentence.
pub(super) fn check(link: &Link, spec: &BluetoothSpec, roles: &[Role]) -> Result<(), &'static str> {
    if roles != [Role::Primary, Role::Helper] {
        return Err("a Bluetooth link goes from the primary to a helper");
    }
    let has_rates = link.down.is_some() || link.up.is_some();
    let has_queue = !link.delay.is_zero() || !link.jitter.is_zero() || link.hold.is_some();
    if has_rates || has_queue || link.loss != 0.0 || !link.burst_loss.is_none() {
        return Err("a Bluetooth link has no rate, delay or loss: they follow from `signal_dbm`");
    }
    strengths(&spec.signal_dbm)?;
    if link.queue != default_queue() {
        return Err("a Bluetooth link has no `queue`: credits bound what waits");
    }
    link.changes.iter().try_for_each(check_change)
}

/// Checks a change of a link of Bluetooth, of the link itself or of a workload; the error is a
/// sentence.
pub(super) fn check_change(change: &Change) -> Result<(), &'static str> {
    let rates = change.down.is_some() || change.up.is_some();
    let losses = change.loss.is_some() || change.burst_loss.is_some();
    match rates || losses || change.delay.is_some() {
        true => Err("changes of a Bluetooth link are `alive` and `carrier`"),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::experiment::file::Experiment;
    use crate::experiment::tests::GOOD;

    #[test]
    fn a_pipe_may_be_one_of_bluetooth() {
        let with = |keys: &str| {
            let text = GOOD.replace(
                "to = \"phone\"\ndown = 5\nup = 5\n",
                &format!("to = \"phone\"\n{keys}"),
            );
            Experiment::parse("t.toml", &text)
        };
        let change = "[[link.change]]\nat = \"1s\"\n";
        let e = with(&format!(
            "bluetooth = {{ signal_dbm = [[\"0s\", -50], [\"5s\", -80.5]] }}\n\
             radio = \"watch-bt-2s\"\n{change}carrier = false\n"
        ));
        let link = e.as_ref().unwrap().pipe_of("phone").unwrap();
        assert_eq!(link.bluetooth_radios(), ["watch-bt-2s", "phone-bt"]);
        let signal = &link.bluetooth.as_ref().unwrap().signal_dbm;
        assert_eq!(
            (signal[1].0.0, signal[1].1),
            (Duration::from_secs(5), -80.5)
        );
        for (keys, expected) in [
            (
                "bluetooth = {}\ndown = 1\nup = 1\n",
                "has no rate, delay or loss",
            ),
            (
                "bluetooth = {}\ndelay = \"1ms\"\n",
                "has no rate, delay or loss",
            ),
            (
                "bluetooth = {}\nradio = \"lte-2012\"\n",
                "\"lte-2012\" is no radio for Bluetooth",
            ),
            (
                "bluetooth = {}\nmedium = \"x\"\n",
                "a Bluetooth link has no medium",
            ),
            ("bluetooth = {}\nqueue = \"5ms\"\n", "has no `queue`"),
            (
                "bluetooth = { signal_dbm = [[\"2s\", -50], [\"1s\", -50]] }\n",
                "times must be in order",
            ),
            (
                &format!("bluetooth = {{}}\n{change}loss = 0.1\n"),
                "changes of a Bluetooth link are `alive` and `carrier`",
            ),
        ] {
            let error = with(keys).unwrap_err().to_string();
            assert!(error.contains(expected), "{keys}: {error}");
        }
        let text = GOOD.replace("down = 5\nup = 5", "bluetooth = {}");
        let changing = |keys: &str| {
            let change = "[[workload.change]]\nat = \"1s\"\nlink = \"pipe\"\n";
            Experiment::parse("t.toml", &format!("{text}{change}{keys}\n"))
        };
        changing("alive = false").unwrap();
        for keys in ["loss = 0.1", "down = 1", "delay = \"1ms\""] {
            let error = changing(keys).unwrap_err().to_string();
            let expected = "changes of a Bluetooth link are `alive` and `carrier`";
            assert!(error.contains(expected), "{keys}: {error}");
        }
        let direct = GOOD.replace(
            "down = \"8 Mbit/s\"\nup = 8\ndelay = \"25ms\"",
            "bluetooth = {}",
        );
        let error = Experiment::parse("t.toml", &direct)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("goes from the primary to a helper"),
            "{error}"
        );
        let tethered = text.replace("devices = 2", "devices = 2\nsplit = false");
        let error = Experiment::parse("t.toml", &tethered)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("a helper behind Bluetooth is only for"),
            "{error}"
        );
    }
}
