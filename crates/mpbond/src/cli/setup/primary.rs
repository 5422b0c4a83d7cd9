//! Setup of a primary.

use std::net::SocketAddr;
use std::path::Path;

use mpbond::config::{
    ConfigError, FarEnd, Front, PrimaryConfig, PrimaryEdit, Role, config_file, identity,
};
use mpbond::pairing::{Book, Own, own_links};
use mpbond::uplinks::{Uplink, uplinks};
use mpbond_command::{Failure, note, print};
use mpbond_net::Identity;

use super::super::change::of_change;
use super::super::hints::command;
use super::super::pair::{
    Errand, Screen, Target, carry_out, default_name, in_words, introduction, primary_key,
};
use super::args::SetupArgs;
use super::files::shown;
use super::questions::Questions;
use super::service;

pub(super) fn set_up(
    args: &SetupArgs,
    questions: &Questions,
    device: Option<Errand>,
) -> Result<(), Failure> {
    let file = config_file(Role::Primary);
    if !args.replace {
        PrimaryEdit::check(&file).map_err(Failure::input)?;
    }
    let errands = errands(args, questions, device, &file)?;
    let (kept, links) = links(args, &errands, &file)?;
    let all = kept.iter().map(|link| format!("{link} (as configured)"));
    let all: Vec<String> = all.chain(links.iter().cloned()).collect();
    note!(
        "Links of this device to the Internet: {}",
        match &all[..] {
            [] => "none; only those of other devices are used".to_owned(),
            all => all.join(", "),
        }
    );
    let front = match args.transparent {
        true => Front::Transparent,
        false => Front::Socks5,
    };
    if args.dry_run {
        return print(&preview(args, &file, &errands, &links, front)?);
    }
    let key = match args.replace {
        true => identity(),
        false => primary_key(file.exists(), &file)?,
    };
    let identity = Identity::load_or_create(&key).map_err(Failure::run)?;
    let name = args.name.clone().unwrap_or_else(default_name);
    for (number, errand) in errands.into_iter().enumerate() {
        let own = Own {
            identity: identity.clone(),
            introduction: introduction(Role::Primary, name.clone(), None),
            book: Book::Primary {
                path: file.clone(),
                called: errand.called().map(str::to_owned),
                links: Some(links.clone()),
                anew: args.replace && number == 0,
            },
        };
        let screen = Screen::new(own.clone(), false, args.yes);
        let (paired, ()) = carry_out(&own, errand, &screen, async |_| ())?;
        print(&format!("{}\n", in_words(&paired)))?;
    }
    PrimaryEdit::add_links(&file, &links).map_err(of_change)?;
    PrimaryEdit::add_front(&file, front).map_err(of_change)?;
    PrimaryConfig::load(&file).map_err(Failure::input)?;
    print(&format!("Complete: {}\n", file.display()))?;
    service::bring_up(Role::Primary, !args.no_service)?;
    print(&format!(
        "Then see whether all is well: {}\n",
        command("doctor primary", Role::Primary, &file)
    ))
}

/// The devices to pair with, a proxy first: without one, nothing can be used. `device` is known
/// already.
fn errands(
    args: &SetupArgs,
    questions: &Questions,
    device: Option<Errand>,
    file: &Path,
) -> Result<Vec<Errand>, Failure> {
    let has_proxy = !args.replace && PrimaryEdit::has_proxy(file).map_err(Failure::input)?;
    let mut errands = Vec::new();
    for text in &args.with {
        let errand = errand(text).map_err(|e| Failure::input(format_args!("--pair: {e}")))?;
        errands.push(errand);
    }
    if errands.is_empty() {
        let is_token = |device: &Errand| matches!(device, Errand::Enrol(_));
        let (has_token, has_other) = match &device {
            Some(device) => (is_token(device), !is_token(device)),
            None => (false, false),
        };
        errands.extend(device);
        if !has_proxy && !has_token {
            let question = "Token that the server shows (MPBOND:ENROL/...)";
            errands.push(questions.ask(question, "--pair TOKEN", errand)?);
        }
        if !has_other {
            let question = "Address and code that the second device shows, or nothing";
            let option = "--pair \"ADDRESS CODE\"";
            errands.extend(questions.ask(question, option, |answer| match answer {
                "" => Ok(None),
                _ => errand(answer).map(Some),
            })?);
        }
    }
    // Only a device that shows a code is asked what it is.
    let (mut first, others): (Vec<_>, Vec<_>) = errands
        .into_iter()
        .partition(|errand| matches!(errand, Errand::Enrol(_)));
    first.extend(others);
    Ok(first)
}

