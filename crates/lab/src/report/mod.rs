//! Reports that stand beside the paper: records in, HTML and Markdown with
//! SVG pictures out. Pure.

pub(crate) mod escape;
mod figures;
mod markdown;
mod page;
mod plot;
mod progress;
mod setting;
mod study;

pub use markdown::to_markdown;
pub use page::to_html;
pub use study::{Saved, Study, join};

#[cfg(test)]
mod tests;
