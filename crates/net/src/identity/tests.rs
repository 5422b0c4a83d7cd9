//! Tests of identities and device ids.

use std::os::unix::fs::PermissionsExt;

use mpbond_testing::Need;
use proptest::prelude::*;

use super::*;

#[test]
fn a_new_file_is_private_and_loads_as_the_same_device() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/er/identity.pem");
    let made = Identity::load_or_create(&path).unwrap();
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(Identity::load_or_create(&path).unwrap().id(), made.id());
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("-----BEGIN PRIVATE KEY-----\n"), "{text}");
    let end = "-----END PRIVATE KEY-----\n-----BEGIN CERTIFICATE-----\n";
    assert!(text.contains(end) && !text.contains('\r'), "{text}");
    let left = fs::read_dir(path.parent().unwrap()).unwrap().count();
    assert_eq!(left, 1, "no temporary file may stay behind");
}

#[test]
fn creating_never_replaces_an_identity() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("identity.pem");
    let first = Identity::load_or_create(&path).unwrap();
    create(&path).unwrap();
    assert_eq!(Identity::load(&path).unwrap().id(), first.id());
}

#[test]
fn files_created_by_root_belong_to_the_owner_of_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    if std::os::unix::fs::chown(dir.path(), Some(65_534), Some(65_534)).is_err() {
        return Need::Root.is_missing("only root gives files to others");
    }
    let path = dir.path().join("identity.pem");
    Identity::load_or_create(&path).unwrap();
    let meta = fs::metadata(&path).unwrap();
    assert_eq!((meta.uid(), meta.gid()), (65_534, 65_534));
    assert_eq!(meta.permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_readable_key_is_refused_with_advice() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("identity.pem");
    Identity::load_or_create(&path).unwrap();
    for mode in [0o640, 0o604, 0o660] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let said = Identity::load_or_create(&path).unwrap_err().to_string();
        assert!(said.contains("chmod 600"), "{said}");
        assert!(said.contains("identity.pem"), "{said}");
    }
}

#[test]
fn other_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("identity.pem");
    let good = Identity::load_or_create(&path).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let cut_at = text.find("-----BEGIN CERTIFICATE").unwrap();
    let other = dir.path().join("other.pem");
    Identity::load_or_create(&other).unwrap();
    let other_text = fs::read_to_string(&other).unwrap();
    let other_cut = other_text.find("-----BEGIN CERTIFICATE").unwrap();
    let swapped = format!("{}{}", &text[..cut_at], &other_text[other_cut..]);
    let ecdsa = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let ecdsa = format!("{}{}", ecdsa.serialize_pem(), &text[cut_at..]);
    let sec1 = text.replace("PRIVATE KEY", "EC PRIVATE KEY");
    for (content, expected) in [
        (ecdsa, ".pem: failed to parse Ed25519 private key"),
        (sec1, ".pem: the key is not Ed25519 in PKCS #8; restore it"),
        (String::new(), "no certificate"),
        (text[..cut_at].to_owned(), "no certificate"),
        (text[cut_at..].to_owned(), "no private key"),
        (swapped, "do not match"),
        ("x".repeat(20_000), "longer than"),
    ] {
        fs::write(&path, content).unwrap();
        let said = Identity::load_or_create(&path).unwrap_err().to_string();
        assert!(said.contains(expected), "{said}");
    }
    fs::write(&path, text).unwrap();
    assert_eq!(Identity::load(&path).unwrap().id(), good.id());
}

#[test]
fn ids_parse_without_dashes_and_with_look_alikes() {
    let id = Identity::generate().unwrap().id();
    let text = id.to_string();
    assert_eq!(text.len(), 63);
    assert_eq!(id.short(), text[..7]);
    for spelled in [
        text.to_lowercase(),
        text.replace('-', ""),
        text.replace('-', " "),
        text.replace('O', "0").replace('I', "1").replace('B', "8"),
    ] {
        assert_eq!(spelled.parse::<DeviceId>().unwrap(), id, "{spelled}");
    }
    let json = serde_json::to_string(&id).unwrap();
    assert_eq!(json, format!("\"{text}\""));
    assert_eq!(serde_json::from_str::<DeviceId>(&json).unwrap(), id);
}

#[test]
fn a_person_calls_a_device_by_at_least_four_characters_of_its_id() {
    let id = DeviceId::from_bytes([7; 32]);
    let text = id.to_string();
    for end in [4, 8, 9, text.len()] {
        assert!(id.begins_with(&text[..end]), "{end}");
        assert!(id.begins_with(&text[..end].to_lowercase()), "{end}");
    }
    assert!(id.begins_with(&text.replace('-', "")[..20]));
    for other in [
        "",
        "-",
        &text[..3],
        "A-B-C-D",
        &text[1..9],
        &format!("{text}A"),
    ] {
        assert!(!id.begins_with(other), "{other}");
    }
}

#[test]
fn errors_of_ids_name_the_defect() {
    let text = DeviceId::from_bytes([7; 32]).to_string();
    let short = &text[..text.len() - 1];
    assert_eq!(
        short.parse::<DeviceId>(),
        Err(ParseDeviceIdError::Length(55))
    );
    let strange = text.replacen(|c: char| c.is_ascii_alphabetic(), "é", 1);
    assert_eq!(
        strange.parse::<DeviceId>(),
        Err(ParseDeviceIdError::Character('é'))
    );
    assert!("".parse::<DeviceId>().is_err());
}

proptest! {
    #[test]
    fn every_id_round_trips(hash: [u8; 32]) {
        let id = DeviceId::from_bytes(hash);
        prop_assert_eq!(id.to_string().parse::<DeviceId>().unwrap(), id);
    }

    #[test]
    fn one_wrong_character_is_detected(hash: [u8; 32], at in 0_usize..56, by in 1_u8..32) {
        let text = DeviceId::from_bytes(hash).to_string().replace('-', "");
        let plain: Vec<char> = text.chars().collect();
        let mut wrong = plain.clone();
        let alphabet: Vec<char> = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".chars().collect();
        let was = alphabet.iter().position(|c| *c == plain[at]).unwrap();
        wrong[at] = alphabet[(was + usize::from(by)) % 32];
        prop_assert!(wrong.iter().collect::<String>().parse::<DeviceId>().is_err());
    }

    #[test]
    fn two_swapped_characters_are_detected(hash: [u8; 32], at in 0_usize..55) {
        let text = DeviceId::from_bytes(hash).to_string().replace('-', "");
        let mut text: Vec<char> = text.chars().collect();
        prop_assume!(text[at] != text[at + 1] && (at + 1) % 14 != 0);
        text.swap(at, at + 1);
        prop_assert!(text.iter().collect::<String>().parse::<DeviceId>().is_err());
    }
}

#[test]
fn a_rotated_identity_is_another_one_and_the_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("identity.pem");
    let (old, first) = Identity::rotate(&path).unwrap();
    assert_eq!(old, None, "there was none");
    assert_eq!(Identity::load(&path).unwrap().id(), first.id());

    let link = folder.path().join("link.pem");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let (old, second) = Identity::rotate(&link).unwrap();
    assert_eq!(old, Some(first.id()));
    assert_ne!(second.id(), first.id());
    assert_eq!(Identity::load(&path).unwrap().id(), second.id());
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());

    // A damaged file is replaced, too.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let (old, third) = Identity::rotate(&path).unwrap();
    assert_eq!(old, None);
    assert_eq!(Identity::load(&path).unwrap().id(), third.id());
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        2,
        "no old key is left"
    );
}
