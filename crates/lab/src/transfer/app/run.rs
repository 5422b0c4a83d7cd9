//! Running an application to its end.

use std::time::Instant;

use super::ran::Setting;
use super::{chunks, messages, page, stream, timed, video};
use crate::error::{Error, Result};
use crate::experiment::Application;
use crate::transfer::client::{Outcome, Progress};

/// Runs the application to its end.
///
/// # Errors
/// When a connection fails or the limit passes.
pub(crate) fn run(app: Application, setting: &Setting, progress: Progress) -> Result<Outcome> {
    let start = Instant::now();
    let ran = match app {
        Application::Video(video) => video::watch(video, setting, progress)?,
        Application::Page(page) => page::load(page, setting, progress)?,
        Application::Stream(stream) => stream::listen(stream, setting, progress)?,
        Application::Files(_) => {
            return Err(Error::run("files over one stream run in virtual time only"));
        }
        Application::Chunks(chunks) => chunks::fetch(chunks, setting, progress)?,
        Application::Messages(messages) => messages::exchange(messages, setting, progress)?,
        Application::Timed(length) => timed::fetch(length, setting, progress)?,
    };
    let seconds = start.elapsed().as_secs_f64();
    Ok(Outcome {
        bytes: ran.watch.bytes(),
        seconds,
        first_byte_s: ran.watch.first_s().unwrap_or(seconds),
        longest_stall: ran.watch.longest(),
        intact: Some(ran.intact),
        noticed: ran.noticed,
        messages: ran.messages,
        used: ran.used,
        series: ran.watch.into_series(),
        ..Outcome::default()
    })
}
