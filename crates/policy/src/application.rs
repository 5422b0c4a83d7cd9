//! Application of a control group, by the names that desktops, systemd, Flatpak and Snap use.

use crate::fact::Fact;

/// Origin of an application that its group's name states.
const STATED: &str = "the control group";

/// Origin of an application in a group of a user's manager.
const BY_USER: &str = "a control group that the user's programs can name";

/// Origin of an application that is a service.
const SERVICE: &str = "the service's unit";

/// Origin of an application that is only the scope of its process, such as a login session.
const SCOPE: &str = "the unit, which names no application";

/// Services of a user that start programs for others: a program in one of their groups may be any.
const STARTERS: [&str; 4] = [
    "dbus.service",
    "dbus-broker.service",
    "xdg-desktop-portal.service",
    "plasma-plasmashell.service",
];

/// The application of a control group.
///
/// | unit | application |
/// | --- | --- |
/// | `app-flatpak-ID-NUMBER.scope` | `ID` |
/// | `app-LAUNCHER-ID-RANDOM.scope`, `app-ID-RANDOM.scope` | `ID` |
/// | `app-LAUNCHER-ID@RANDOM.service`, `app-ID.service` | `ID` |
/// | `snap.NAME.APP.service`, `snap.NAME.APP-UUID.scope` | `NAME` |
/// | another service | the unit's own name |
/// | another scope | guessed: the unit's own name |
///
/// The names of the first three are those of the systemd documentation, "Desktop Environment
/// Integration". In an identifier, `\x2d` is a hyphen. Some services start programs within their
/// own unit, as the desktop portal does with the browser that opens a link: these are guesses. So
/// are all applications below a user's manager, `user@UID.service`: each program of the user can
/// make groups of any name there.
pub fn application_of(cgroup: &str) -> Fact<String> {
    let is_unit = |part: &&str| part.ends_with(".scope") || part.ends_with(".service");
    // The innermost one: outer ones are those of the user's manager and session.
    let Some(unit) = cgroup.rsplit('/').find(is_unit) else {
        return Fact::unknown("its control group is no unit");
    };
    if STARTERS.contains(&unit) {
        return Fact::guessed(unit.to_owned(), "the unit of a program that starts others");
    }
    let named = in_application_unit(unit).or_else(|| in_snap(unit));
    let is_manager = |part: &str| part.starts_with("user@") && part.ends_with(".service");
    let by_user = cgroup.split('/').any(is_manager);
    match named.filter(|name| !name.is_empty()) {
        name if by_user => Fact::guessed(unescaped(name.unwrap_or(unit)), BY_USER),
        Some(name) => Fact::known(unescaped(name), STATED),
        None if unit.ends_with(".service") => Fact::known(unescaped(unit), SERVICE),
        None => Fact::guessed(unescaped(unit), SCOPE),
    }
}

/// The identifier in the name of a unit that begins with `app-`. Hyphens within it are escaped.
fn in_application_unit(unit: &str) -> Option<&str> {
    let name = unit.strip_prefix("app-")?;
    let name = match name.strip_suffix(".scope") {
        // A scope always has a random part.
        Some(name) => name.rsplit_once('-')?.0,
        None => {
            let name = name.strip_suffix(".service")?;
            name.split_once('@').map_or(name, |(name, _)| name)
        }
    };
    // A launcher before it is optional.
    Some(name.rsplit_once('-').map_or(name, |(_, id)| id))
}

/// The snap in `snap.NAME.APP.service` or `snap.NAME.APP-UUID.scope`.
fn in_snap(unit: &str) -> Option<&str> {
    let (name, rest) = unit.strip_prefix("snap.")?.split_once('.')?;
    rest.contains('.').then_some(name)
}

/// Replaces `\x2d` and the like (systemd.unit(5)) where they are printable ASCII.
fn unescaped(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some((before, after)) = rest.split_once("\\x") {
        out.push_str(before);
        let digits = after.get(..2);
        let byte = digits.and_then(|d| u8::from_str_radix(d, 16).ok());
        match byte.filter(u8::is_ascii_graphic) {
            Some(byte) => {
                out.push(char::from(byte));
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                out.push_str("\\x");
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::Certainty;

    #[test]
    fn applications_by_the_names_of_their_units() {
        const USER: &str = "/user.slice/user-1000.slice/user@1000.service/app.slice";
        for (group, app) in [
            (
                "app-gnome-org.gnome.DejaDup-4711.scope",
                "org.gnome.DejaDup",
            ),
            ("app-org.gnome.DejaDup-4711.scope", "org.gnome.DejaDup"),
            ("app-gnome-firefox\\x2desr-2205.scope", "firefox-esr"),
            (
                "app-flatpak-org.mozilla.firefox-88120.scope",
                "org.mozilla.firefox",
            ),
            ("app-KDE-org.kde.okular@0f1b2c.service", "org.kde.okular"),
            ("app-org.kde.okular.service", "org.kde.okular"),
            ("snap.spotify.spotify-7a2d4c.scope", "spotify"),
            ("snap.lxd.daemon.service", "lxd"),
            ("app-gnome-org.example-1.scope/inner", "org.example"),
        ] {
            let fact = application_of(&format!("{USER}/{group}"));
            let got = fact.get().unwrap();
            assert_eq!(
                (got.0.as_str(), got.1),
                (app, Certainty::Guessed),
                "{group}"
            );
            let fact = application_of(&format!("/system.slice/{group}"));
            let got = fact.get().unwrap();
            assert_eq!((got.0.as_str(), got.1), (app, Certainty::Known), "{group}");
        }
        let spoofed = application_of(&format!("{USER}/restic.service"));
        assert_eq!(spoofed.certainty(), Certainty::Guessed);
    }

    #[test]
    fn other_services_are_known_other_scopes_guessed_and_no_unit_is_unknown() {
        for (group, app, certainty) in [
            (
                "/system.slice/restic.service",
                "restic.service",
                Certainty::Known,
            ),
            ("/x/snap..y.service", "snap..y.service", Certainty::Known),
            (
                "/user.slice/session-2.scope",
                "session-2.scope",
                Certainty::Guessed,
            ),
            (
                "/x/xdg-desktop-portal.service",
                "xdg-desktop-portal.service",
                Certainty::Guessed,
            ),
            ("/x/app-4711.scope", "app-4711.scope", Certainty::Guessed),
            ("/x/app--1.scope", "app--1.scope", Certainty::Guessed),
        ] {
            let fact = application_of(group);
            let got = fact.get().unwrap();
            assert_eq!((got.0.as_str(), got.1), (app, certainty), "{group}");
        }
        for group in ["", "/", "/docker/0123", "/user.slice"] {
            assert!(application_of(group).get().is_none(), "{group}");
        }
    }

    #[test]
    fn escapes_that_are_no_escapes_stay() {
        assert_eq!(unescaped("a\\x2db\\xzz\\x1bc\\x2"), "a-b\\xzz\\x1bc\\x2");
        assert_eq!(unescaped("\\x\u{e9}\u{e9}"), "\\x\u{e9}\u{e9}");
    }
}
