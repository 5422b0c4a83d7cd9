//! Format detection by the first bytes, and decompression.

use std::fmt;
use std::io::Read;

use crate::error::{ErrorKind, Incomplete, TraceError};
use crate::sink::Sink;
use crate::source::Source;
use crate::{archive, method, perf, perfetto, text, tracedat};

/// Trace formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// ftrace text: the kernel, `trace-cmd report` or atrace.
    FtraceText,
    /// HTML page written by `systrace`.
    SystraceHtml,
    /// `trace.dat`, trace-cmd's binary file.
    TraceDat,
    /// Perfetto protobuf trace.
    Perfetto,
    /// Method trace with a text header before its records (Dalvik, ART).
    MethodClassic,
    /// Streaming method trace (ART): method and thread names are interleaved with the records.
    MethodStreaming,
    /// Output of `perf script`.
    PerfScript,
    /// `perf.data`, perf's binary file.
    PerfData,
    /// Output of `simpleperf report-sample --protobuf`.
    Simpleperf,
}

impl Format {
    /// Name of the format in summaries.
    pub fn name(self) -> &'static str {
        match self {
            Self::FtraceText => "ftrace-text",
            Self::SystraceHtml => "systrace-html",
            Self::TraceDat => "trace.dat",
            Self::Perfetto => "perfetto",
            Self::MethodClassic => "method-trace",
            Self::MethodStreaming => "method-trace-streaming",
            Self::PerfScript => "perf-script",
            Self::PerfData => "perf.data",
            Self::Simpleperf => "simpleperf",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Bytes examined for format detection; covers the head of an HTML page and the comments before a
/// trace's first line.
const HEAD_BYTES: usize = 64 * 1024;

/// Maximum nesting of compression formats. A gzip file inside a zip archive occurs in practice;
/// deeper nesting is refused as hostile.
const MAX_DEPTH: u32 = 3;

/// Reads a trace of any known format to its end and pushes its content into a sink.
///
/// Decompresses gzip, zip (its first file), zstd and the output of `atrace -z`. Memory use does not
/// depend on the length of the trace, apart from the sink's own.
///
/// # Errors
/// If the source fails, the format is unknown, or the content violates the format. A truncated or
/// damaged end is not an error: it is reported to the sink as [`Incomplete`].
pub fn read<'r>(input: impl Read + 'r, sink: &mut dyn Sink) -> Result<Format, TraceError> {
    unwrap(Source::new(Box::new(input)), sink, 0)
}

fn unwrap(mut source: Source<'_>, sink: &mut dyn Sink, depth: u32) -> Result<Format, TraceError> {
    let head = source.peek(HEAD_BYTES)?;
    if head.is_empty() {
        if let Some(cut) = source.cut() {
            let cut = format!("the compressed data is damaged: {cut}");
            return Err(TraceError::malformed(0, cut));
        }
        return Err(TraceError {
            offset: 0,
            kind: ErrorKind::Empty,
        });
    }
    if let Some(packing) = Packing::of(head) {
        if depth == MAX_DEPTH {
            return Err(TraceError::unsupported(
                0,
                "more than three nested compressions",
            ));
        }
        let inner: Box<dyn Read + '_> = match packing {
            Packing::Gzip => Box::new(flate2::read::MultiGzDecoder::new(source)),
            Packing::Zip => archive::first_file(source)?,
            Packing::Zstd => Box::new(archive::zstd(source)?),
            Packing::Atrace { skip } => {
                source.skip(skip as u64)?;
                if source.peek(1)? == b"\x78" {
                    Box::new(flate2::read::ZlibDecoder::new(source))
                } else {
                    Box::new(source)
                }
            }
        };
        return unwrap(Source::new(inner), sink, depth + 1);
    }
    let format = detect(head)?;
    match format {
        Format::FtraceText => text::read(&mut source, text::Wrapping::Plain, sink)?,
        Format::SystraceHtml => text::read(&mut source, text::Wrapping::Html, sink)?,
        Format::TraceDat => tracedat::read(&mut source, sink)?,
        Format::Perfetto => perfetto::read(&mut source, sink)?,
        Format::MethodClassic => method::read_classic(&mut source, sink)?,
        Format::MethodStreaming => method::read_streaming(&mut source, sink)?,
        Format::PerfScript => perf::read_script(&mut source, sink)?,
        Format::PerfData => perf::read_data(&mut source, sink)?,
        Format::Simpleperf => perf::read_simpleperf(&mut source, sink)?,
    }
    if let Some(cut) = source.cut() {
        sink.incomplete(Incomplete::Truncated {
            offset: source.offset(),
            what: format!("the compressed data ({cut})"),
        });
    }
    Ok(format)
}

