//! Records as JSON for people and line-based tools: one line for each transfer, summary and assert.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

/// `value` as JSON, with line breaks between its fields and between the elements of lists in them;
/// nothing deeper is broken.
///
/// # Errors
/// Errors of serialization.
pub(crate) fn lines(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut out, Lines::default());
    value.serialize(&mut serializer)?;
    out.push(b'\n');
    Ok(out)
}

/// Depth of the deepest line breaks.
const DEPTH: usize = 2;

#[derive(Default)]
struct Lines {
    depth: usize,
    /// Whether the open list or object has an element.
    filled: bool,
}

impl Lines {
    fn open<W: Write + ?Sized>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.filled = false;
        out.write_all(bracket)
    }

    fn close<W: Write + ?Sized>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        let broken = self.filled && self.depth <= DEPTH;
        self.depth -= 1;
        if broken {
            self.indent(out)?;
        }
        self.filled = true;
        out.write_all(bracket)
    }

    fn item<W: Write + ?Sized>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.filled = true;
        if !first {
            out.write_all(b",")?;
        }
        if self.depth <= DEPTH {
            self.indent(out)?;
        }
        Ok(())
    }

    fn indent<W: Write + ?Sized>(&self, out: &mut W) -> io::Result<()> {
        out.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| out.write_all(b" "))
    }
}

impl Formatter for Lines {
    fn begin_array<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(out, b"[")
    }

    fn end_array<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, b"]")
    }

    fn begin_array_value<W: Write + ?Sized>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.item(out, first)
    }

    fn begin_object<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(out, b"{")
    }

    fn end_object<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, b"}")
    }

    fn begin_object_key<W: Write + ?Sized>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.item(out, first)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn one_line_for_each_element() {
        let value = json!({"a": 1, "b": [], "c": [{"x": [1, 2]}, {"x": []}], "d": {}});
        let text = String::from_utf8(lines(&value).unwrap()).unwrap();
        assert_eq!(
            text,
            "{\n \"a\":1,\n \"b\":[],\n \"c\":[\n  {\"x\":[1,2]},\n  \
             {\"x\":[]}\n ],\n \"d\":{}\n}\n"
        );
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read, value);
    }
}
