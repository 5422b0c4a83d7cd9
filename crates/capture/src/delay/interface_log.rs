//! Logs of interfaces: lines of time, interface and a third field.

use std::io::Read;

use crate::error::CaptureError;
use crate::lines::{Lines, fields};
use crate::source::Source;

/// Time in seconds, interface, and the value of the third field.
pub(super) type Entry<T> = (f64, String, T);

/// Lines of time, interface and a third field, in the order of their times.
pub(super) fn read<R: Read, T>(
    file: &str,
    from: R,
    header: &str,
    value: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<Entry<T>>, CaptureError> {
    let mut lines = Lines::new(Source::new(file, from));
    if !lines.advance()? || lines.line().trim() != header {
        return Err(lines.error(format!("must begin with `{header}`")));
    }
    let mut all: Vec<Entry<T>> = Vec::new();
    while lines.advance()? {
        if lines.line().trim().is_empty() {
            continue;
        }
        let Some([at, interface, what]) = fields::<3>(lines.line()) else {
            return Err(lines.error(format!("not three fields, as in `{header}`")));
        };
        let time = at.parse::<f64>().ok().filter(|t| t.is_finite());
        let Some(time) = time else {
            return Err(lines.error(format!("`{at}` is not a time in seconds")));
        };
        if all.last().is_some_and(|(before, ..)| time < *before) {
            return Err(lines.error(format!("time goes back to {time}")));
        }
        let what = value(what).map_err(|e| lines.error(e))?;
        all.push((time, interface.to_owned(), what));
    }
    Ok(all)
}