enum Packing {
    Gzip,
    Zip,
    Zstd,
    Atrace { skip: usize },
}

impl Packing {
    fn of(head: &[u8]) -> Option<Self> {
        if head.starts_with(&[0x1f, 0x8b]) {
            return Some(Self::Gzip);
        }
        if head.starts_with(b"PK\x03\x04") {
            return Some(Self::Zip);
        }
        if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            return Some(Self::Zstd);
        }
        // `adb shell atrace -z` may print a progress line first.
        let near = head.get(..1024).unwrap_or(head);
        let at = memchr::memmem::find(near, b"TRACE:")?;
        let before = near.get(..at)?;
        if !(before.is_empty() || before.starts_with(b"capturing trace")) {
            return None;
        }
        let mut skip = at + 6;
        while matches!(near.get(skip), Some(b'\r' | b'\n')) {
            skip += 1;
        }
        Some(Self::Atrace { skip })
    }
}

fn detect(head: &[u8]) -> Result<Format, TraceError> {
    const MAGICS: [(&[u8], Format); 6] = [
        (b"\x17\x08\x44tracing", Format::TraceDat),
        (b"PERFILE2", Format::PerfData),
        (b"SIMPLEPERF", Format::Simpleperf),
        (b"SLOW", Format::MethodStreaming),
        (b"*version", Format::MethodClassic),
        (b"<!DOCTYPE html", Format::SystraceHtml),
    ];
    for (magic, format) in MAGICS {
        if head.starts_with(magic) {
            return Ok(format);
        }
    }
    if perfetto::looks_like(head) {
        return Ok(Format::Perfetto);
    }
    if head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff") {
        return Err(TraceError::unsupported(
            0,
            "UTF-16 text, as written by redirection in PowerShell: save the trace with adb pull \
             or as UTF-8",
        ));
    }
    let text = head.trim_ascii_start();
    if text
        .get(..5)
        .is_some_and(|t| t.eq_ignore_ascii_case(b"<html"))
        || text
            .get(..9)
            .is_some_and(|t| t.eq_ignore_ascii_case(b"<!doctype"))
    {
        return Ok(Format::SystraceHtml);
    }
    for line in head.split(|b| *b == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = line.strip_suffix(b"\\n\\").unwrap_or(line);
        if text::Head::parse(line).is_some()
            || line.starts_with(b"# tracer:")
            || line.starts_with(b"cpus=")
        {
            return Ok(Format::FtraceText);
        }
        if perf::is_script_head(line) {
            return Ok(Format::PerfScript);
        }
    }
    let shown: Vec<u8> = head.iter().take(24).copied().collect();
    Err(TraceError {
        offset: 0,
        kind: ErrorKind::UnknownFormat(format!("\"{}\"", shown.escape_ascii())),
    })
}

/// Opens a file for [`read`]. No buffering is added, because [`read`] has its own buffer.
///
/// # Errors
/// If the file cannot be opened.
pub fn open(path: &std::path::Path) -> Result<impl Read + use<>, TraceError> {
    std::fs::File::open(path).map_err(|e| TraceError::io(0, e))
}
