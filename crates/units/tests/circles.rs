//! The rule of ARCHITECTURE.md on circles of files: no files of a crate depend on each other,
//! directly or through other files.
//!
//! A file depends on the files that define the items in its paths, in `use` declarations or
//! elsewhere, not on those that re-export them. Calls of methods and associated functions do not
//! count: a type may have them in several files. Tests are left out. A module with a `#[path]` goes
//! by its file's name.
#![allow(clippy::unwrap_used, clippy::panic)] // of tests

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::path::{Path, PathBuf};

use petgraph::Graph;
use proc_macro2::token_stream::IntoIter;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Keywords of items. Only items may contain a comma before their end.
const ITEMS: [&str; 10] = [
    "const", "enum", "fn", "impl", "mod", "static", "struct", "trait", "type", "use",
];

/// Path of a module below the crate's root.
type Module = Vec<String>;

/// A name that a `use` declaration brings in.
struct Import {
    name: String,
    path: Vec<String>,
    is_public: bool,
}

/// Paths and module declarations of a file.
#[derive(Default)]
struct File {
    imports: Vec<Import>,
    /// Paths outside `use` declarations, single names included.
    paths: BTreeSet<Vec<String>>,
    /// Modules in files of their own.
    declared: Vec<String>,
}

impl File {
    fn parse(text: &str) -> Self {
        Self::read(text.parse().unwrap())
    }

    fn read(tokens: TokenStream) -> Self {
        let mut file = Self::default();
        file.walk(tokens);
        file
    }

    fn walk(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        let mut is_public = false;
        let mut after_dot = false;
        let mut at = None;
        while let Some(token) = tokens.next() {
            let (was_public, was_dot) = (is_public, after_dot);
            (is_public, after_dot) = (false, is_punct(Some(&token), '.'));
            match token {
                TokenTree::Punct(p) if p.as_char() == '#' => {
                    let Some(attribute) = next_group(&mut tokens) else {
                        continue;
                    };
                    let text = attribute.to_string().replace(' ', "");
                    if text == "cfg(test)" || text.starts_with("cfg(all(test,") {
                        skip_item(&mut tokens);
                    } else if let Some(path) = text.strip_prefix("path=") {
                        let name = path.trim_matches('"').strip_suffix(".rs");
                        at = Some(name.unwrap().to_owned());
                    } else {
                        self.walk(attribute);
                    }
                }
                TokenTree::Group(group) => {
                    // The scope of `pub(super)` is no path.
                    if was_public && group.delimiter() == Delimiter::Parenthesis {
                        is_public = true;
                    } else {
                        self.walk(group.stream());
                    }
                }
                TokenTree::Ident(word) => match word.to_string().as_str() {
                    "pub" => is_public = true,
                    // `use<…>` in a type names what it captures.
                    "use" if !is_punct(tokens.peek(), '<') => {
                        self.read_use(&[], &mut tokens, was_public);
                    }
                    "mod" => {
                        let name = tokens.next().unwrap().to_string();
                        match tokens.next() {
                            Some(TokenTree::Group(inside)) => self.add_inline(inside.stream()),
                            _ => self.declared.push(at.take().unwrap_or(name)),
                        }
                    }
                    first => {
                        let path = read_path(first, &mut tokens);
                        if !was_dot {
                            self.paths.insert(path);
                        }
                    }
                },
                _ => {}
            }
        }
    }

    /// Adds the paths of a module inside the file, as they are seen from the file.
    fn add_inline(&mut self, tokens: TokenStream) {
        let inside = Self::read(tokens);
        assert!(inside.declared.is_empty(), "{:?}", inside.declared);
        let from_file = |mut path: Vec<String>| {
            if path[0] == "super" {
                path.remove(0);
            }
            (!path.is_empty() && path[0] != "self").then_some(path)
        };
        self.paths
            .extend(inside.paths.into_iter().filter_map(from_file));
        for import in inside.imports {
            let path = from_file(import.path);
            self.imports
                .extend(path.map(|path| Import { path, ..import }));
        }
    }

