//! Form of the helpers in a primary's configuration file, and its checks. A helper has one pipe,
//! described in its own section, or several in sections `[[helper.pipe]]`. Several sections of one
//! device describe further pipes to it.

use std::net::IpAddr;
use std::ops::Range;

use mpbond_net::DeviceId;
use mpbond_net::pipe::PipeAddress;
use mpbond_price::PipeRadios;
use serde::Deserialize;
use toml::Spanned;

use super::link_names::LinkNames;
use super::primary::{HelperAddress, HelperRef};
use super::source::{ConfigError, Source};
use super::value::{FromText as _, Interface, Name, RadioName, Text};

/// Maximum number of pipes to one device: it accepts twice as many control connections, since lost
/// ones may not have been detected yet.
const MAX_PIPES: usize = 4;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HelperFile {
    name: Option<Spanned<Text<Name>>>,
    id: Option<Text<DeviceId>>,
    address: Option<Spanned<Text<HelperAddress>>>,
    interface: Option<Spanned<Text<Interface>>>,
    source: Option<Spanned<Text<IpAddr>>>,
    backup: Option<Spanned<bool>>,
    ethernet_frames: Option<Spanned<bool>>,
    radio: Option<Spanned<Text<RadioName>>>,
    far_radio: Option<Spanned<Text<RadioName>>>,
    #[serde(default)]
    pipes: Pipes,
    #[serde(default)]
    pipe: Vec<Spanned<PipeFile>>,
}

/// Use of the pipes of a section.
#[derive(Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Pipes {
    #[default]
    All,
    Best,
    App,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PipeFile {
    name: Option<Spanned<Text<Name>>>,
    address: Option<Spanned<Text<HelperAddress>>>,
    interface: Option<Spanned<Text<Interface>>>,
    source: Option<Spanned<Text<IpAddr>>>,
    backup: Option<Spanned<bool>>,
    ethernet_frames: Option<Spanned<bool>>,
    radio: Option<Spanned<Text<RadioName>>>,
    far_radio: Option<Spanned<Text<RadioName>>>,
}

impl HelperFile {
    /// Number of pipes.
    pub(super) fn pipes(&self) -> usize {
        self.pipe.len().max(1)
    }

    /// A key of a pipe that is in the section of the helper, with its place.
    fn key_of_a_pipe(&self) -> Option<(&'static str, Range<usize>)> {
        let keys = [
            ("helper.address", self.address.as_ref().map(Spanned::span)),
            (
                "helper.interface",
                self.interface.as_ref().map(Spanned::span),
            ),
            ("helper.source", self.source.as_ref().map(Spanned::span)),
            ("helper.backup", self.backup.as_ref().map(Spanned::span)),
            (
                "helper.ethernet_frames",
                self.ethernet_frames.as_ref().map(Spanned::span),
            ),
            ("helper.radio", self.radio.as_ref().map(Spanned::span)),
            (
                "helper.far_radio",
                self.far_radio.as_ref().map(Spanned::span),
            ),
        ];
        keys.into_iter().find_map(|(key, span)| Some((key, span?)))
    }
}

/// The pipes to all helpers.
pub(super) fn helper_refs(
    source: &Source<'_>,
    helpers: Vec<Spanned<HelperFile>>,
    names: &mut LinkNames<'_>,
) -> Result<Vec<HelperRef>, ConfigError> {
    let mut all: Vec<Described> = Vec::new();
    for helper in helpers {
        for pipe in pipes_of(source, helper, names)? {
            pipe.check_beside(source, &all)?;
            all.push(pipe);
        }
    }
    for pipe in &all {
        if let Some(key) = all.iter().find_map(|other| pipe.lacks(other)) {
            return Err(source.wrong(
                pipe.section.clone(),
                &format!("{}.{key}", pipe.key),
                "missing: name the radios of all pipes of this helper, by which they are compared, \
                 or of none",
            ));
        }
    }
    Ok(all.into_iter().map(|described| described.pipe).collect())
}

/// A pipe and the place of its description.
struct Described {
    pipe: HelperRef,
    /// Section: `helper` or `helper.pipe`.
    key: &'static str,
    section: Range<usize>,
    address: Range<usize>,
}

