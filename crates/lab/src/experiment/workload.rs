//! `[[workload]]`: a transfer or an application, and faults meanwhile.

use std::time::Duration;

use mpbond_sim::world::StreamClass;
use mpbond_units::duration_text;
use serde::Deserialize;
use toml::Spanned;

use super::application::{Application, Chunks, Messages, Page, Stream, Video};
use super::link::Change;
use super::setting::Setting;
use super::terms::Direction;
use mpbond_units::Size;

/// Maximum bytes of one workload.
pub(super) const MAX_BYTES: u64 = 4 << 30;

/// A transfer or an application.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Its name in results and asserts.
    pub name: Spanned<String>,
    /// `down`: a GET; `up`: a PUT.
    pub direction: Direction,
    /// Size of the body.
    #[serde(default)]
    pub bytes: Size,
    /// Instead of one body: a video.
    pub video: Option<Video>,
    /// Instead of one body: a page.
    pub page: Option<Page>,
    /// Instead of one body: a stream of constant rate.
    pub stream: Option<Stream>,
    /// Instead of one body: files one after the other over one stream, all requested at once. Only
    /// in files with `simulated = true`.
    #[serde(default)]
    pub files: Vec<Size>,
    /// Instead of one body: chunks with pauses.
    pub chunks: Option<Chunks>,
    /// Instead of one body: messages beside a download.
    pub messages: Option<Messages>,
    /// Traffic class of its connections, stated by their DSCP. Schemes other than `mpbond` have no
    /// classes.
    #[serde(default)]
    pub class: StreamClass,
    /// Instead of a body of fixed size: a download of this duration, counted from before the
    /// connection is opened.
    #[serde(rename = "for", default, with = "duration_text::option")]
    pub length: Option<Duration>,
    /// Faults during the transfer.
    #[serde(rename = "fault", default)]
    pub faults: Vec<Fault>,
    /// Its setting, and its name in the file.
    #[serde(skip)]
    pub(crate) setting: Option<(Setting, String)>,
    /// Changes of links during this workload only.
    #[serde(rename = "change", default)]
    pub changes: Vec<Change>,
}

/// A fault during a transfer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Time from the start of the transfer.
    #[serde(with = "duration_text")]
    pub at: Duration,
    /// Host whose daemon gets SIGKILL.
    pub kill: Option<Spanned<String>>,
    /// Link that drops all packets silently, both ways.
    pub blackhole: Option<Spanned<String>>,
    /// Link that goes down visibly: see [`Change::carrier`].
    pub down_with_error: Option<Spanned<String>>,
}

impl Fault {
    /// The link of the fault, silent or visible.
    pub(crate) fn link(&self) -> Option<&Spanned<String>> {
        self.blackhole.as_ref().or(self.down_with_error.as_ref())
    }
}

impl Workload {
    /// Its application, if it is not a plain transfer.
    pub fn application(&self) -> Option<Application<'_>> {
        let video = self.video.as_ref().map(Application::Video);
        let page = self.page.as_ref().map(Application::Page);
        let stream = self.stream.as_ref().map(Application::Stream);
        let chunks = self.chunks.as_ref().map(Application::Chunks);
        let timed = self.length.map(Application::Timed);
        let messages = self.messages.as_ref().map(Application::Messages);
        let files = (!self.files.is_empty()).then(|| Application::Files(&self.files));
        let all = [video, page, stream, files, chunks, messages, timed];
        all.into_iter().flatten().next()
    }

    /// Most bytes that it fetches; 0 where only the links limit them.
    pub(crate) fn most_bytes(&self) -> u64 {
        self.application()
            .map_or(self.bytes.0, |app| app.most_bytes())
    }

    /// Its page, if a download runs beside it.
    pub(crate) fn page_beside_download(&self) -> Option<&Page> {
        self.page.as_ref().filter(|page| page.bulk)
    }

    /// Whether `name` is its name in the file, or its name with its setting.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        let in_file = self.setting.as_ref().map(|(_, in_file)| in_file);
        self.name.get_ref() == name || in_file.is_some_and(|in_file| in_file == name)
    }
}
