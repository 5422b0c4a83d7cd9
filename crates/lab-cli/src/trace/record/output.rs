//! Output file of a recording and its contents, and the error of a machine that cannot record.

use std::fs::File;
use std::path::Path;

use mpbond_command::Failure;
use mpbond_systrace::Summary;

use crate::trace::form::make_folder;
use crate::trace::input::bad;

/// Exit code where the machine lacks something.
const LACKS: u8 = 3;

pub(crate) fn lacks(what: String) -> Failure {
    Failure::with_code(what, LACKS)
}

pub(crate) fn create(path: &Path) -> Result<File, Failure> {
    if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
        make_folder(folder)?;
    }
    File::create(path)
        .map_err(|e| Failure::run(format_args!("cannot write {}: {e}", path.display())))
}

/// Reads a recording; returns a line about its contents.
pub(super) fn contents(file: &Path) -> Result<String, Failure> {
    let input =
        File::open(file).map_err(|e| Failure::run(format_args!("{}: {e}", file.display())))?;
    let summary = Summary::of(input).map_err(|e| bad(file, &e))?;
    let events: u64 = summary.events.values().sum();
    let whole = match &summary.incomplete {
        Some(why) => format!("; not whole: {why}"),
        None => String::new(),
    };
    let what = match summary.samples {
        Some(n) => format!("{n} samples"),
        None => format!("{events} events in {:.3} s", summary.span_s),
    };
    Ok(format!("{}: {what}{whole}\n", file.display()))
}