impl Described {
    /// Checks it against the pipes before it.
    fn check_beside(&self, source: &Source<'_>, before: &[Self]) -> Result<(), ConfigError> {
        let to_device = |other: &&Self| other.pipe.id == self.pipe.id;
        let others: Vec<&Self> = before.iter().filter(to_device).collect();
        let Some(first) = others.first() else {
            return Ok(());
        };
        // A look-up finds one address, whatever the interface, so it cannot serve several pipes.
        if let Some(pipe) = [*first, self].into_iter().find(|p| p.is_looked_for()) {
            return Err(source.wrong(
                pipe.address.clone(),
                &format!("{}.address", pipe.key),
                "\"discover\" finds one address of a helper, and this one has several pipes: write \
                 the address of each",
            ));
        }
        let way = |p: &HelperRef| (p.address.clone(), p.interface.clone(), p.source);
        if let Some(same) = others.iter().find(|o| way(&o.pipe) == way(&self.pipe)) {
            return Err(source.wrong(
                self.section.clone(),
                self.key,
                format_args!(
                    "the same way as \"{}\": pipes to one helper differ in `address`, `interface` or \
                     `source`",
                    same.pipe.name
                ),
            ));
        }
        if others.len() >= MAX_PIPES {
            return Err(source.wrong(
                self.section.clone(),
                self.key,
                format_args!("at most {MAX_PIPES} pipes to one helper: remove one of them"),
            ));
        }
        Ok(())
    }

    fn is_looked_for(&self) -> bool {
        self.pipe.address == HelperAddress::Discover
    }

    /// A key that it does not have of the radios by which it is compared with this pipe.
    fn lacks(&self, other: &Self) -> Option<&'static str> {
        let is_compared = |pipe: &HelperRef| pipe.place.is_some() && !pipe.backup;
        let (pipe, other) = (&self.pipe, &other.pipe);
        if pipe.id != other.id || !is_compared(pipe) || !is_compared(other) {
            return None;
        }
        match (pipe.radios, other.radios) {
            (None, Some(_)) => Some("radio"),
            (Some(own), Some(other)) if own.far.is_none() && other.far.is_some() => {
                Some("far_radio")
            }
            _ => None,
        }
    }
}

/// The pipes of a section `[[helper]]`.
fn pipes_of(
    source: &Source<'_>,
    helper: Spanned<HelperFile>,
    names: &mut LinkNames<'_>,
) -> Result<Vec<Described>, ConfigError> {
    let span = helper.span();
    let helper = helper.into_inner();
    let Some(Text(id)) = helper.id else {
        return Err(source.wrong(
            span,
            "helper.id",
            "missing: run `mpbond id` on the helper and write what it prints",
        ));
    };
    let place = |pipe: &mut HelperRef, number| {
        pipe.place = (helper.pipes != Pipes::All).then_some(number);
        pipe.by_app = helper.pipes == Pipes::App;
    };
    if helper.pipe.is_empty() {
        let pipe = PipeFile {
            name: helper.name,
            address: helper.address,
            interface: helper.interface,
            source: helper.source,
            backup: helper.backup,
            ethernet_frames: helper.ethernet_frames,
            radio: helper.radio,
            far_radio: helper.far_radio,
        };
        let section = Section {
            source,
            key: "helper",
            id,
        };
        let mut described = section.pipe(pipe, span, None, names)?;
        place(&mut described.pipe, 1);
        return Ok(vec![described]);
    }
    if let Some((key, span)) = helper.key_of_a_pipe() {
        return Err(source.wrong(
            span,
            key,
            "this helper has [[helper.pipe]] sections: move the key into one of them",
        ));
    }
    let section = Section {
        source,
        key: "helper.pipe",
        id,
    };
    let name = helper.name.map(|name| name.into_inner().0.0);
    let pipes = helper.pipe.into_iter().zip(1..);
    let described = pipes.map(|(pipe, number)| {
        let span = pipe.span();
        let name = name.as_deref().map(|name| numbered(name, number));
        let mut described = section.pipe(pipe.into_inner(), span, name, names)?;
        place(&mut described.pipe, number);
        Ok(described)
    });
    described.collect()
}

