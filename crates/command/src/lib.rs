//! Command line behaviour that `mpbond` and `mpbond-lab` share.
//!
//! - [`Failure`]: an error in one line, with an exit code.
//! - [`LogArgs`]: the options `--log` and `--log-json`, and the start of logging.
//! - [`print()`]: standard output.
//! - [`CompletionsArgs`], [`ManArgs`]: completion scripts and manual pages, for packagers.
#![forbid(unsafe_code)]

mod completions;
mod failure;
mod logs;
mod man;
mod man_page;
mod output;

pub use completions::CompletionsArgs;
pub use failure::Failure;
pub use logs::LogArgs;
pub use man::ManArgs;
pub use output::print;
