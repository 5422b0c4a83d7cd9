use clap::Args;
use tracing_subscriber::EnvFilter;

use super::failure::Failure;

/// What is logged; logs go to standard error.
#[derive(Debug, Args)]
#[command(next_help_heading = "Logs")]
pub(super) struct LogArgs {
    /// What to log: error, warn, info, debug, trace, or rules such as "info,mpbond_net=debug".
    /// Otherwise RUST_LOG says it; otherwise daemons log info, everything else warnings.
    #[arg(long, global = true, value_name = "FILTER", hide_short_help = true)]
    log: Option<String>,
    /// Log a JSON object a line.
    #[arg(long, global = true, hide_short_help = true)]
    log_json: bool,
}

impl LogArgs {
    pub(super) fn start(&self, default: &str) -> Result<(), Failure> {
        let (from, text) = match (&self.log, std::env::var("RUST_LOG")) {
            (Some(text), _) => ("--log", text.clone()),
            (None, Ok(text)) if !text.is_empty() => ("RUST_LOG", text),
            _ => ("--log", default.to_owned()),
        };
        let filter = EnvFilter::builder().parse(&text).map_err(|e| {
            Failure::input(format_args!(
                "{from} \"{text}\" is no log filter ({e}): write error, warn, info, debug or \
                 trace, or rules such as \"info,mpbond_net=debug\""
            ))
        })?;
        let logs = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            // It would panic where standard error takes no more: a full disk ends no daemon.
            .log_internal_errors(false)
            .with_target(false);
        if self.log_json {
            logs.json().flatten_event(true).init();
        } else {
            logs.init();
        }
        Ok(())
    }
}
