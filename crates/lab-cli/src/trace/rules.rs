//! Rules and settings of the analyses, from files and options.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use mpbond_command::Failure;
use mpbond_systrace::{ClassRules, FunctionGroups, IdleRules, ReportOptions};
use mpbond_units::duration_text;

#[derive(Debug, Default, Args)]
pub(crate) struct ClassArgs {
    /// Classes of tasks (kernel, daemon, app), instead of the built-in rules (TOML).
    #[arg(long, value_name = "FILE")]
    classes: Option<PathBuf>,
}

#[derive(Debug, Default, Args)]
pub(crate) struct IdleRuleArgs {
    /// Known causes of idle time, instead of the built-in rules (TOML).
    #[arg(long, value_name = "FILE")]
    idle_rules: Option<PathBuf>,
}

#[derive(Debug, Default, Args)]
pub(crate) struct FunctionArgs {
    /// Services and packages of functions, instead of the paper's (TOML).
    #[arg(long, value_name = "FILE")]
    groups: Option<PathBuf>,
    /// Cost of tracing one call, subtracted from each call [default: 4us, as in the paper].
    #[arg(long, value_name = "TIME", value_parser = duration_text::parse)]
    overhead: Option<Duration>,
}

#[derive(Debug, Default, Args)]
pub(crate) struct WindowArgs {
    /// Window of the parallelism over time [default: 100ms].
    #[arg(long, value_name = "TIME", value_parser = duration_text::parse)]
    window: Option<Duration>,
}

impl ClassArgs {
    pub(crate) fn apply(&self, options: &mut ReportOptions) -> Result<(), Failure> {
        set(
            &mut options.classes,
            self.classes.as_deref(),
            ClassRules::parse,
        )
    }
}

impl IdleRuleArgs {
    pub(crate) fn apply(&self, options: &mut ReportOptions) -> Result<(), Failure> {
        set(
            &mut options.idle,
            self.idle_rules.as_deref(),
            IdleRules::parse,
        )
    }
}

impl FunctionArgs {
    pub(crate) fn apply(&self, options: &mut ReportOptions) -> Result<(), Failure> {
        options.overhead = self.overhead.unwrap_or(options.overhead);
        set(
            &mut options.groups,
            self.groups.as_deref(),
            FunctionGroups::parse,
        )
    }
}

impl WindowArgs {
    pub(crate) fn apply(&self, options: &mut ReportOptions) {
        options.window = self.window.unwrap_or(options.window);
    }
}

fn set<T>(
    value: &mut T,
    file: Option<&Path>,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<(), Failure> {
    let Some(file) = file else {
        return Ok(());
    };
    let text = std::fs::read_to_string(file)
        .map_err(|e| Failure::input(format_args!("{}: {e}", file.display())))?;
    *value = parse(&text).map_err(|e| Failure::input(format_args!("{}: {e}", file.display())))?;
    Ok(())
}
