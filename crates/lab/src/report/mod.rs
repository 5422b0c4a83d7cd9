//! Reports that stand beside the paper: records in, HTML and Markdown with
//! SVG pictures out. Pure.

mod figures;
pub(crate) mod markdown;
mod page;
mod plot;
mod progress;
mod setting;
mod sheet;
mod study;

pub use markdown::{to_markdown, to_markdown_with};
pub use page::{to_html, to_html_with};
pub use sheet::{Beside, Check, Sheet, SheetTable};
pub use study::{Saved, Study, join};

#[cfg(test)]
mod tests;