    /// Reads one tree of a `use` declaration, up to its end or a comma.
    fn read_use(&mut self, before: &[String], tokens: &mut Peekable<IntoIter>, is_public: bool) {
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
                    panic!("{}::*: name the items", path.join("::"));
                }
                TokenTree::Punct(p) if p.as_char() == ',' => break,
                TokenTree::Group(group) => {
                    let mut inside = group.stream().into_iter().peekable();
                    while inside.peek().is_some() {
                        self.read_use(&path, &mut inside, is_public);
                    }
                    return;
                }
                _ => {}
            }
        }
        let Some(last) = path.last() else {
            return;
        };
        self.imports.push(Import {
            name: name.unwrap_or_else(|| last.clone()),
            path,
            is_public,
        });
    }

    fn import(&self, name: &str) -> Option<&Import> {
        self.imports.iter().find(|import| import.name == name)
    }

    /// Paths whose items the file needs: a re-export alone does not.
    fn needs(&self) -> impl Iterator<Item = &Vec<String>> {
        let names = |name: &str| self.paths.iter().any(|path| path[0] == name);
        let imports = self.imports.iter();
        let imports = imports.filter(move |i| !i.is_public || names(&i.name));
        // A single name is a variable, or one that was imported.
        let paths = self.paths.iter().filter(|path| path.len() > 1);
        imports.map(|i| &i.path).chain(paths)
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

/// Skips an item, a field or a variant whose attribute was read.
fn skip_item(tokens: &mut Peekable<IntoIter>) {
    let mut is_item = false;
    for token in tokens {
        match &token {
            TokenTree::Ident(word) => is_item |= ITEMS.iter().any(|item| word == item),
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => return,
            TokenTree::Punct(p) if p.as_char() == ';' || (p.as_char() == ',' && !is_item) => {
                return;
            }
            _ => {}
        }
    }
}

/// Reads the rest of a path.
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
                let path = file_of(source, &module);
                todo.push((module, path));
            }
            files.insert(module, file);
        }
        Self(files)
    }

    /// The module of this crate to which a path in `module` leads, and the item there unless the
    /// path ends at the module; `None` for a path out of the crate.
    fn find(&self, module: &Module, path: &[String]) -> Option<(Module, Option<String>)> {
        let (first, mut rest) = path.split_first()?;
        let mut at = module.clone();
        match first.as_str() {
            "crate" => at.clear(),
            "self" => {}
            "super" => {
                at.pop();
                while let Some(("super", after)) = split(rest) {
                    at.pop();
                    rest = after;
                }
            }
            _ => {
                at.push(first.clone());
                if !self.0.contains_key(&at) {
                    let import = self.0[module].import(first)?;
                    // A name of another crate, or of the file itself.
                    let is_found = import.path[0] != *first;
                    let found = is_found.then(|| self.find(module, &import.path));
                    match found.flatten()? {
                        (imported, None) => at = imported,
                        item => return Some(item),
                    }
                }
            }
        }
        while let Some((next, after)) = split(rest) {
            at.push(next.to_owned());
            rest = after;
            if !self.0.contains_key(&at) {
                at.pop();
                let Some(import) = self.0[&at].import(next) else {
                    return Some((at, Some(next.to_owned())));
                };
                match self.find(&at, &import.path)? {
                    (imported, None) => at = imported,
                    item => return Some(item),
                }
            }
        }
        Some((at, None))
    }

    /// Modules on which a module depends, each with a path that shows it.
    fn uses(&self, module: &Module) -> BTreeMap<Module, String> {
        let found = self.0[module].needs().filter_map(|path| {
            let (other, item) = self.find(module, path)?;
            item.map(|_| (other, path.join("::")))
        });
        found.filter(|(other, _)| other != module).collect()
    }

    /// Modules that depend on each other, directly or through others, in groups.
    fn circles(&self) -> Vec<BTreeSet<&Module>> {
        let mut graph = Graph::<&Module, ()>::new();
        let nodes: BTreeMap<_, _> = self.0.keys().map(|m| (m, graph.add_node(m))).collect();
        for module in self.0.keys() {
            for other in self.uses(module).keys() {
                graph.add_edge(nodes[module], nodes[other], ());
            }
        }
        let groups = petgraph::algo::tarjan_scc(&graph).into_iter();
        let circles = groups.filter(|group| group.len() > 1);
        let modules = circles.map(|group| group.into_iter().map(|node| graph[node]).collect());
        modules.collect()
    }
}

fn split(path: &[String]) -> Option<(&str, &[String])> {
    path.split_first()
        .map(|(first, rest)| (first.as_str(), rest))
}

