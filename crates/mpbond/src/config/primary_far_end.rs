//! A proxy or a helper, added to a primary's configuration by a program.

use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;

use mpbond_net::DeviceId;
use mpbond_net::pipe::PipeAddress;
use toml_edit::{ArrayOfTables, Item, Table, TableLike, Value, value};

use super::primary::ProxyAddress;
use super::primary_edit::{
    PrimaryEdit, edit_keys, keys, parsed, rewrite, tables, tables_mut, text,
};
use super::primary_helpers::numbered;
use super::primary_links::{PATH, insert_links};
use super::source::{ConfigError, Source};

/// Sections of a helper's pipes, within that of the helper.
const PIPE: &str = "pipe";

/// A device that a primary calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FarEnd {
    /// The proxy of its sessions.
    Proxy {
        /// Its address.
        address: ProxyAddress,
        /// Its id.
        id: DeviceId,
    },
    /// A helper.
    Helper {
        /// Name shown to people.
        name: String,
        /// Its address.
        address: PipeAddress,
        /// Its id.
        id: DeviceId,
        /// Interface through which it is reached.
        interface: Option<String>,
    },
}

impl PrimaryEdit {
    /// Adds a proxy or helper to the primary's configuration in this file, which need not exist
    /// yet. One that is known already gets its new address, or a further section, where all of its
    /// pipes are bound to other interfaces. A file without a path of its own gets one for each of
    /// these interfaces.
    ///
    /// # Errors
    /// When the file cannot be read or written, is no primary's configuration, or names another
    /// proxy. Nothing has been changed then.
    pub fn make(path: &Path, far: &FarEnd, own: &[String]) -> Result<Self, ConfigError> {
        Self::change(path, |source| edited(source, far, own))
    }

    /// The same in the place of a file that may be there, of which nothing is kept.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn make_anew(path: &Path, far: &FarEnd, own: &[String]) -> Result<Self, ConfigError> {
        Self::change_of(path, |_| String::new(), |source| edited(source, far, own))
    }

    /// Whether a file is there and names a proxy.
    ///
    /// # Errors
    /// When it cannot be read or is no TOML.
    pub fn has_proxy(path: &Path) -> Result<bool, ConfigError> {
        if !path.exists() {
            return Ok(false);
        }
        let source = Source::read(path)?;
        let document = parsed(&source)?;
        Ok(keys(document.as_table()).get("proxy").is_some())
    }
}

/// The text with the device in it.
fn edited(source: &Source<'_>, far: &FarEnd, own: &[String]) -> Result<String, ConfigError> {
    let document = parsed(source)?;
    let proxy = keys(document.as_table()).get("proxy");
    let proxy_span = proxy.and_then(Item::span);
    let mut document = document.into_mut();
    edit_keys(&mut document, |keys| {
        add_far_end(keys, source, proxy_span, far)?;
        if keys.get(PATH).is_none() {
            insert_links(keys, own);
        }
        Ok(())
    })?;
    Ok(document.to_string())
}

fn add_far_end(
    document: &mut Table,
    source: &Source<'_>,
    proxy_span: Option<Range<usize>>,
    far: &FarEnd,
) -> Result<(), ConfigError> {
    // An empty line before a new section, unless it begins the file.
    let prefix = if source.text().is_empty() { "" } else { "\n" };
    match far {
        FarEnd::Proxy { address, id } => {
            let Some(proxy) = document.get_mut("proxy") else {
                let section = far_end(None, &address.to_string(), *id, prefix);
                document.insert("proxy", Item::Table(section));
                return Ok(());
            };
            match proxy.as_table_like_mut() {
                Some(known) if is_device(known, *id) => readdress(known, &address.to_string()),
                _ => {
                    return Err(source.wrong(
                        proxy_span.unwrap_or_default(),
                        "proxy",
                        "names another proxy, and a primary has one: remove this section to use \
                         the new one",
                    ));
                }
            }
        }
        FarEnd::Helper {
            name,
            address,
            id,
            interface,
        } => {
            let (name, address) = (unused(document, name), address.to_string());
            let helpers = document
                .entry("helper")
                .or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
            if readdress_helper(helpers, *id, &address, interface.as_deref()) {
                return Ok(());
            }
            let mut helper = far_end(Some(name), &address, *id, prefix);
            if let Some(interface) = interface {
                helper.insert("interface", value(interface));
            }
            match helpers {
                Item::ArrayOfTables(all) => all.push(helper),
                Item::Value(Value::Array(all)) => all.push(helper.into_inline_table()),
                // The form has been checked.
                _ => return Err(ConfigError::about_file(source.file, "helper: not a list")),
            }
        }
    }
    Ok(())
}

