//! Command line behaviour that `mpbond`, `mpbond-console` and `mpbond-lab` share.
//!
//! - [`Failure`]: an error in one line, with an exit code.
//! - [`LogArgs`]: the options `--log` and `--log-json`, and the start of logging.
//! - [`print()`]: standard output; [`note!`] and [`prompt!`]: standard error.
//! - [`CompletionsArgs`], [`ManArgs`]: completion scripts and manual pages, for packagers.
//! - [`FilePage`]: description of a configuration file, from which its manual page is made.
#![forbid(unsafe_code)]

mod completions;
mod failure;
mod file_page;
mod logs;
mod man;
mod man_page;
mod output;

pub use completions::CompletionsArgs;
pub use failure::Failure;
pub use file_page::{FileKey, FilePage, FileSection, KeyDefault};
pub use logs::LogArgs;
pub use man::ManArgs;
pub use output::{print, to_standard_error};
