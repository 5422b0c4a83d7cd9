//! docs/quickstart.md as a person reads it: commands to type, answers to questions, files.

use std::collections::VecDeque;

/// A section with a number, which is about one machine.
pub struct Section {
    pub title: String,
    blocks: Vec<Block>,
}

/// A block of code.
struct Block {
    /// Language: none for commands, `text` for a dialogue, `toml` for a file.
    language: String,
    lines: Vec<String>,
}

/// The sections below headings of the second level.
pub fn sections(markdown: &str) -> VecDeque<Section> {
    let mut all = VecDeque::new();
    let mut block: Option<Block> = None;
    for line in markdown.lines() {
        if let Some(language) = line.strip_prefix("```") {
            match (block.take(), all.back_mut()) {
                (None, _) => {
                    block = Some(Block {
                        language: language.to_owned(),
                        lines: Vec::new(),
                    });
                }
                (Some(done), Some(Section { blocks, .. })) => blocks.push(done),
                // Before the first section.
                (Some(_), None) => {}
            }
        } else if let Some(block) = &mut block {
            block.lines.push(line.to_owned());
        } else if let Some(title) = line.strip_prefix("## ") {
            all.push_back(Section {
                title: title.to_owned(),
                blocks: Vec::new(),
            });
        }
    }
    assert!(block.is_none(), "a block of code has no end");
    all
}

impl Section {
    fn lines(&self, language: &str) -> impl Iterator<Item = &str> {
        let blocks = self.blocks.iter().filter(move |b| b.language == language);
        blocks.flat_map(|b| b.lines.iter().map(String::as_str))
    }

    /// Commands in the order in which they are typed, without comments.
    pub fn commands(&self) -> Vec<String> {
        let commands = self.lines("").map(|line| match line.split_once(" # ") {
            Some((command, _)) => command.trim_end().to_owned(),
            None => line.to_owned(),
        });
        commands.filter(|line| !line.is_empty()).collect()
    }

    /// Lines of dialogues: a question and its answer.
    pub fn dialogue(&self) -> Vec<String> {
        self.lines("text").map(str::to_owned).collect()
    }

    /// Files.
    pub fn files(&self) -> Vec<toml::Table> {
        let files = self.blocks.iter().filter(|b| b.language == "toml");
        files.map(|b| b.lines.join("\n").parse().unwrap()).collect()
    }
}

/// Whether a file has the content of the document, in which "..." stands for any text.
pub fn agrees(written: &toml::Value, shown: &toml::Value) -> bool {
    use toml::Value::{Array, String, Table};
    match (written, shown) {
        (String(_), String(any)) if any == "..." => true,
        (Table(written), Table(shown)) => {
            written.len() == shown.len()
                && shown.iter().all(|(key, shown)| {
                    written
                        .get(key)
                        .is_some_and(|written| agrees(written, shown))
                })
        }
        (Array(written), Array(shown)) => {
            written.len() == shown.len()
                && written
                    .iter()
                    .zip(shown)
                    .all(|(written, shown)| agrees(written, shown))
        }
        _ => written == shown,
    }
}

#[test]
fn commands_dialogues_and_files_are_told_apart() {
    let text = "```\nno section\n```\n## 1. One\n```\na b   # why\n\nc\n```\n```text\nName: x\n```\n\
                ## Two\n```toml\nid = \"...\"\nn = 1\n```\n";
    let all = sections(text);
    assert_eq!(all.len(), 2);
    assert_eq!(all[0].title, "1. One");
    assert_eq!(all[0].commands(), ["a b", "c"]);
    assert_eq!(all[0].dialogue(), ["Name: x"]);
    let shown = toml::Value::Table(all[1].files()[0].clone());
    for (written, expected) in [
        ("id = \"xyz\"\nn = 1", true),
        ("id = \"xyz\"\nn = 2", false),
        ("id = \"xyz\"", false),
        ("id = \"xyz\"\nn = 1\nm = 1", false),
    ] {
        let written = toml::Value::Table(written.parse().unwrap());
        assert_eq!(agrees(&written, &shown), expected, "{written}");
    }
}
