//! `mpbond setup`.

mod args;
mod files;
mod helper;
mod primary;
mod proxy;
mod questions;
mod role;
mod service;

use std::process::ExitCode;

use mpbond::config::{Role, config_file_to_write, has_section};
use mpbond_command::Failure;

pub(super) use args::SetupArgs;
use questions::Questions;

impl SetupArgs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let questions = Questions::new();
        let (role, device) = role::find(&self, &questions)?;
        self.check(role)?;
        let file = config_file_to_write(role).map_err(Failure::input)?;
        if has_section(role, &file) {
            return Err(Failure::input(format_args!(
                "{} has the configuration of this {role}: change it there, and pair by `mpbond \
                 pair --role {role}`",
                file.display()
            )));
        }
        let can_agree = self.yes || self.dry_run || questions.is_terminal();
        if role != Role::Proxy && !can_agree {
            return Err(Failure::input(
                "pairing asks whether to trust the other device, and standard input is no \
                 terminal: agree beforehand with --yes, or run it in a terminal",
            ));
        }
        match role {
            Role::Primary => primary::set_up(&self, &questions, device)?,
            Role::Helper => helper::set_up(&self, &questions)?,
            Role::Proxy => proxy::set_up(&self, &questions)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}
