//! Sets of applications and of control groups.

use crate::value::{FromText, Name};

/// Identifier of an application.
#[derive(Debug, Clone)]
pub(crate) struct App(pub String);

impl FromText for App {
    const EXPECTED: &'static str =
        "an application such as \"org.mozilla.firefox\", or a unit such as \"restic.service\"";

    fn from_text(text: &str) -> Result<Self, String> {
        if text.contains('/') {
            let problem = Self::unexpected(text);
            return Err(format!(
                "{problem}; a control group is written as \"cgroup\""
            ));
        }
        if text.contains('*') {
            return Err("an application has no \"*\": list each one".to_owned());
        }
        Name::from_text(text).map(|Name(name)| Self(name))
    }
}

/// Set of applications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Apps(Vec<String>);

impl Apps {
    pub(crate) fn new(apps: Vec<App>) -> Self {
        let mut names: Vec<_> = apps.into_iter().map(|App(name)| name).collect();
        names.sort_unstable();
        Self(names)
    }

    pub(crate) fn contains(&self, app: &str) -> bool {
        self.0
            .binary_search_by(|name| name.as_str().cmp(app))
            .is_ok()
    }

    pub(crate) fn covers(&self, other: &Self) -> bool {
        other.0.iter().all(|name| self.contains(name))
    }
}

/// Path of a control group below the root of its hierarchy.
#[derive(Debug, Clone)]
pub(crate) struct Cgroup(pub String);

/// Maximum length of a path of a control group: that of the kernel (PATH_MAX), less its end.
const MAX_CGROUP_BYTES: usize = 4095;

impl FromText for Cgroup {
    const EXPECTED: &'static str = "a control group such as \"/system.slice/restic.service\"";

    fn from_text(text: &str) -> Result<Self, String> {
        if text == "/" {
            return Err("every process is in or below \"/\": leave the condition out".to_owned());
        }
        let plain = |part: &str| {
            !matches!(part, "" | "." | "..") && part.chars().all(mpbond_units::is_printable)
        };
        let fits = text.len() <= MAX_CGROUP_BYTES;
        match text.strip_prefix('/') {
            Some(rest) if fits && rest.split('/').all(plain) => Ok(Self(text.to_owned())),
            _ => Err(Self::unexpected(text)),
        }
    }
}

/// Set of control groups, each with those below it; none of the sorted paths is below another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cgroups(Vec<String>);

impl Cgroups {
    pub(crate) fn new(groups: Vec<Cgroup>) -> Self {
        let mut paths: Vec<_> = groups.into_iter().map(|Cgroup(path)| path).collect();
        paths.sort_unstable_by(|one, other| closed(one).cmp(closed(other)));
        paths.dedup_by(|path, kept| is_within(path, kept));
        Self(paths)
    }

    /// Whether the set contains a group: the group itself, or one above it, is listed.
    pub(crate) fn contains(&self, path: &str) -> bool {
        let after = self.0.partition_point(|own| closed(own).le(closed(path)));
        let candidate = self.0.get(..after).and_then(<[_]>::last);
        candidate.is_some_and(|own| is_within(path, own))
    }

    pub(crate) fn covers(&self, other: &Self) -> bool {
        other.0.iter().all(|path| self.contains(path))
    }
}

/// The path with a slash behind: a prefix of those of the groups below it.
fn closed(path: &str) -> impl Iterator<Item = u8> {
    path.bytes().chain(std::iter::once(b'/'))
}

/// Whether a group is another one, or below it.
fn is_within(path: &str, group: &str) -> bool {
    let rest = path.strip_prefix(group);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(paths: &[&str]) -> Cgroups {
        let parse = |text: &&str| Cgroup::from_text(text).unwrap();
        Cgroups::new(paths.iter().map(parse).collect())
    }

    #[test]
    fn a_group_contains_those_below_it() {
        let set = groups(&["/user.slice", "/system.slice/restic.service"]);
        for (path, inside) in [
            ("/user.slice", true),
            ("/user.slice/user-1000.slice/app.scope", true),
            ("/user.slices", false),
            ("/system.slice", false),
            ("/system.slice/restic.service", true),
            ("/system.slice/restic.service2", false),
            ("/", false),
            ("", false),
        ] {
            assert_eq!(set.contains(path), inside, "{path}");
        }
        assert!(groups(&["/a"]).covers(&groups(&["/a", "/a/b"])));
        assert!(!groups(&["/a/b"]).covers(&groups(&["/a"])));
    }

    proptest::proptest! {
        #[test]
        fn a_set_contains_what_one_of_its_groups_does(
            listed in proptest::collection::vec("(/([ab]|a-b)){1,4}", 1..6),
            path in "(/([ab]|a-b)){0,5}",
        ) {
            let listed: Vec<_> = listed.iter().map(String::as_str).collect();
            let mut whole = listed.iter().map(|group| format!("{group}/"));
            let want = whole.any(|group| format!("{path}/").starts_with(&group));
            proptest::prop_assert_eq!(groups(&listed).contains(&path), want);
        }
    }

    #[test]
    fn what_is_no_group_or_application_is_refused() {
        for bad in ["/", "", "a", "/a/", "//a", "/a/../b", "/a\u{1b}"] {
            assert!(Cgroup::from_text(bad).is_err(), "{bad}");
        }
        for bad in ["", "/usr/bin/firefox", "org.*", " a", "a\n"] {
            assert!(App::from_text(bad).is_err(), "{bad}");
        }
    }
}
