//! Setup of a helper.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mpbond::config::{
    HelperConfig, ProxyAddress, Role, TrustFile, check_config, config_file, identity,
};
use mpbond::pairing::{Book, Own, find};
use mpbond::uplinks::{Uplink, uplinks};
use mpbond_command::{Failure, note, print};
use mpbond_net::Identity;
use mpbond_net::pairing::is_name;
use toml_edit::Value;

use super::super::pair::{Errand, Screen, carry_out, default_name, in_words, introduction};
use super::args::{SetupArgs, server};
use super::files::{kept, write};
use super::questions::Questions;
use super::service;

/// Port of a proxy whose address is given without one.
const PROXY_PORT: u16 = 4433;

/// A helper as it will run.
struct Plan {
    /// Its configuration; none where the file that is there is kept.
    text: Option<String>,
    name: String,
    listen: SocketAddr,
    /// File of its key.
    key: PathBuf,
}

pub(super) fn set_up(args: &SetupArgs, questions: &Questions) -> Result<(), Failure> {
    let file = config_file(Role::Helper);
    let plan = match args.keeps(&file) {
        true => of_file(args, &file)?,
        false => of_answers(args, questions)?,
    };
    match &plan.text {
        Some(text) if args.dry_run => return write(Role::Helper, text, true),
        // Before the other device is waited for.
        Some(text) => check_config(Role::Helper, &file, text).map_err(Failure::input)?,
        None => kept(&file)?,
    }
    if args.dry_run {
        return Ok(());
    }
    let own = Own {
        identity: Identity::load_or_create(&plan.key).map_err(Failure::run)?,
        introduction: introduction(Role::Helper, plan.name, Some(plan.listen)),
        book: Book::Trust(TrustFile::beside(&plan.key)),
    };
    let screen = Screen::new(own.clone(), false, args.yes);
    let errand = Errand::Listen(None, Duration::from_secs(args.wait));
    let (paired, ()) = carry_out(&own, errand, &screen, async |_| ())?;
    print(&format!("{}\n", in_words(&paired)))?;
    if let Some(text) = &plan.text {
        write(Role::Helper, text, false)?;
    }
    service::bring_up(Role::Helper, !args.no_service)
}

fn of_file(args: &SetupArgs, file: &Path) -> Result<Plan, Failure> {
    let config = HelperConfig::load(file).map_err(Failure::input)?;
    let lent = config.uplink.interface.as_deref();
    let is_lent = |link: &String| lent == Some(link);
    let relays_to = |text| server(text, PROXY_PORT).map(|server| config.proxies.contains(&server));
    let wrong = |e| Failure::input(format_args!("--server: {e}"));
    let relays = args.server.as_deref().map_or(Ok(true), relays_to);
    for (option, key, is_so) in [
        ("--link", "uplink", args.links.iter().all(is_lent)),
        ("--server", "proxies", relays.map_err(wrong)?),
    ] {
        if !is_so {
            return Err(Failure::input(format_args!(
                "{option} contradicts {}, which is kept: change `{key}` there, or write the file \
                 anew with --replace",
                file.display()
            )));
        }
    }
    let name = args.name.clone().unwrap_or(config.name);
    Ok(Plan {
        text: None,
        name: if is_name(&name) { name } else { default_name() },
        listen: config.listen,
        key: config.identity,
    })
}

fn of_answers(args: &SetupArgs, questions: &Questions) -> Result<Plan, Failure> {
    let proxy = match &args.server {
        Some(text) => proxy(text).map_err(|e| Failure::input(format_args!("--server: {e}")))?,
        None => questions.ask("Address or name of the server", "--server ADDRESS", proxy)?,
    };
    let link = lent_link(args, questions)?;
    let name = args.name.clone().unwrap_or_else(default_name);
    Ok(Plan {
        text: Some(text(&name, &proxy, &link)),
        name,
        listen: HelperConfig::LISTEN,
        key: identity(),
    })
}

/// The server, whose name has an address now.
fn proxy(text: &str) -> Result<ProxyAddress, String> {
    let server = server(text, PROXY_PORT)?;
    let book = Book::Trust(TrustFile::beside(&identity()));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let found = runtime
        .map_err(|e| e.to_string())?
        .block_on(find(&book, &server));
    found.map(|_| server).map_err(|e| e.to_string())
}

/// Interface of the link to lend.
fn lent_link(args: &SetupArgs, questions: &Questions) -> Result<String, Failure> {
    match &args.links[..] {
        [link] => return Ok(link.clone()),
        [_, _, ..] => {
            return Err(Failure::input(
                "--link: a helper lends one link, or leave `uplink` out of its file",
            ));
        }
        [] => {}
    }
    let usable = uplinks().into_iter().filter(Uplink::is_usable);
    let found: Vec<String> = usable.map(|u| u.interface).collect();
    match &found[..] {
        [] => Err(Failure::run(
            "this device has no link with a default route: connect it, or name its interface with \
             --link",
        )),
        [link] => {
            note!("Link to lend: {link}");
            Ok(link.clone())
        }
        [first, ..] => {
            let question = format!("Link to lend, of {} [{first}]", found.join(", "));
            questions.ask(&question, "--link INTERFACE", |answer| match answer {
                "" => Ok(first.clone()),
                _ if found.iter().any(|link| link == answer) => Ok(answer.to_owned()),
                _ => Err(format!("one of {}", found.join(", "))),
            })
        }
    }
}

fn text(name: &str, proxy: &ProxyAddress, link: &str) -> String {
    let quoted = |text: &str| Value::from(text).to_string();
    format!(
        "# Written by `mpbond setup`. Every key: mpbond-helper.toml(5)\n\
         name = {}\n\
         listen = \"{}\"  # on all networks of this device\n\
         proxies = [{}]  # the only servers that it relays to\n\
         uplink = {{ interface = {} }}  # the link that it lends\n\
         # max_bytes_per_month = \"5 GB\"  # left out: no limit\n",
        quoted(name),
        HelperConfig::LISTEN,
        quoted(&proxy.to_string()),
        quoted(link)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_file_is_read_as_it_is_meant() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("helper.toml");
        for (name, proxy) in [
            ("phone", "203.0.113.1:4433"),
            ("my \"old\" phone\\", "[2001:db8::1]:4433"),
            ("téléphone # 2", "proxy.example.org:4433"),
        ] {
            let proxy: ProxyAddress = proxy.parse().unwrap();
            std::fs::write(&path, text(name, &proxy, "usb0")).unwrap();
            let config = HelperConfig::load(&path).unwrap();
            assert_eq!((config.name.as_str(), config.proxies), (name, vec![proxy]));
            assert_eq!(config.listen, HelperConfig::LISTEN);
            assert_eq!(config.uplink.interface.as_deref(), Some("usb0"));
        }
    }
}
