//! Manual pages of configuration files (section 5).

use roff::{Inline, Roff, bold, italic, roman};

use crate::man_page::with_empty_date;

/// Description of a configuration file: all keys, by section of the file.
#[derive(Clone, Copy, Debug)]
pub struct FilePage {
    /// Name of the page, without its section: "mpbond-proxy.toml".
    pub name: &'static str,
    /// The file in one phrase.
    pub about: &'static str,
    /// Paragraphs about the file as a whole.
    pub text: &'static [&'static str],
    /// Sections of the file.
    pub sections: &'static [FileSection],
    /// Sentence that follows the meaning of a key, by section and key; empty for none.
    pub remark: fn(header: &str, key: &str) -> &'static str,
    /// A complete file.
    pub example: &'static str,
    /// Related pages: "mpbond-proxy(1)".
    pub see_also: &'static [&'static str],
}

/// A table of a TOML file.
#[derive(Clone, Copy, Debug)]
pub struct FileSection {
    /// Header of the table as it is written, `[proxy]` or `[[path]]`; empty for the keys before the
    /// first table.
    pub header: &'static str,
    /// The table in a sentence.
    pub about: &'static str,
    /// Its keys.
    pub keys: &'static [FileKey],
}

/// A key of a table.
#[derive(Clone, Copy, Debug)]
pub struct FileKey {
    /// Name of the key.
    pub name: &'static str,
    /// Allowed values, with their unit.
    pub values: &'static str,
    /// Value of a key that is left out.
    pub default: KeyDefault,
    /// Meaning of the key. Code is between backquotes.
    pub meaning: &'static str,
}

/// Value of a key that is left out.
#[derive(Clone, Copy, Debug)]
pub enum KeyDefault {
    /// This value, as it is written in TOML.
    Value(&'static str),
    /// Described in words.
    Words(&'static str),
    /// None: the key must be there.
    Required,
}

impl FilePage {
    /// The page in roff, for a program of this version.
    pub(crate) fn page(&self, version: &str) -> String {
        let mut page = Roff::new();
        let source = format!("mpbond {version}");
        page.control("TH", [self.name, "5", "", &source, "mpbond"])
            .control("ad", ["l"])
            .control("nh", [])
            .control("SH", ["NAME"])
            .text([roman(format!("{} - {}", self.name, self.about))])
            .control("SH", ["DESCRIPTION"]);
        for (number, paragraph) in self.text.iter().enumerate() {
            if number > 0 {
                page.control("PP", []);
            }
            page.text(inlines(paragraph));
        }
        for section in self.sections {
            let header = match section.header {
                "" => "KEYS BEFORE THE FIRST SECTION",
                header => header,
            };
            page.control("SH", [header]).text(inlines(section.about));
            for key in section.keys {
                describe(&mut page, key, (self.remark)(section.header, key.name));
            }
        }
        page.control("SH", ["EXAMPLES"])
            .control("RS", ["4"])
            .control("nf", []);
        for line in self.example.lines() {
            page.text([roman(line)]);
        }
        page.control("fi", [])
            .control("RE", [])
            .control("SH", ["SEE ALSO"])
            .text([roman(self.see_also.join(", "))]);
        with_empty_date(&page.render())
    }
}

fn describe(page: &mut Roff, key: &FileKey, remark: &str) {
    page.control("TP", [])
        .text([bold(key.name), roman(" = "), italic(key.values)])
        .text(inlines(key.meaning));
    if !remark.is_empty() {
        page.text(inlines(remark));
    }
    page.control("br", []);
    match key.default {
        KeyDefault::Value(value) => page.text([roman("Default: "), bold(value)]),
        KeyDefault::Words(words) => page.text(inlines(&format!("Default: {words}"))),
        KeyDefault::Required => page.text([roman("Required.")]),
    };
}

/// A text whose code is between backquotes; code is bold.
fn inlines(text: &str) -> Vec<Inline> {
    let parts = text.split('`').enumerate();
    let parts = parts.filter(|(_, part)| !part.is_empty());
    parts
        .map(|(number, part)| {
            if number % 2 == 1 {
                bold(part)
            } else {
                roman(part)
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_its_values_meaning_and_default() {
        const KEYS: [FileKey; 2] = [
            FileKey {
                name: "buffer",
                values: "a size",
                default: KeyDefault::Value("\"4 MiB\""),
                meaning: "Maximum of bytes. See `uplink`.",
            },
            FileKey {
                name: "id",
                values: "a device id",
                default: KeyDefault::Required,
                meaning: "Identity.",
            },
        ];
        let page = FilePage {
            name: "prog.toml",
            about: "configuration of prog",
            text: &["First.", "Second."],
            sections: &[FileSection {
                header: "[[link]]",
                about: "A link.",
                keys: &KEYS,
            }],
            remark: |header, key| match (header, key) {
                ("[[link]]", "id") => "It `stays`.",
                _ => "",
            },
            example: "a = 1     # one\n\n'b' = 2",
            see_also: &["prog(1)"],
        };
        let text = page.page("1.2");
        for expected in [
            ".TH prog.toml 5 \"\" \"mpbond 1.2\" mpbond\n",
            ".SH NAME\nprog.toml \\- configuration of prog\n",
            "First.\n.PP\nSecond.\n",
            ".SH [[link]]\nA link.\n.TP\n\\fBbuffer\\fR = \\fIa size\\fR\n",
            "Maximum of bytes. See \\fBuplink\\fR.\n.br\nDefault: \\fB\"4 MiB\"\\fR\n",
            "Identity.\nIt \\fBstays\\fR.\n.br\nRequired.\n",
            ".RS 4\n.nf\na = 1     # one\n\n\\*(Aqb\\*(Aq = 2\n.fi\n.RE\n",
            ".SH \"SEE ALSO\"\nprog(1)\n",
        ] {
            assert!(text.contains(expected), "{expected}\nis missing in\n{text}");
        }
    }
}