/// The name of a helper's pipe that has none. It follows from the place in the list: when a pipe
/// before it is removed, the name is another one.
pub(super) fn numbered(helper: &str, number: usize) -> String {
    match number {
        1 => helper.to_owned(),
        n => format!("{helper} {n}"),
    }
}

/// A section that describes a pipe.
struct Section<'a> {
    source: &'a Source<'a>,
    /// `helper` or `helper.pipe`.
    key: &'static str,
    /// Device at the far end.
    id: DeviceId,
}

impl Section<'_> {
    fn pipe(
        &self,
        pipe: PipeFile,
        span: Range<usize>,
        default_name: Option<String>,
        names: &mut LinkNames<'_>,
    ) -> Result<Described, ConfigError> {
        let Some(address) = pipe.address else {
            let or_discover = match self.key {
                "helper" => ", or \"discover\"",
                _ => "",
            };
            return Err(self.source.wrong(
                span,
                &format!("{}.address", self.key),
                format_args!(
                    "missing: write the helper's address and port on the network that you share, \
                     such as \"192.168.49.2:4434\"{or_discover}"
                ),
            ));
        };
        let (address, address_span) = (address.get_ref().0.clone(), address.span());
        let bound = [
            ("interface", pipe.interface.as_ref().map(Spanned::span)),
            ("source", pipe.source.as_ref().map(Spanned::span)),
            (
                "ethernet_frames",
                pipe.ethernet_frames.as_ref().map(Spanned::span),
            ),
        ];
        if let HelperAddress::At(PipeAddress::Unix(_)) = address
            && let Some((key, span)) = bound.into_iter().find_map(|(key, span)| Some((key, span?)))
        {
            let key = format!("{}.{key}", self.key);
            let problem = "a pipe over a Unix socket has none: remove this key";
            return Err(self.source.wrong(span, &key, problem));
        }
        let section = span.clone();
        let key = format!("{}.name", self.key);
        let (name, span) = match pipe.name {
            Some(name) => (name.get_ref().0.0.clone(), name.span()),
            None => (
                self.default_name(&address, default_name, &key, &span)?,
                span,
            ),
        };
        names.add(&key, &name, span)?;
        let radios = self.radios(pipe.radio, pipe.far_radio)?;
        let pipe = HelperRef {
            name,
            address,
            id: self.id,
            interface: pipe.interface.map(|t| t.into_inner().0.0),
            source: pipe.source.map(|t| t.into_inner().0),
            backup: pipe.backup.is_some_and(Spanned::into_inner),
            place: None,
            ethernet_frames: pipe.ethernet_frames.is_some_and(Spanned::into_inner),
            by_app: false,
            radios,
        };
        Ok(Described {
            pipe,
            key: self.key,
            section,
            address: address_span,
        })
    }

    /// The radios of a pipe, where they are named.
    fn radios(
        &self,
        near: Option<Spanned<Text<RadioName>>>,
        far: Option<Spanned<Text<RadioName>>>,
    ) -> Result<Option<PipeRadios>, ConfigError> {
        if let (None, Some(far)) = (&near, &far) {
            return Err(self.source.wrong(
                far.span(),
                &format!("{}.far_radio", self.key),
                "the radio of the helper alone: name that of this device as well, by `radio`",
            ));
        }
        let named = |name: Spanned<Text<RadioName>>| name.into_inner().0.0;
        Ok(near.map(|near| PipeRadios {
            near: named(near),
            far: far.map(named),
        }))
    }

    /// The name of a pipe that has none: the given one, the address, or the beginning of the id.
    fn default_name(
        &self,
        address: &HelperAddress,
        given: Option<String>,
        key: &str,
        span: &Range<usize>,
    ) -> Result<String, ConfigError> {
        let name = match (given, address) {
            (Some(given), _) => given,
            (None, HelperAddress::At(address)) => address.to_string(),
            (None, HelperAddress::Discover) => format!("helper {}", self.id.short()),
        };
        match Name::from_text(&name) {
            Ok(_) => Ok(name),
            // With its number, the helper's name is too long.
            Err(_) => Err(self.source.wrong(
                span.clone(),
                key,
                format_args!("missing: \"{name}\" is too long for a name, so write one here"),
            )),
        }
    }
}
