//! Reports: records in; HTML and Markdown with SVG pictures out, published figures beside ours.
//! Pure.

mod figures;
mod heading;
mod markdown;
mod page;
mod progress;
mod section;
mod sentences;
mod setting;
mod sheet;
mod study;
mod unfit;

pub use markdown::{to_markdown, to_markdown_with};
pub use page::{to_html, to_html_with};
pub use sheet::{Beside, Check, Sheet, SheetTable};
pub use study::{Saved, Study, join};

#[cfg(test)]
mod tests;
