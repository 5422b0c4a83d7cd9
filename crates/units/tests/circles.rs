//! The rule of ARCHITECTURE.md on circles of files: no files of these crates depend on each other,
//! directly or through other files.
//!
//! A file depends on the files whose items its paths name, in `use` declarations or elsewhere, not on
//! the file that re-exports such an item. Methods are not seen: a type may have its methods in
//! several files. Tests are left out.
#![allow(clippy::unwrap_used, clippy::panic)] // of tests

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::path::{Path, PathBuf};

use petgraph::graphmap::DiGraphMap;
use proc_macro2::token_stream::IntoIter;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Roots of libraries and programs.
const ROOTS: [&str; 12] = [
    "command/src/lib.rs",
    "lab/src/lib.rs",
    "manager/src/lib.rs",
    "mpbond/src/lib.rs",
    "mpbond/src/main.rs",
    "plot/src/lib.rs",
    "radio/src/lib.rs",
    "session/src/lib.rs",
    "sim/src/lib.rs",
    "statistics/src/lib.rs",
    "testing/src/lib.rs",
    "units/src/lib.rs",
];

/// Path of a module below the crate's root.
type Module = Vec<String>;

/// A module's file, as far as its paths tell.
#[derive(Default)]
struct File {
    /// Names that `use` declarations bring in, with the paths that they stand for.
    names: BTreeMap<String, Vec<String>>,
    /// Modules of which everything is brought in.
    globs: Vec<Vec<String>>,
    /// Names that are re-exported: no dependency unless the file itself has them elsewhere.
    exported: BTreeSet<String>,
    /// All other paths, single names included.
    paths: BTreeSet<Vec<String>>,
    /// Modules that it declares.
    declared: Vec<String>,
}

impl File {
    fn parse(text: &str) -> Self {
        let mut file = Self::default();
        let tokens: TokenStream = text.parse().unwrap();
        file.walk(tokens);
        file
    }

    fn walk(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        let mut public = false;
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Punct(p) if p.as_char() == '#' => {
                    if let Some(attribute) = next_group(&mut tokens) {
                        if attribute.to_string().replace(' ', "") == "cfg(test)" {
                            skip_item(&mut tokens);
                        } else {
                            self.walk(attribute);
                        }
                    }
                }
                TokenTree::Group(group) => {
                    // The scope of `pub(super)` is no path.
                    if !(public && group.delimiter() == Delimiter::Parenthesis) {
                        public = false;
                        self.walk(group.stream());
                    }
                }
                TokenTree::Ident(word) => match word.to_string().as_str() {
                    "pub" => public = true,
                    // `use<…>` in a type names what it captures.
                    "use" if !is_punct(tokens.peek(), '<') => {
                        self.read_use(&[], &mut tokens, public);
                        public = false;
                    }
                    "mod" => {
                        public = false;
                        let name = tokens.next().map(|t| t.to_string());
                        if is_punct(tokens.peek(), ';') {
                            self.declared.extend(name);
                        }
                    }
                    first => {
                        public = false;
                        let path = read_path(first, &mut tokens);
                        self.paths.insert(path);
                    }
                },
                _ => public = false,
            }
        }
    }

    /// Reads one tree of a `use` declaration, up to its end or a comma.
    fn read_use(&mut self, before: &[String], tokens: &mut Peekable<IntoIter>, public: bool) {
        let mut path = before.to_vec();
        let mut name = None;
        while let Some(token) = tokens.next_if(|t| !is_punct(Some(t), ';')) {
            match token {
                TokenTree::Ident(word) if word == "as" => {
                    name = tokens.next().map(|t| t.to_string());
                }
                TokenTree::Ident(word) if word == "self" && !before.is_empty() => {}
                TokenTree::Ident(word) => path.push(word.to_string()),
                TokenTree::Punct(p) if p.as_char() == '*' => {
                    self.globs.push(path.clone());
                    path.clear();
                }
                TokenTree::Punct(p) if p.as_char() == ',' => break,
                TokenTree::Group(group) => {
                    let mut inner = group.stream().into_iter().peekable();
                    while inner.peek().is_some() {
                        self.read_use(&path, &mut inner, public);
                    }
                    path.clear();
                }
                _ => {}
            }
        }
        let Some(last) = path.last().cloned() else {
            return;
        };
        let name = name.unwrap_or(last);
        if public {
            self.exported.insert(name.clone());
        }
        self.names.insert(name, path);
    }
}

