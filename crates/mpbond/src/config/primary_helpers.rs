//! Form of the helpers in a primary's configuration file, and its checks. A helper has one pipe,
//! described in its own section, or several in sections `[[helper.pipe]]`.

use std::net::IpAddr;
use std::ops::Range;

use mpbond_net::DeviceId;
use serde::Deserialize;
use toml::Spanned;

use super::link_names::LinkNames;
use super::primary::{HelperAddress, HelperRef};
use super::source::{ConfigError, Source};
use super::value::{FromText as _, Interface, Name, Text};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HelperFile {
    name: Option<Spanned<Text<Name>>>,
    id: Option<Text<DeviceId>>,
    address: Option<Spanned<Text<HelperAddress>>>,
    interface: Option<Spanned<Text<Interface>>>,
    source: Option<Spanned<Text<IpAddr>>>,
    backup: Option<Spanned<bool>>,
    #[serde(default)]
    pipe: Vec<Spanned<PipeFile>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PipeFile {
    name: Option<Spanned<Text<Name>>>,
    address: Option<Spanned<Text<HelperAddress>>>,
    interface: Option<Spanned<Text<Interface>>>,
    source: Option<Spanned<Text<IpAddr>>>,
    backup: Option<Spanned<bool>>,
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
        ];
        keys.into_iter().find_map(|(key, span)| Some((key, span?)))
    }
}

/// The pipes to a helper.
pub(super) fn helper_refs(
    source: &Source<'_>,
    helper: Spanned<HelperFile>,
    names: &mut LinkNames<'_>,
) -> Result<Vec<HelperRef>, ConfigError> {
    let span = helper.span();
    let helper = helper.into_inner();
    let Some(Text(id)) = helper.id else {
        return Err(source.wrong(
            span,
            "helper.id",
            "missing: run `mpbond id` on the helper and write what it prints",
        ));
    };
    if helper.pipe.is_empty() {
        let pipe = PipeFile {
            name: helper.name,
            address: helper.address,
            interface: helper.interface,
            source: helper.source,
            backup: helper.backup,
        };
        let section = Section {
            source,
            key: "helper",
            id,
        };
        return Ok(vec![section.pipe(pipe, span, None, names)?]);
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
    let mut pipes: Vec<HelperRef> = Vec::new();
    for (pipe, number) in helper.pipe.into_iter().zip(1..) {
        let span = pipe.span();
        let name = name.as_deref().map(|name| numbered(name, number));
        let pipe = section.pipe(pipe.into_inner(), span.clone(), name, names)?;
        let way = |p: &HelperRef| (p.address, p.interface.clone(), p.source);
        if let Some(same) = pipes.iter().find(|other| way(other) == way(&pipe)) {
            return Err(source.wrong(
                span,
                "helper.pipe",
                format_args!(
                    "the same way as \"{}\": pipes to one helper differ in `address`, `interface` or \
                     `source`",
                    same.name
                ),
            ));
        }
        pipes.push(pipe);
    }
    Ok(pipes)
}

/// The name of a helper's pipe that has none.
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
    ) -> Result<HelperRef, ConfigError> {
        let Some(address) = pipe.address.map(|a| a.into_inner().0) else {
            return Err(self.source.wrong(
                span,
                &format!("{}.address", self.key),
                "missing: write the helper's address and port on the network that you share, \
                 such as \"192.168.49.2:4434\", or \"discover\"",
            ));
        };
        let key = format!("{}.name", self.key);
        let (name, span) = match pipe.name {
            Some(name) => (name.get_ref().0.0.clone(), name.span()),
            None => (self.default_name(address, default_name, &key, &span)?, span),
        };
        names.add(&key, &name, span)?;
        Ok(HelperRef {
            name,
            address,
            id: self.id,
            interface: pipe.interface.map(|t| t.into_inner().0.0),
            source: pipe.source.map(|t| t.into_inner().0),
            backup: pipe.backup.is_some_and(Spanned::into_inner),
        })
    }

    /// The name of a pipe that has none: the given one, the address, or the beginning of the id.
    fn default_name(
        &self,
        address: HelperAddress,
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