fn file_of(source: &Path, module: &Module) -> PathBuf {
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

/// A module as its path.
fn in_words(module: &Module) -> String {
    let parts = module.iter().map(String::as_str);
    std::iter::once("crate")
        .chain(parts)
        .collect::<Vec<_>>()
        .join("::")
}

/// The circles of a library or program, for people.
fn circles_of(root: &Path) -> Vec<String> {
    let files = Crate::read(root);
    let circles = files.circles();
    let line = |circle: &BTreeSet<&Module>| {
        let mut text = String::new();
        for module in circle {
            for (other, path) in files.uses(module) {
                if circle.contains(&other) {
                    let (module, other) = (in_words(module), in_words(&other));
                    text += &format!("\n  {module} depends on {other} ({path})");
                }
            }
        }
        text
    };
    circles.iter().map(line).collect()
}

#[test]
fn no_files_depend_on_each_other_in_a_circle() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut wrong = String::new();
    for entry in std::fs::read_dir(crates).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let roots = ["lib.rs", "main.rs"].map(|root| folder.join("src").join(root));
        let roots = roots.iter().filter(|root| root.exists());
        for circle in roots.flat_map(|root| circles_of(root)) {
            wrong += &format!("{name}: a circle of files{circle}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn module(path: &str) -> Module {
    let parts = path.split("::").filter(|part| !part.is_empty());
    parts.map(str::to_owned).collect()
}

fn crate_of(texts: &[(&str, &str)]) -> Crate {
    let files = texts.iter().map(|(m, text)| (module(m), File::parse(text)));
    Crate(files.collect())
}

#[test]
fn a_file_depends_on_those_that_define_the_items_of_its_paths() {
    let used = |text: &str| {
        let files = crate_of(&[
            ("", "mod a; mod b; mod t; mod x; pub use a::One; use t::T;"),
            ("a", "mod inner; pub use inner::Two; pub struct One;"),
            ("a::inner", "pub struct Two; pub(super) struct Three;"),
            ("b", "pub trait B {}"),
            ("t", "mod ask; pub struct T;"),
            ("t::ask", ""),
            ("x", "mod y;"),
            ("x::y", text),
        ]);
        let all = files.uses(&module("x::y")).into_keys();
        all.map(|m| in_words(&m)).collect::<Vec<_>>().join(" ")
    };
    let cases = [
        ("use crate::a::One;", "crate::a"),
        ("use crate::One;", "crate::a"),
        ("use crate::a::{self, Two as Renamed};", "crate::a::inner"),
        ("use crate::a; fn f(_: a::One) {}", "crate::a"),
        (
            "use super::super::{b::B as _, a::One as _};",
            "crate::a crate::b",
        ),
        (
            "fn f() { println!(\"{}\", super::super::b::NAME) }",
            "crate::b",
        ),
        // An associated function, not the file of that name.
        ("use crate::T; fn f() { T::ask() }", "crate::t"),
        ("pub use crate::a::One;", ""),
        ("pub use crate::a::One; struct X(One);", "crate::a"),
        ("fn f(a: u32, b: crate::External) { a.b() }", "crate"),
        (
            "mod inside { use super::super::super::b::B; fn f(_: self::Own) {} }",
            "crate::b",
        ),
        (
            "#[cfg(test)] use crate::a::One; #[cfg(test)] fn f<A, B>() { crate::b::f() }",
            "",
        ),
        (
            "struct X { #[cfg(test)] a: crate::a::One, b: crate::b::C }",
            "crate::b",
        ),
        (
            "use bytes::Bytes; fn f() -> impl Iterator<Item = Bytes> + use<'_> { g() }",
            "",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(used(text), expected, "{text}");
    }
}

#[test]
fn a_circle_through_three_files_is_found() {
    let of = |last: &str| {
        let files = crate_of(&[
            ("", "mod a; mod b; mod c; mod d;"),
            ("a", "use super::b::B;"),
            ("b", "use crate::c::C;"),
            ("c", last),
            ("d", "use crate::a::A;"),
        ]);
        let circles = files.circles().into_iter();
        circles
            .map(|c| c.into_iter().cloned().collect::<Vec<_>>())
            .collect::<Vec<_>>()
    };
    assert_eq!(of("use crate::a::A;"), [["a", "b", "c"].map(module)]);
    assert!(of("pub struct C;").is_empty());
}

#[test]
fn a_module_in_a_file_of_another_name_goes_by_that_file() {
    let file = File::parse("#[cfg(a)] mod calls; #[cfg(b)] #[path = \"none.rs\"] mod calls;");
    assert_eq!(file.declared, ["calls", "none"]);
}
