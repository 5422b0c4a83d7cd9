//! Bonded devices, from BlueZ's files `ADAPTER/DEVICE/info` (its doc/settings-storage.txt).

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use crate::address::DeviceAddress;

/// Folder of BlueZ.
pub(crate) const FOLDER: &str = "/var/lib/bluetooth";

/// Devices and adapters that are looked at, each.
const MAX_ENTRIES: usize = 1000;
/// Bytes of a file that are read. A usual one has 1 kB.
const MAX_FILE_BYTES: u64 = 64 << 10;
/// Longest name that is shown; Bluetooth's longest has 248 octets.
const MAX_NAME_CHARS: usize = 60;

/// A bonded device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bond {
    /// Its address.
    pub device: DeviceAddress,
    /// Name that it gave itself, without control characters.
    pub name: String,
}

/// The devices that are bonded with any adapter; each once.
///
/// # Errors
/// When the folder cannot be read.
pub(crate) fn read(folder: &Path) -> io::Result<Vec<Bond>> {
    let mut bonds: Vec<Bond> = Vec::new();
    for adapter in devices_in(folder)? {
        let adapter = folder.join(adapter.to_string());
        for device in devices_in(&adapter)? {
            let info = adapter.join(device.to_string()).join("info");
            if let Some(name) = read_info(&info).as_deref().and_then(bonded_name)
                && bonds.iter().all(|bond| bond.device != device)
            {
                bonds.push(Bond { device, name });
            }
        }
    }
    Ok(bonds)
}

/// Subfolders that are named as addresses.
fn devices_in(folder: &Path) -> io::Result<Vec<DeviceAddress>> {
    let entries = fs::read_dir(folder)?.take(MAX_ENTRIES);
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Ok(names.filter_map(|name| name.parse().ok()).collect())
}

fn read_info(file: &Path) -> Option<String> {
    let mut octets = Vec::new();
    let file = File::open(file).ok()?;
    file.take(MAX_FILE_BYTES).read_to_end(&mut octets).ok()?;
    Some(String::from_utf8_lossy(&octets).into_owned())
}

/// Name of the device in a file `info`, if it has a key of BR/EDR: one of Low Energy is of no use.
pub fn bonded_name(info: &str) -> Option<String> {
    if !info.lines().any(|line| line.trim() == "[LinkKey]") {
        return None;
    }
    let name = info.lines().find_map(|line| line.strip_prefix("Name="));
    let shown = name.unwrap_or_default().chars();
    Some(
        shown
            .filter(|c| !c.is_control())
            .take(MAX_NAME_CHARS)
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_with_a_link_key_are_bonded_and_shown_once() {
        let folder = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let file = folder.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        let phone = "[General]\nName=pho\u{1b}ne\n\n[LinkKey]\nKey=00\n";
        put("00:00:00:00:00:01/00:00:00:00:00:0A/info", phone);
        put("00:00:00:00:00:02/00:00:00:00:00:0A/info", phone);
        let light = "[General]\nName=light\n[LongTermKey]\nKey=00\n";
        put("00:00:00:00:00:01/00:00:00:00:00:0B/info", light);
        put("00:00:00:00:00:01/cache/info", phone);
        put("settings", "");
        let bond = Bond {
            device: "00:00:00:00:00:0A".parse().unwrap(),
            name: "phone".to_owned(),
        };
        assert_eq!(read(folder.path()).unwrap(), [bond]);
        assert!(read(&folder.path().join("none")).is_err());
    }

    #[test]
    fn long_names_are_cut() {
        let info = format!("[LinkKey]\nName={}\n", "x".repeat(1000));
        assert_eq!(bonded_name(&info).unwrap().len(), MAX_NAME_CHARS);
        assert_eq!(bonded_name("[LinkKey]\n").unwrap(), "");
    }
}
