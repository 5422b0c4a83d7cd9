//! Options of a run in real time.

use std::path::PathBuf;
use std::time::Duration;

use crate::machine_use::further;
use crate::schedule::repetitions::Part;

/// Options of a run in real time.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// File for the record, as JSON.
    pub json: Option<PathBuf>,
    /// File for a page of tables and pictures.
    pub html: Option<PathBuf>,
    /// Folder for configurations and logs of the daemons, created when absent. Without it they
    /// vanish with the lab.
    pub out: Option<PathBuf>,
    /// File for a log of every packet of every emulated link, as CSV.
    pub packet_log: Option<PathBuf>,
    /// Folder for a capture of every emulated link, created when absent.
    pub pcap: Option<PathBuf>,
    /// File of results, one JSON line each. Transfers that it contains are not run again; new
    /// results are appended.
    pub resume: Option<PathBuf>,
    /// Number of repetitions, instead of the experiment's.
    pub repetitions: Option<u32>,
    /// Maximum number of further repetitions where some were disturbed; by default half of
    /// the repetitions, and none with [`Self::at_most`] or [`Self::part`].
    pub further: Option<u32>,
    /// Only the repetitions of this part, and no further ones. The results of all parts together,
    /// in the file of [`Self::resume`], are those of a whole run.
    pub part: Option<Part>,
    /// Maximum expected duration. Repetitions, workloads and idle times are cut to meet it; the
    /// record says how.
    pub at_most: Option<Duration>,
    /// Only schemes whose name contains one of these; all when empty.
    pub schemes: Vec<String>,
    /// Only workloads whose name contains one of these; all when empty.
    pub workloads: Vec<String>,
    /// The `mpbond` program; by default the one beside this program, or the one in PATH.
    pub binary: Option<PathBuf>,
    /// Whether to print neither progress nor tables.
    pub quiet: bool,
}

impl RunOptions {
    /// Maximum number of further repetitions of an experiment with this many.
    pub(crate) fn most_further(&self, repetitions: u32) -> u32 {
        match (self.further, self.at_most, self.part) {
            (Some(most), _, None) => most,
            (_, _, Some(_)) | (None, Some(_), None) => 0,
            (None, None, None) => further(repetitions),
        }
    }
}
