//! Groups of managed functions: OS services and packages of data structures.

use serde::Deserialize;

/// Groups of Figure 3(c) and Table 2 of the Android Wear characterization.
const SHIPPED: &str = include_str!("../data/function_groups.toml");

/// Named groups of functions, from TOML: OS services (Android Wear characterization, Figure 3(c)),
/// packages of basic data structures (its Table 2), or user-defined ones.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FunctionGroups {
    /// OS services, by inclusive time: the time saved if the service were not called.
    #[serde(default)]
    pub service: Vec<FunctionGroup>,
    /// Packages of data structures, by exclusive time: the time that faster code could save.
    #[serde(default)]
    pub package: Vec<FunctionGroup>,
}

/// One group of functions.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FunctionGroup {
    /// Name of the group, as printed in tables.
    pub name: String,
    /// Prefixes of `class.method`; a function with one of these prefixes belongs to the group.
    pub prefixes: Vec<String>,
}

impl FunctionGroups {
    /// The groups of the Android Wear characterization (`data/function_groups.toml`).
    pub fn shipped() -> Self {
        toml::from_str(SHIPPED).unwrap_or(Self {
            service: Vec::new(),
            package: Vec::new(),
        })
    }

    /// Parses groups from TOML: `[[service]]` and `[[package]]` tables with `name` and `prefixes`.
    ///
    /// # Errors
    /// One line with the line number and the cause.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|e| crate::error::toml_error(text, &e))
    }

    /// Index in `list` of the group with the longest prefix that matches a function, so that a
    /// group can be a subset of another one.
    pub(crate) fn find(list: &[FunctionGroup], function: &str) -> Option<usize> {
        let length = |g: &FunctionGroup| {
            g.prefixes
                .iter()
                .filter(|p| function.starts_with(p.as_str()))
                .map(String::len)
                .max()
        };
        list.iter()
            .enumerate()
            .filter_map(|(i, g)| Some((length(g)?, i)))
            .max_by_key(|(len, i)| (*len, usize::MAX - i))
            .map(|(_, i)| i)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_groups_match_their_functions() {
        let g = FunctionGroups::shipped();
        let package = |f| FunctionGroups::find(&g.package, f).map(|i| g.package[i].name.as_str());
        assert_eq!(package("java.lang.String.equals(L)Z"), Some("java.string"));
        assert_eq!(
            package("java.lang.ThreadLocal$Values.cleanUp()V"),
            Some("threadlocal")
        );
        assert_eq!(
            package("android.os.MessageQueue.next()L"),
            Some("android.msgq")
        );
        assert_eq!(
            package("android.util.SparseArray.get(I)L"),
            Some("android.util")
        );
        for function in [
            "java.util.HashMap.get(L)L",
            "java.util.Arrays.fill([II)V",
            "java.lang.System.arraycopy([CI[CII)V",
            "libcore.util.ZoneInfo.getOffset(J)I",
        ] {
            assert_eq!(package(function), Some("java.core"), "{function}");
        }
        // A thread that waits manipulates no data structure.
        for function in [
            "java.lang.Object.wait(JI)V",
            "java.lang.ref.ReferenceQueue.remove(J)L",
            "java.lang.Integer.valueOf(I)L",
        ] {
            assert_eq!(package(function), None, "{function}");
        }
        assert_eq!(package("com.android.server.am.X.y()V"), None);
        let service = |f| FunctionGroups::find(&g.service, f).map(|i| g.service[i].name.as_str());
        assert_eq!(
            service("com.android.server.am.ActivityManagerService.computeOomAdjLocked(L)I"),
            Some("activity manager")
        );
        assert_eq!(
            service("android.view.Choreographer.doFrame(JI)V"),
            Some("choreographer")
        );
    }

    #[test]
    fn user_defined_groups() {
        let g = FunctionGroups::parse(
            "[[package]]\nname = \"all\"\nprefixes = [\"a.\"]\n[[package]]\nname = \"part\"\n\
             prefixes = [\"a.b.\"]\n",
        )
        .unwrap();
        assert_eq!(FunctionGroups::find(&g.package, "a.b.c"), Some(1));
        assert_eq!(FunctionGroups::find(&g.package, "a.c"), Some(0));
        let e = FunctionGroups::parse("# mine\n\n[[packet]]\n").unwrap_err();
        assert!(e.starts_with("line 3: unknown field `packet`"), "{e}");
        assert!(!e.contains('\n'), "{e}");
    }
}
