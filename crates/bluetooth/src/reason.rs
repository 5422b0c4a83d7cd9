//! Errors of Bluetooth sockets in words, with the remedy.

use std::io;

/// The reason of an error in connecting to a device, or in listening; with what to do about it.
///
/// The kernel gives HCI errors as these numbers (`bt_to_errno` in net/bluetooth/lib.c).
pub(crate) fn reason(e: &io::Error) -> String {
    let advice = match e.raw_os_error() {
        Some(libc::EAFNOSUPPORT) => {
            "this kernel has no Bluetooth, or this process may not use it: load the module \
             bluetooth, or look at RestrictAddressFamilies= of the unit; only the first network \
             namespace of a machine has Bluetooth"
        }
        Some(libc::EPROTONOSUPPORT) => "this kernel has no RFCOMM: load the module rfcomm",
        Some(libc::EHOSTUNREACH | libc::ENODEV | libc::ENETDOWN) => {
            "no adapter is switched on: try `bluetoothctl power on`, and `rfkill list`"
        }
        Some(libc::EHOSTDOWN) => "the device does not answer: it is out of range, or switched off",
        Some(libc::ETIMEDOUT) => "the device has stopped answering: it is nearly out of range",
        Some(libc::ECONNREFUSED) => {
            "the device refuses: is `mpbond bluetooth listen` running there, with the same \
             --channels, and are both devices paired?"
        }
        Some(libc::EACCES | libc::EBADE | libc::EPERM) => {
            "the devices do not trust each other: remove each from the other (`bluetoothctl \
             remove`), and pair them again"
        }
        Some(libc::EADDRINUSE) => "another program listens there",
        Some(libc::EBUSY) => "a connection on it is still open",
        _ => return e.to_string(),
    };
    advice.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_a_user_have_a_remedy_in_one_line() {
        for (number, part) in [
            (libc::EAFNOSUPPORT, "module bluetooth"),
            (libc::EPROTONOSUPPORT, "module rfcomm"),
            (libc::EHOSTUNREACH, "power on"),
            (libc::EHOSTDOWN, "out of range"),
            (libc::ECONNREFUSED, "paired"),
            (libc::EACCES, "pair them again"),
        ] {
            let text = reason(&io::Error::from_raw_os_error(number));
            assert!(text.contains(part) && !text.contains('\n'), "{text}");
            assert!(!text.contains("  "), "{text}");
        }
        let other = reason(&io::Error::from_raw_os_error(libc::EIO));
        assert!(other.starts_with("Input/output error"), "{other}");
    }
}
