//! HTML pages written by `systrace`. Old versions store the trace as an escaped JavaScript string,
//! new versions in `<script class="trace-data">` elements, the first of which is usually a process
//! list.

/// Whether a line of the page is trace data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Outside,
    Inside,
}

pub(super) struct Page {
    inside: bool,
    sections: u32,
}

impl Page {
    pub(super) fn new() -> Self {
        Self {
            inside: false,
            sections: 0,
        }
    }

    /// Whether the page ended inside a data section.
    pub(super) fn open(&self) -> bool {
        self.inside
    }

    /// Number of data sections.
    pub(super) fn sections(&self) -> u32 {
        self.sections
    }

    pub(super) fn line(&mut self, line: &[u8]) -> Place {
        if self.inside {
            // On a line of its own after trace text; at the end of the line after the recorder's
            // JSON.
            let text = line.trim_ascii();
            if text.starts_with(b"</script>") || text.ends_with(b"</script>") {
                self.inside = false;
                return Place::Outside;
            }
            return Place::Inside;
        }
        let text = line.trim_ascii();
        let opens = (text.starts_with(b"<script")
            && memchr::memmem::find(text, b"class=\"trace-data\"").is_some())
            || text.ends_with(b"linuxPerfData = \"\\");
        if opens {
            self.inside = true;
            self.sections += 1;
        }
        Place::Outside
    }
}

/// Resolves the JavaScript string escapes that occur in trace text.
pub(super) fn unescape(text: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let mut bytes = text.iter();
    while let Some(&b) = bytes.next() {
        if b != b'\\' {
            out.push(b);
            continue;
        }
        match bytes.next() {
            Some(b'n' | b'r') => out.push(b' '),
            Some(b't') => out.push(b'\t'),
            Some(&other) => out.push(other),
            None => {}
        }
    }
}

/// Columns of a `ps` listing, from its heading.
pub(super) struct ProcessList {
    pid: usize,
    tid: Option<usize>,
    name: usize,
    /// Whether the name is the last column and may contain spaces.
    last: bool,
}

impl ProcessList {
    /// Parses a heading such as `USER PID TID CMD`.
    pub(super) fn header(text: &[u8]) -> Option<Self> {
        if !text.starts_with(b"USER") {
            return None;
        }
        let columns: Vec<&[u8]> = text
            .split(u8::is_ascii_whitespace)
            .filter(|w| !w.is_empty())
            .collect();
        let place = |name: &[u8]| columns.iter().position(|c| *c == name);
        let name = place(b"CMD").or_else(|| place(b"NAME"))?;
        Some(Self {
            pid: place(b"PID")?,
            tid: place(b"TID"),
            name,
            last: name + 1 == columns.len(),
        })
    }

    /// Thread id, process id and name of a row.
    pub(super) fn row<'a>(&self, text: &'a [u8]) -> Option<(u32, u32, &'a [u8])> {
        let mut rest = text.trim_ascii();
        let (mut pid, mut tid) = (None, None);
        for column in 0..self.name {
            let len = rest.iter().position(u8::is_ascii_whitespace)?;
            let (word, after) = rest.split_at_checked(len)?;
            let value = || std::str::from_utf8(word).ok()?.parse::<u32>().ok();
            if column == self.pid {
                pid = Some(value()?);
            } else if Some(column) == self.tid {
                tid = Some(value()?);
            }
            rest = after.trim_ascii_start();
        }
        if !self.last {
            rest = rest.get(..rest.iter().position(u8::is_ascii_whitespace)?)?;
        }
        let pid = pid?;
        Some((tid.unwrap_or(pid), pid, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_lists_are_read_by_their_heading() {
        let list = ProcessList::header(b"USER           PID   TID CMD").unwrap();
        assert_eq!(
            list.row(b"system       31605 31610 HwBinder:31605_ x"),
            Some((31610, 31605, b"HwBinder:31605_ x".as_slice()))
        );
        assert_eq!(list.row(b"system only"), None);
        let list = ProcessList::header(b"USER  PID  PPID VSZ RSS NAME").unwrap();
        assert_eq!(
            list.row(b"root 1 0 10 20 init"),
            Some((1, 1, b"init".as_slice()))
        );
        assert!(ProcessList::header(b"<...>-9 [000] 1.0: x: y").is_none());
    }

    #[test]
    fn escapes_resolve() {
        let mut out = Vec::new();
        unescape(br#"a \"b\" \\c\"#, &mut out);
        assert_eq!(out, br#"a "b" \c"#);
    }
}