fn is_punct(token: Option<&TokenTree>, wanted: char) -> bool {
    matches!(token, Some(TokenTree::Punct(p)) if p.as_char() == wanted)
}

/// The content of an attribute whose `#` was read.
fn next_group(tokens: &mut Peekable<IntoIter>) -> Option<TokenStream> {
    tokens.next_if(|t| is_punct(Some(t), '!'));
    match tokens.next_if(|t| matches!(t, TokenTree::Group(_))) {
        Some(TokenTree::Group(group)) => Some(group.stream()),
        _ => None,
    }
}

/// Skips an item: up to a semicolon or a comma, or a group in braces.
fn skip_item(tokens: &mut Peekable<IntoIter>) {
    for token in tokens {
        match &token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => return,
            TokenTree::Punct(p) if [';', ','].contains(&p.as_char()) => return,
            _ => {}
        }
    }
}

fn read_path(first: &str, tokens: &mut Peekable<IntoIter>) -> Vec<String> {
    let mut path = vec![first.to_owned()];
    loop {
        let mut ahead = tokens.clone();
        let colons = is_punct(ahead.next().as_ref(), ':') && is_punct(ahead.next().as_ref(), ':');
        match ahead.next() {
            Some(TokenTree::Ident(word)) if colons => path.push(word.to_string()),
            _ => return path,
        }
        *tokens = ahead;
    }
}

/// The files of a library or program.
struct Crate(BTreeMap<Module, File>);

impl Crate {
    fn read(root: &Path) -> Self {
        let source = root.parent().unwrap();
        let mut files = BTreeMap::new();
        let mut todo = vec![(Module::new(), root.to_owned())];
        while let Some((module, path)) = todo.pop() {
            let file = File::parse(&std::fs::read_to_string(&path).unwrap());
            for child in &file.declared {
                let mut module = module.clone();
                module.push(child.clone());
                let found = place(source, &module);
                todo.push((module, found));
            }
            files.insert(module, file);
        }
        Self(files)
    }

    /// The module of this crate at which a path in `module` begins, and the rest of the path.
    fn begin<'a>(&self, module: &Module, path: &'a [String]) -> Option<(Module, &'a [String])> {
        let (first, rest) = path.split_first()?;
        let mut from = module.clone();
        match first.as_str() {
            "crate" => return Some((Module::new(), rest)),
            "self" => return Some((from, rest)),
            "super" => {
                from.pop();
                if rest.first().is_some_and(|next| next == "super") {
                    return self.begin(&from, rest);
                }
                return Some((from, rest));
            }
            _ => {}
        }
        from.push(first.clone());
        if self.0.contains_key(&from) {
            return Some((from, rest));
        }
        let named = self.0[module].names.get(first)?;
        (named[0] != *first).then_some(())?;
        Some((self.find(module, named)?, rest))
    }

    /// The module that has the item to which a path leads, if it is one of this crate.
    fn find(&self, module: &Module, path: &[String]) -> Option<Module> {
        let (mut at, mut rest) = self.begin(module, path)?;
        while let Some((next, after)) = rest.split_first() {
            at.push(next.clone());
            if self.0.contains_key(&at) {
                rest = after;
                continue;
            }
            at.pop();
            let file = &self.0[&at];
            return match file.names.get(next) {
                Some(named) if at != *module => self.find(&at, named),
                _ => {
                    let globs = file.globs.iter().filter_map(|g| self.find(&at, g));
                    let mut globs = globs.filter(|g| *g != at);
                    let defines = |g: &Module| self.0[g].paths.contains(std::slice::from_ref(next));
                    Some(globs.find(defines).unwrap_or(at))
                }
            };
        }
        Some(at)
    }

    /// Modules whose items a module names.
    fn used_by(&self, module: &Module) -> BTreeSet<Module> {
        let file = &self.0[module];
        let has = |name: &str| file.paths.iter().any(|path| path[0] == name);
        let counts = |(name, _): &(&String, _)| !file.exported.contains(*name) || has(name);
        let brought = file.names.iter().filter(counts).map(|(_, path)| path);
        // A single name is a variable, a field, or one that was brought in.
        let paths = file.paths.iter().filter(|path| path.len() > 1);
        let all = brought.chain(paths).chain(&file.globs);
        let mut used: BTreeSet<_> = all.filter_map(|path| self.find(module, path)).collect();
        used.remove(module);
        used
    }

    /// Modules that use each other, directly or over others, in groups.
    fn circles(&self) -> Vec<BTreeSet<&Module>> {
        let mut graph = DiGraphMap::<&Module, ()>::new();
        for module in self.0.keys() {
            let used = self.used_by(module);
            // The keys live as long as the graph.
            let used = used.iter().filter_map(|m| self.0.get_key_value(m));
            used.for_each(|(other, _)| {
                graph.add_edge(module, other, ());
            });
        }
        let groups = petgraph::algo::tarjan_scc(&graph).into_iter();
        let circles = groups.filter(|group| group.len() > 1);
        circles.map(BTreeSet::from_iter).collect()
    }
}

