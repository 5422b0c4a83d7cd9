use serde::Deserialize;

/// The groups of the paper's Figure 3(c) and Table 2.
const PAPER: &str = include_str!("../data/function_groups.toml");

/// Sets of functions, as data: OS services by Figure 3(c), packages of basic
/// data structures by Table 2, or a user's own.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FunctionGroups {
    /// Services: inclusive time counts (what would be saved without them).
    #[serde(default)]
    pub service: Vec<FunctionGroup>,
    /// Packages: exclusive time counts (what would be saved by faster code).
    #[serde(default)]
    pub package: Vec<FunctionGroup>,
}

/// One group.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FunctionGroup {
    /// Its name in tables.
    pub name: String,
    /// Functions whose `class.method` begins with one of these belong to it.
    pub prefixes: Vec<String>,
}

impl FunctionGroups {
    /// The paper's groups.
    pub fn paper() -> Self {
        toml::from_str(PAPER).unwrap_or(Self {
            service: Vec::new(),
            package: Vec::new(),
        })
    }

    /// Groups from TOML text: `[[service]]` and `[[package]]` tables with
    /// `name` and `prefixes`.
    ///
    /// # Errors
    /// One line that says which line of the text is wrong and why.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|e| crate::error::toml_error(text, &e))
    }

    /// The place in `list` of the group that a function belongs to: the one
    /// with the longest prefix, so that a part can be taken out of a whole.
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
    fn the_paper_s_groups_place_its_functions() {
        let g = FunctionGroups::paper();
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
        assert_eq!(package("java.util.HashMap.get(L)L"), Some("java.core"));
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
    fn own_groups() {
        let g = FunctionGroups::parse(
            "[[package]]\nname = \"all\"\nprefixes = [\"a.\"]\n[[package]]\nname = \"part\"\nprefixes = [\"a.b.\"]\n",
        )
        .unwrap();
        assert_eq!(FunctionGroups::find(&g.package, "a.b.c"), Some(1));
        assert_eq!(FunctionGroups::find(&g.package, "a.c"), Some(0));
        let e = FunctionGroups::parse("# mine\n\n[[packet]]\n").unwrap_err();
        assert!(e.starts_with("line 3: unknown field `packet`"), "{e}");
        assert!(!e.contains('\n'), "{e}");
    }
}