/// A section for a device.
fn far_end(name: Option<String>, address: &str, id: DeviceId, prefix: &str) -> Table {
    let mut table = Table::new();
    if let Some(name) = name {
        table.insert("name", value(name));
    }
    table.insert("address", value(address));
    table.insert("id", value(id.to_string()));
    table.decor_mut().set_prefix(prefix);
    table
}

fn is_device(table: &dyn TableLike, id: DeviceId) -> bool {
    text(table, "id").is_some_and(|known| known.parse() == Ok(id))
}

/// Writes another address of a helper, unless one of its pipes has it already. Of several pipes
/// over a network, the one through the same interface gets it, else one that is bound to nothing. A
/// Unix socket is a pipe of its own, and takes the place of none.
///
/// Returns whether there is such a pipe. If not, the address is that of a further one.
fn readdress_helper(
    helpers: &mut Item,
    id: DeviceId,
    address: &str,
    interface: Option<&str>,
) -> bool {
    let known = tables(helpers).filter(|known| is_device(*known, id));
    let pipes: Vec<&dyn TableLike> = known.flat_map(pipes).collect();
    if pipes
        .iter()
        .any(|pipe| text(*pipe, "address") == Some(address))
    {
        return true;
    }
    let is_there =
        |pipe: &&dyn TableLike| interface.is_some() && text(*pipe, "interface") == interface;
    let is_free =
        |pipe: &&dyn TableLike| pipe.get("interface").is_none() && pipe.get("source").is_none();
    if is_unix(address) {
        return false;
    }
    let is_unix = |pipe: &&dyn TableLike| text(*pipe, "address").is_some_and(is_unix);
    let of_networks: Vec<usize> = (0..)
        .zip(&pipes)
        .filter(|(_, pipe)| !is_unix(pipe))
        .map(|(place, _)| place)
        .collect();
    let first = |matches: &dyn Fn(&&dyn TableLike) -> bool| {
        let matches = |place: &&usize| pipes.get(**place).is_some_and(matches);
        of_networks.iter().find(matches).copied()
    };
    let place = match of_networks[..] {
        [only] => Some(only),
        _ => first(&is_there).or_else(|| first(&is_free)),
    };
    let Some(place) = place else {
        return false;
    };
    let known = tables_mut(helpers).filter(|known| is_device(*known, id));
    if let Some(pipe) = known.flat_map(pipes_mut).nth(place) {
        readdress(pipe, address);
    }
    true
}

fn is_unix(address: &str) -> bool {
    matches!(address.parse(), Ok(PipeAddress::Unix(_)))
}

/// The tables that describe the pipes of a section: those in it, or itself.
fn pipes(helper: &dyn TableLike) -> Vec<&dyn TableLike> {
    let several: Vec<_> = helper.get(PIPE).into_iter().flat_map(tables).collect();
    match several.is_empty() {
        true => vec![helper],
        false => several,
    }
}

fn pipes_mut(helper: &mut dyn TableLike) -> Vec<&mut dyn TableLike> {
    match helper
        .get(PIPE)
        .is_some_and(|list| tables(list).next().is_some())
    {
        true => helper
            .get_mut(PIPE)
            .into_iter()
            .flat_map(tables_mut)
            .collect(),
        false => vec![helper],
    }
}

