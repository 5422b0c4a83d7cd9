//! Form of a manual page: the standard sections, and examples as they are typed.

use std::io;

use clap::Command;
use clap_mangen::Man;
use roff::{Roff, roman};

/// Lines are neither justified nor hyphenated: names of commands and options stay whole.
pub(crate) const LEFT_ALIGNED: &str = ".ad l\n.nh\n";

/// The title line with quotation marks for the empty date, without which its place is taken by what
/// follows it.
pub(crate) fn with_empty_date(page: &str) -> String {
    page.replacen("  \"", " \"\" \"", 1)
}

/// Name of a command's manual page.
pub(crate) fn name(command: &Command) -> &str {
    command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
}

/// The manual page of a command that has been built.
pub(crate) fn page(command: &Command) -> io::Result<String> {
    let version = command.get_version().unwrap_or_default();
    let man = Man::new(with_all_texts(command.clone()))
        .source(format!("mpbond {version}"))
        .manual("mpbond");
    let mut parts = Vec::new();
    man.render_title(&mut parts)?;
    parts = with_empty_date(&String::from_utf8_lossy(&parts)).into_bytes();
    parts.extend_from_slice(LEFT_ALIGNED.as_bytes());
    man.render_name_section(&mut parts)?;
    man.render_synopsis_section(&mut parts)?;
    man.render_description_section(&mut parts)?;
    man.render_options_section(&mut parts)?;
    // Each part begins with the same definitions, of which a page needs one.
    let parts = String::from_utf8_lossy(&parts);
    let definitions = Roff::new().render();
    let parts = parts.replace(&definitions, "");
    let tail = command
        .get_after_long_help()
        .or_else(|| command.get_after_help());
    let tail = tail.map_or_else(String::new, |tail| sections(&tail.to_string()));
    Ok(definitions + &parts + &subcommands(command) + &tail)
}

/// The subcommands by the names of their pages: clap_mangen derives names from that of this page.
fn subcommands(command: &Command) -> String {
    let shown = command.get_subcommands().filter(|c| !c.is_hide_set());
    let mut section = Roff::new();
    for (number, subcommand) in shown.enumerate() {
        if number == 0 {
            section.control("SH", ["SUBCOMMANDS"]);
        }
        let about = subcommand.get_about().map(ToString::to_string);
        section
            .control("TP", [])
            .text([roman(format!("{}(1)", name(subcommand)))])
            .text([roman(about.unwrap_or_default())]);
    }
    section.to_roff()
}

/// The command with the text of every option: clap_mangen takes the short text of an option that is
/// missing from short helps for one that is missing from the page.
fn with_all_texts(command: Command) -> Command {
    command.mut_args(|arg| arg.hide_short_help(false))
}

/// Sections of the text behind a help. A line that ends with a colon is the heading of the indented
/// lines below it, which are shown as they are; other lines are notes.
fn sections(text: &str) -> String {
    let mut all = Vec::new();
    let mut notes = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(heading) = line.strip_suffix(':').filter(|l| !l.starts_with(' ')) {
            let is_inside = |l: &&str| l.is_empty() || l.starts_with(' ');
            let block = std::iter::from_fn(|| lines.next_if(is_inside)).collect();
            all.push(verbatim(heading, block));
        } else if !line.trim().is_empty() {
            notes.push(line.trim());
        }
    }
    if !notes.is_empty() {
        let mut section = Roff::new();
        section.control("SH", ["NOTES"]);
        for note in notes {
            section.text([roman(note)]);
        }
        all.push(section.to_roff());
    }
    all.concat()
}

fn verbatim(heading: &str, mut lines: Vec<&str>) -> String {
    while lines.last().is_some_and(|l| l.is_empty()) {
        lines.pop();
    }
    let heading = match heading {
        "Example" => "EXAMPLES".to_owned(),
        other => other.to_uppercase(),
    };
    let mut section = Roff::new();
    section.control("SH", [heading.as_str()]).control("nf", []);
    // An empty line at the start would only widen the gap below the heading.
    for line in lines.iter().skip_while(|l| l.is_empty()) {
        section.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
    }
    section.control("fi", []);
    section.to_roff()
}

#[cfg(test)]
mod tests {
    use clap::{Arg, ArgAction};

    use super::*;

    #[test]
    fn examples_are_shown_line_by_line() {
        let text = "Examples:\n  prog a   # one\n    prog --b\n\nA note\nof two lines.";
        let sections = sections(text);
        let expected = [
            ".SH EXAMPLES",
            ".nf",
            "prog a   # one",
            "  prog \\-\\-b",
            ".fi",
            ".SH NOTES",
            "A note",
            "of two lines.",
        ];
        assert_eq!(sections.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn options_that_short_helps_leave_out_have_their_text() {
        let log = Arg::new("log").long("log").help("Rules of the log");
        let log = log.action(ArgAction::SetTrue).hide_short_help(true);
        let mut command = Command::new("prog").version("1.2").arg(log);
        command.build();
        let text = page(&command).unwrap();
        assert!(text.contains("Rules of the log"), "{text}");
        assert!(
            text.contains(".TH prog 1 \"\" \"mpbond 1.2\" mpbond"),
            "{text}"
        );
        assert_eq!(text.matches(".ie ").count(), 1, "{text}");
    }

    #[test]
    fn subcommands_are_listed_by_the_names_of_their_pages() {
        let trace = Command::new("trace").display_name("prog-trace");
        let mut command = Command::new("prog-lab").subcommand(trace.about("Analyse traces"));
        command.build();
        let text = page(&command).unwrap();
        let expected = ".SH SUBCOMMANDS\n.TP\nprog\\-trace(1)\nAnalyse traces\n";
        assert!(text.contains(expected), "{text}");
    }
}