/// A device to pair with: a token or text, an address and a code, or the command line with these
/// that the other device shows.
pub(super) fn errand(text: &str) -> Result<Errand, String> {
    // Quotes that a shell needs are part of a command that is shown.
    let words = text.split_whitespace();
    let words: Vec<&str> = words.map(|word| word.trim_matches('\'')).collect();
    let words = match &words[..] {
        ["sudo", rest @ ..] => rest,
        all => all,
    };
    let words = match words {
        ["mpbond", "pair", rest @ ..] => rest,
        all => all,
    };
    match words {
        [target] => Errand::parse(target, None),
        [target, code @ ..] => Errand::parse(target, Some(&code.join(" "))),
        [] => {
            return Err("a token, or an address and a code such as 10.42.0.1 1234-5678".to_owned());
        }
    }
    .map_err(|failure| failure.to_string())
}

/// Interfaces of own paths: those of a file that is kept, which stay, and those that are to be
/// written beside them.
fn links(
    args: &SetupArgs,
    errands: &[Errand],
    file: &Path,
) -> Result<(Vec<String>, Vec<String>), Failure> {
    let kept = match args.replace {
        true => Vec::new(),
        false => PrimaryEdit::links(file).map_err(Failure::input)?,
    };
    let mut new = match kept.is_empty() && args.links.is_empty() {
        true => found_links(errands),
        false => args.links.clone(),
    };
    new.retain(|link| !kept.contains(link));
    Ok((kept, new))
}

/// Interfaces with a default route. A link on which a device to be paired with is the router is the
/// link of that device.
fn found_links(errands: &[Errand]) -> Vec<String> {
    let usable = uplinks().into_iter().filter(Uplink::is_usable);
    let mut links: Vec<String> = usable.map(|u| u.interface).collect();
    for ip in errands.iter().flat_map(called) {
        let own = own_links(&ip.into());
        links.retain(|link| own.contains(link));
    }
    links
}

/// Addresses of a device that shows a code.
fn called(errand: &Errand) -> Vec<SocketAddr> {
    match errand {
        Errand::Call(targets, ..) => targets.iter().filter_map(Target::fixed).collect(),
        Errand::Listen(..) | Errand::Enrol(_) => Vec::new(),
    }
}

/// The file as it would be, with what is known of the other devices.
fn preview(
    args: &SetupArgs,
    file: &Path,
    errands: &[Errand],
    links: &[String],
    front: Front,
) -> Result<String, Failure> {
    let folder = tempfile::tempdir().map_err(Failure::run)?;
    let copy = folder.path().join("primary.toml");
    if !args.replace && file.exists() {
        std::fs::copy(file, &copy).map_err(Failure::run)?;
    }
    let wrong = |e: ConfigError| {
        let text = e.to_string();
        Failure::input(text.replace(&copy.display().to_string(), &file.display().to_string()))
    };
    let mut unknown = String::new();
    for errand in errands {
        match errand {
            Errand::Enrol(token) => {
                let far = FarEnd::Proxy {
                    address: token.address.clone(),
                    id: token.id,
                };
                PrimaryEdit::make(&copy, &far, links).map_err(wrong)?;
            }
            Errand::Call(targets, ..) => {
                let all: Vec<String> = targets.iter().map(ToString::to_string).collect();
                unknown.push_str(&format!(
                    "\n# and a section for the device at {}, which says its name and id when it is \
                     paired\n",
                    all.join(", ")
                ));
            }
            Errand::Listen(..) => {}
        }
    }
    PrimaryEdit::add_links(&copy, links).map_err(wrong)?;
    PrimaryEdit::add_front(&copy, front).map_err(wrong)?;
    let text = std::fs::read_to_string(&copy).map_err(Failure::run)?;
    Ok(shown(file, &(text + &unknown)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_named_in_every_way_in_which_it_is_shown() {
        for text in [
            "10.42.0.1 1234-5678",
            "10.42.0.1 1234 5678",
            " 10.42.0.1:4435   12345678 ",
            "mpbond pair 10.42.0.1 1234-5678",
            "sudo mpbond pair 10.42.0.1:4435 1234-5678",
            "sudo mpbond pair '10.42.0.1:4435' 1234-5678",
        ] {
            let called = called(&errand(text).unwrap());
            assert_eq!(called, ["10.42.0.1:4435".parse().unwrap()], "{text}");
        }
        for text in ["", "mpbond pair", "10.42.0.1", "MPBOND:PAIR/"] {
            assert!(errand(text).is_err(), "{text}");
        }
    }
}
