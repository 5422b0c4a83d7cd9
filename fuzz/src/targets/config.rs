//! Targets for files written by users: configurations, trust lists, experiments, pages, rules.

use std::cell::OnceCell;
use std::io::{Seek as _, Write as _};
use std::path::PathBuf;

use mpbond::config::{
    EnrolmentBook, HelperConfig, PrimaryConfig, ProxyConfig, TokenProblem, TrustFile,
    identity_and_trust,
};
use mpbond_lab::experiment::Experiment;
use mpbond_lab::report::{Saved, Sheet};
use mpbond_net::Identity;
use mpbond_systrace::{ClassRules, FunctionGroups, IdleRules, Scenario};
use mpbond_units::duration_text;

/// A configuration file, read for each role.
pub fn config(octets: &[u8]) {
    in_file("config.toml", octets, |path| {
        for error in [
            PrimaryConfig::load(path).err(),
            HelperConfig::load(path).err(),
            ProxyConfig::load(path).err(),
            identity_and_trust(path).err(),
        ] {
            error.iter().for_each(super::one_line);
        }
    });
}

/// A list of trusted devices.
pub fn trust(octets: &[u8]) {
    in_file("identity.trusted", octets, |path| {
        let file = TrustFile::beside(&path.with_extension("pem"));
        if let Err(e) = file.devices() {
            super::one_line(&e);
        }
    });
}

/// A proxy's book of enrolment tokens: a token is redeemed as often as the book allows, and the
/// book stays readable.
pub fn enrolment(octets: &[u8]) {
    const NOW_S: u64 = 1_800_000_000;
    in_file("identity.enrol", octets, |path| {
        let book = EnrolmentBook::beside(&path.with_extension("pem"));
        let open = book.is_open(NOW_S);
        // The seeds' first token.
        let redeem = || book.redeem(&[0x01; 32], false, NOW_S);
        match redeem() {
            Err(e) => {
                super::one_line(&e);
                assert!(open.is_err(), "a book is read once and then not");
            }
            Ok(Err(problem)) => super::one_line(&problem),
            Ok(Ok(name)) => {
                assert!(open.is_ok_and(|o| o), "a token of a closed book is good");
                let again = redeem();
                let same = match &again {
                    Ok(Ok(again)) => *again == name,
                    Ok(Err(problem)) => *problem == TokenProblem::Used,
                    Err(_) => false,
                };
                assert!(same, "then {name:?}, now {again:?}");
            }
        }
    });
}

/// A device's key file.
pub fn identity(octets: &[u8]) {
    in_file("identity.pem", octets, |path| {
        if let Err(e) = Identity::load(path) {
            super::one_line(&e);
        }
    });
}

/// An experiment of the lab.
pub fn experiment(octets: &[u8]) {
    let Some(text) = super::text(octets) else {
        return;
    };
    if let Err(e) = Experiment::parse("x.toml", text) {
        super::one_line(&e);
    }
}

/// A web page as a list of objects, or as an HTTP archive.
pub fn page(octets: &[u8]) {
    let Some(text) = super::text(octets) else {
        return;
    };
    for name in ["page.txt", "page.har"] {
        if let Err(e) = mpbond_lab::experiment::page_objects(name.as_ref(), text) {
            super::one_line(&e);
        }
    }
}

/// A record of the lab, of transfers or of a measurement, and its output formats.
pub fn record(octets: &[u8]) {
    let Some(text) = super::text(octets) else {
        return;
    };
    match Sheet::parse("x.json", text) {
        Ok(None) => {}
        Ok(Some(sheet)) => {
            let _ = (sheet.to_text(), sheet.to_markdown());
        }
        Err(e) => super::one_line(&e),
    }
    if let Err(e) = Saved::parse("x.json", text) {
        super::one_line(&e);
    }
}

/// A duration as text, and its round trip.
pub fn duration(octets: &[u8]) {
    let Some(text) = super::text(octets) else {
        return;
    };
    match duration_text::parse(text) {
        Ok(span) => assert_eq!(
            duration_text::parse(&duration_text::format(span)),
            Ok(span),
            "written and read again"
        ),
        Err(e) => super::one_line(&e),
    }
}

/// Rules and scenarios of trace analyses.
pub fn trace_rules(octets: &[u8]) {
    let Some(text) = super::text(octets) else {
        return;
    };
    for error in [
        ClassRules::parse(text).err(),
        IdleRules::parse(text).err(),
        FunctionGroups::parse(text).err(),
        Scenario::parse(text).err(),
    ] {
        error.iter().for_each(super::one_line);
    }
}

/// Runs `work` on a file with this name and content.
fn in_file(name: &str, octets: &[u8], work: impl FnOnce(&std::path::Path)) {
    thread_local! {
        static FOLDER: OnceCell<tempfile::TempDir> = const { OnceCell::new() };
    }
    FOLDER.with(|folder| {
        let folder = folder.get_or_init(|| {
            // In memory if possible: the file is written a million times.
            let memory = PathBuf::from("/dev/shm");
            let made = if memory.is_dir() {
                tempfile::tempdir_in(memory)
            } else {
                tempfile::tempdir()
            };
            made.unwrap_or_else(|e| panic!("cannot create a temporary directory: {e}"))
        });
        let path = folder.path().join(name);
        let written = std::fs::OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .and_then(|mut file| {
                file.rewind()?;
                file.write_all(octets)?;
                file.set_len(octets.len() as u64)?;
                // Otherwise the key is refused before it is read.
                use std::os::unix::fs::PermissionsExt as _;
                file.set_permissions(std::fs::Permissions::from_mode(0o600))
            });
        if let Err(e) = written {
            panic!("{}: {e}", path.display());
        }
        work(&path);
    });
}
