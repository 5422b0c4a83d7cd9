//! The part of an experiment's file on which its results depend.

use toml::Table;

/// Keys that only say how results are judged or shown, and how many there are.
const OTHERS: [&str; 5] = ["title", "repetitions", "assert", "paper", "parameter"];

/// The keys of a file's text on which results depend; none where it is no TOML.
pub(crate) fn decisive_keys(text: &str) -> Table {
    let mut table: Table = text.parse().unwrap_or_default();
    for key in OTHERS {
        table.remove(key);
    }
    table
}
