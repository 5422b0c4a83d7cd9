//! Logs on standard error.

use clap::Args;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::Failure;

/// Options of logging.
#[derive(Debug, Args)]
#[command(next_help_heading = "Logs")]
pub struct LogArgs {
    /// What to log: error, warn, info, debug, trace, or rules such as "info,mpbond_net=debug".
    /// Otherwise RUST_LOG says it; otherwise daemons log info, everything else warnings.
    #[arg(long, global = true, value_name = "FILTER", hide_short_help = true)]
    log: Option<String>,
    /// Log as JSON, one object per line.
    #[arg(long, global = true, hide_short_help = true)]
    log_json: bool,
}

impl LogArgs {
    /// Starts logging to standard error, with the filter `default` where neither `--log` nor
    /// RUST_LOG gives one.
    ///
    /// # Errors
    /// When the filter given is not one.
    pub fn start(&self, default: &str) -> Result<(), Failure> {
        let (from, text) = match (&self.log, std::env::var("RUST_LOG")) {
            (Some(text), _) => ("--log", text.clone()),
            (None, Ok(text)) if !text.is_empty() => ("RUST_LOG", text),
            _ => ("--log", default.to_owned()),
        };
        let filter = text.parse::<Targets>().map_err(|e| {
            Failure::input(format_args!(
                "{from} \"{text}\" is no log filter ({e}): write error, warn, info, debug or \
                 trace, or rules such as \"info,mpbond_net=debug\""
            ))
        })?;
        let logs = tracing_subscriber::fmt::layer()
            .with_writer(std::io::stderr)
            // It would panic where standard error takes no more: a full disk ends no daemon.
            .log_internal_errors(false)
            .with_target(false);
        let logs = if self.log_json {
            logs.json().flatten_event(true).boxed()
        } else {
            logs.boxed()
        };
        let all = tracing_subscriber::registry().with(logs.with_filter(filter));
        // A program starts its logs once.
        let _ = all.try_init();
        Ok(())
    }
}