/// Writes another address in the place of the one that is there, whose comment stays, or at the end
/// of a list.
fn readdress(table: &mut dyn TableLike, address: &str) {
    let Some(written) = table.get_mut("address").and_then(Item::as_value_mut) else {
        return;
    };
    let is_same = |value: &Value| value.as_str() == Some(address);
    if let Value::Array(several) = written {
        if !several.iter().any(is_same) {
            several.push(address);
        }
        return;
    }
    // A name, or a helper that is looked for, is found at its new address anyway.
    let is_address = written
        .as_str()
        .is_some_and(|old| old.parse::<SocketAddr>().is_ok());
    if is_address && !is_same(written) {
        rewrite(written, address);
    }
}

/// Names that a link may have: without a `name` it is called by one of the others.
fn names(link: &dyn TableLike) -> impl Iterator<Item = String> {
    let keys = ["name", "interface", "source", "address"].into_iter();
    keys.filter_map(|key| text(link, key).map(str::to_owned))
}

/// The name; with a number where another link has it.
fn unused(document: &Table, name: &str) -> String {
    let mut taken = vec!["direct".to_owned()];
    let lists = [PATH, "helper"].map(|list| document.get(list));
    for table in lists.into_iter().flatten().flat_map(tables) {
        let pipes = table.get(PIPE).into_iter().flat_map(tables);
        for (pipe, number) in pipes.zip(1..) {
            taken.extend(names(pipe));
            taken.extend(text(table, "name").map(|name| numbered(name, number)));
        }
        taken.extend(names(table));
    }
    (1..)
        .map(|number| numbered(name, number))
        .find(|candidate| !taken.contains(candidate))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::primary::{HelperAddress, PrimaryConfig};
    use super::*;

    const FULL: &str = "# my laptop\n[proxy]\naddress = \"203.0.113.1:4433\" # at home\nid = \"PROXY\"\n\n\
        [[path]]\nname = \"lte\"\ninterface = \"wwan0\"\n";

    fn id(n: u8) -> DeviceId {
        DeviceId::from_bytes([n; 32])
    }

    fn proxy(n: u8, address: &str) -> FarEnd {
        FarEnd::Proxy {
            address: address.parse().unwrap(),
            id: id(n),
        }
    }

    fn helper(n: u8, name: &str, address: &str) -> FarEnd {
        FarEnd::Helper {
            name: name.to_owned(),
            address: address.parse().unwrap(),
            id: id(n),
            interface: None,
        }
    }

    struct File {
        _folder: tempfile::TempDir,
        path: PathBuf,
    }

    impl File {
        fn new(text: Option<&str>) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("deep/primary.toml");
            if let Some(text) = text {
                std::fs::create_dir(folder.path().join("deep")).unwrap();
                std::fs::write(&path, text.replace("PROXY", &id(1).to_string())).unwrap();
            }
            Self {
                _folder: folder,
                path,
            }
        }

        fn text(&self) -> String {
            std::fs::read_to_string(&self.path).unwrap()
        }
    }

    #[test]
    fn what_people_wrote_stays() {
        let file = File::new(Some(FULL));
        let before = file.text();
        let edit = PrimaryEdit::make(&file.path, &helper(2, "lte", "10.0.0.2:4434"), &[]).unwrap();
        let after = file.text();
        assert!(edit.is_change() && after.starts_with(&before), "{after}");
        let config = PrimaryConfig::load(&file.path).unwrap();
        let found = &config.helpers[0];
        assert_eq!(
            (found.name.as_str(), found.id),
            ("lte 2", id(2)),
            "lte is a path's name"
        );
        let at = HelperAddress::At("10.0.0.2:4434".parse().unwrap());
        assert_eq!(found.address, at);

        // The same device again, elsewhere: one address changes.
        PrimaryEdit::make(&file.path, &helper(2, "other", "10.9.9.9:4434"), &[]).unwrap();
        assert_eq!(file.text(), after.replace("10.0.0.2", "10.9.9.9"));
        let same =
            PrimaryEdit::make(&file.path, &helper(2, "other", "10.9.9.9:4434"), &[]).unwrap();
        assert!(!same.is_change());
        edit.undo().unwrap();
        assert_ne!(file.text(), before, "edited since: left alone");

        // One that is looked for goes on being looked for.
        let text = file.text().replace("10.9.9.9:4434", "discover");
        std::fs::write(&file.path, &text).unwrap();
        let same =
            PrimaryEdit::make(&file.path, &helper(2, "other", "10.8.8.8:4434"), &[]).unwrap();
        assert!(!same.is_change());

        PrimaryEdit::make(&file.path, &proxy(1, "203.0.113.9:4433"), &[]).unwrap();
        assert!(
            file.text().contains("\"203.0.113.9:4433\" # at home"),
            "{}",
            file.text()
        );
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(&file.path).unwrap().permissions(),
        );
        assert_ne!(mode & 0o777, 0o600, "its owner's business");
    }

    /// One that is paired again gets its address where the network is the same.
    #[test]
    fn of_several_pipes_the_one_through_the_same_interface_gets_the_address() {
        let pipes = "[[helper]]\nname = \"phone\"\nid = \"ID\"\n\
            [[helper.pipe]]\naddress = \"10.0.0.2:4434\" # wifi\ninterface = \"wlan0\"\n\
            [[helper.pipe]]\naddress = \"10.0.1.2:4434\"\ninterface = \"usb0\"\n";
        let pipes = pipes.replace("ID", &id(2).to_string());
        let paired = |address: &str, interface: Option<&str>| {
            let file = File::new(Some(&(FULL.to_owned() + &pipes)));
            let far = FarEnd::Helper {
                name: "phone".to_owned(),
                address: address.parse().unwrap(),
                id: id(2),
                interface: interface.map(str::to_owned),
            };
            let edit = PrimaryEdit::make(&file.path, &far, &[]).unwrap();
            PrimaryConfig::load(&file.path).unwrap();
            edit.is_change().then(|| file.text())
        };
        for (interface, old) in [
            (Some("usb0"), "10.0.1.2:4434"),
            (Some("wlan0"), "10.0.0.2:4434"),
        ] {
            let text = paired("10.9.9.9:4434", interface).unwrap();
            let expected = pipes.replace(old, "10.9.9.9:4434");
            assert!(text.ends_with(&expected), "{interface:?}: {text}");
        }
        assert_eq!(paired("10.0.1.2:4434", None), None);

        // Elsewhere, both pipes stay as they are.
        let another = format!(
            "{pipes}\n[[helper]]\nname = \"phone 3\"\naddress = \"10.9.9.9:4434\"\nid = \"{}\"\n",
            id(2)
        );
        let text = paired("10.9.9.9:4434", None).unwrap();
        assert!(text.ends_with(&another), "{text}");
        let text = paired("10.9.9.9:4434", Some("eth0")).unwrap();
        let bound = another + "interface = \"eth0\"\n";
        assert!(text.ends_with(&bound), "{text}");

        // Another helper's name is none of the pipes' either.
        let file = File::new(Some(&(FULL.to_owned() + &pipes)));
        PrimaryEdit::make(&file.path, &helper(3, "phone", "10.0.2.2:1"), &[]).unwrap();
        let config = PrimaryConfig::load(&file.path).unwrap();
        let names: Vec<_> = config.helpers.iter().map(|h| h.name.as_str()).collect();
        assert_eq!(names, ["phone", "phone 2", "phone 3"]);
    }

    #[test]
    fn a_unix_socket_takes_the_place_of_no_network_address_nor_the_reverse() {
        let file = File::new(Some(FULL));
        let pair = |address: &str| {
            let edit = PrimaryEdit::make(&file.path, &helper(2, "phone", address), &[]).unwrap();
            let config = PrimaryConfig::load(&file.path).unwrap();
            let pipes = config.helpers.iter();
            let pipes = pipes.map(|h| (h.name.clone(), h.address.to_string()));
            (edit.is_change(), pipes.collect::<Vec<_>>())
        };
        let of = |name: &str, address: &str| (name.to_owned(), address.to_owned());
        let unix = of("phone", "unix:/run/phone.sock");
        assert_eq!(pair("unix:/run/phone.sock"), (true, vec![unix.clone()]));
        assert!(!pair("unix:/run/phone.sock").0);
        let wifi = of("phone 2", "10.0.0.2:4434");
        assert_eq!(pair("10.0.0.2:4434"), (true, vec![unix.clone(), wifi]));
        // Of both, the one over a network is readdressed.
        let wifi = of("phone 2", "10.0.0.3:4434");
        let both = vec![unix.clone(), wifi.clone()];
        assert_eq!(pair("10.0.0.3:4434"), (true, both.clone()));
        assert_eq!(pair("unix:/run/phone.sock"), (false, both));
        let other = of("phone 3", "unix:/run/other.sock");
        assert_eq!(
            pair("unix:/run/other.sock"),
            (true, vec![unix, wifi, other])
        );
    }

    /// Sections of one device are its pipes, too, and an empty list of pipes is none.
    #[test]
    fn a_pipe_that_is_bound_to_nothing_gets_the_address_in_every_form() {
        let unbound = "address = \"10.0.1.2:4434\"\n";
        let forms = [
            "[[helper]]\nid = \"ID\"\npipe = []\nADDRESS",
            "[[helper]]\nid = \"ID\"\naddress = \"10.0.0.2:4434\"\ninterface = \"wlan0\"\n\
             [[helper]]\nid = \"ID\"\nADDRESS",
            "[[helper]]\nid = \"ID\"\n[[helper.pipe]]\naddress = \"10.0.0.2:4434\"\n\
             source = \"10.0.0.1\"\n[[helper.pipe]]\nADDRESS",
        ];
        for form in forms {
            let form = form.replace("ADDRESS", unbound);
            let form = form.replace("ID", &id(2).to_string());
            let file = File::new(Some(&(FULL.to_owned() + &form)));
            let far = FarEnd::Helper {
                name: "phone".to_owned(),
                address: "10.9.9.9:4434".parse().unwrap(),
                id: id(2),
                interface: Some("usb0".to_owned()),
            };
            PrimaryEdit::make(&file.path, &far, &[]).unwrap();
            PrimaryConfig::load(&file.path).unwrap();
            let expected = form.replace("10.0.1.2", "10.9.9.9");
            assert!(file.text().ends_with(&expected), "{}", file.text());
        }
    }

    #[test]
    fn an_address_is_added_to_a_list_and_a_name_stays() {
        let several = "[\"proxy.example.org:4433\", \"203.0.113.1:4433\"]";
        let file = File::new(Some(&FULL.replace("\"203.0.113.1:4433\"", several)));
        PrimaryEdit::make(&file.path, &proxy(1, "203.0.113.1:4433"), &[]).unwrap();
        assert!(file.text().contains(several), "{}", file.text());
        PrimaryEdit::make(&file.path, &proxy(1, "[2001:db8::1]:4433"), &[]).unwrap();
        let more = several.replace(']', ", \"[2001:db8::1]:4433\"]");
        assert!(file.text().contains(&more), "{}", file.text());

        let name = "\"proxy.example.org:4433\"";
        let file = File::new(Some(&FULL.replace("\"203.0.113.1:4433\"", name)));
        let same = PrimaryEdit::make(&file.path, &proxy(1, "203.0.113.1:4433"), &[]).unwrap();
        assert!(!same.is_change());
    }

    /// With them a primary starts; paths that people wrote stay alone.
    #[test]
    fn a_primary_without_paths_gets_its_own_links() {
        let own = ["wlan0", "wwan0"].map(str::to_owned);
        let file = File::new(None);
        let far = proxy(1, "203.0.113.1:4433");
        PrimaryEdit::make(&file.path, &far, &own).unwrap();
        let expected = format!(
            "[proxy]\naddress = \"203.0.113.1:4433\"\nid = \"{}\"\n\n[[path]]\n\
             interface = \"wlan0\"\n\n[[path]]\ninterface = \"wwan0\"\n",
            id(1)
        );
        assert_eq!(file.text(), expected);
        PrimaryConfig::load(&file.path).unwrap();
        let far = FarEnd::Helper {
            name: "phone".to_owned(),
            address: "10.0.0.2:4434".parse().unwrap(),
            id: id(2),
            interface: Some("usb0".to_owned()),
        };
        PrimaryEdit::make(&file.path, &far, &["eth0".to_owned()]).unwrap();
        let config = PrimaryConfig::load(&file.path).unwrap();
        let names: Vec<&str> = config.paths.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["wlan0", "wwan0"]);
        assert_eq!(config.helpers[0].interface.as_deref(), Some("usb0"));
    }

    #[test]
    fn a_proxy_is_written_by_its_name() {
        let file = File::new(Some(FULL));
        PrimaryEdit::make(&file.path, &proxy(1, "proxy.example.org:4433"), &[]).unwrap();
        let name = "\"proxy.example.org:4433\" # at home";
        assert!(file.text().contains(name), "{}", file.text());
    }

    #[test]
    fn lists_in_one_line_stay_so() {
        let file = File::new(Some("helper = []\n"));
        PrimaryEdit::make(&file.path, &helper(2, "h", "10.0.0.2:1"), &[]).unwrap();
        let text = file.text();
        assert!(
            text.starts_with("helper = [{") && text.lines().count() == 1,
            "{text}"
        );
        PrimaryEdit::make(&file.path, &helper(2, "h", "10.0.0.3:1"), &[]).unwrap();
        assert_eq!(file.text(), text.replace("10.0.0.2", "10.0.0.3"));
    }

    #[test]
    fn a_file_is_begun_and_taken_back() {
        let file = File::new(None);
        let edit = PrimaryEdit::make(&file.path, &proxy(1, "203.0.113.1:4433"), &[]).unwrap();
        let hostile = "x\"\n[[path]]\nname = \"y";
        let second = PrimaryEdit::make(&file.path, &helper(2, hostile, "[fd00::1]:4434"), &[]);
        // A name that no configuration takes is refused as a whole.
        assert!(second.is_err(), "{}", file.text());
        let second = PrimaryEdit::make(&file.path, &helper(2, "a \"b\" \\", "[fd00::1]:4434"), &[]);
        let config = PrimaryConfig::load(&file.path).unwrap();
        assert_eq!(config.proxy.id, id(1));
        assert_eq!(config.helpers[0].name, "a \"b\" \\");
        second.unwrap().undo().unwrap();
        edit.undo().unwrap();
        assert!(!file.path.exists());
    }

    #[test]
    fn another_proxy_is_not_replaced_and_nothing_bad_is_written() {
        for (text, far, said) in [
            (
                FULL,
                proxy(3, "203.0.113.1:4433"),
                "primary.toml:2: proxy: names another proxy",
            ),
            (
                "proxi = 3\n",
                proxy(1, "203.0.113.1:4433"),
                "primary.toml:1: proxi: unknown key",
            ),
            (
                "helper = 3\n",
                helper(2, "h", "10.0.0.2:1"),
                "primary.toml:",
            ),
        ] {
            let file = File::new(Some(text));
            let before = file.text();
            let error = PrimaryEdit::make(&file.path, &far, &[])
                .unwrap_err()
                .to_string();
            assert!(error.contains(said), "{error}");
            assert_eq!(file.text(), before);
        }
    }
}