/// The file of a module.
fn place(source: &Path, module: &Module) -> PathBuf {
    let folder = module
        .iter()
        .fold(source.to_owned(), |at, part| at.join(part));
    let file = folder.with_extension("rs");
    if file.exists() {
        file
    } else {
        folder.join("mod.rs")
    }
}

#[test]
fn no_files_use_each_other_in_a_circle() {
    let mut found = Vec::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for root in ROOTS {
        let files = Crate::read(&crates.join(root));
        for circle in files.circles() {
            let mut line = format!("{root}:");
            for module in &circle {
                let used = files.used_by(module);
                let used = used.iter().filter(|m| circle.contains(m));
                let used: Vec<_> = used.map(|m| m.join("::")).collect();
                line += &format!("\n  {} uses {}", module.join("::"), used.join(", "));
            }
            found.push(line);
        }
    }
    assert!(found.is_empty(), "circles of files\n{}", found.join("\n"));
}

#[test]
fn a_path_leads_to_the_file_that_has_the_item() {
    let texts = [
        (
            "",
            "mod a; pub mod b; pub use a::One; #[cfg(test)] mod tests;",
        ),
        (
            "a",
            "mod inner; pub use inner::{Two as Renamed, *}; pub struct One;",
        ),
        (
            "a::inner",
            "pub struct Two; pub(super) struct Three; // super::One",
        ),
        (
            "b",
            "use crate::a::Renamed; fn f(a: crate::One) { a.inner(super::a::Three) }",
        ),
    ];
    let module = |path: &str| -> Module {
        let parts = path.split("::").filter(|part| !part.is_empty());
        parts.map(str::to_owned).collect()
    };
    let used = |texts: &[(&str, &str)], path: &str| {
        let files = texts.iter().map(|(m, text)| (module(m), File::parse(text)));
        let files = Crate(files.collect());
        let used = files.used_by(&module(path)).into_iter();
        (
            used.map(|m| m.join("::")).collect::<Vec<_>>(),
            files.circles().len(),
        )
    };
    assert_eq!(File::parse(texts[0].1).declared, ["a", "b"]);
    assert_eq!(used(&texts, ""), (vec![], 0), "it re-exports alone");
    assert_eq!(used(&texts, "b").0, ["a", "a::inner"]);
    // A re-export that the file itself uses, and a path in full, inside a macro.
    let circle = [
        ("", "mod a; mod b;"),
        ("a", "pub use super::b::Two; pub struct One(Two);"),
        (
            "b",
            "pub struct Two; fn f() { println!(\"{}\", super::a::One::NAME) }",
        ),
    ];
    assert_eq!(used(&circle, "b"), (vec!["a".to_owned()], 1));
}
