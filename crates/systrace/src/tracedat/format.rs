//! Event formats of the kernel: `/sys/kernel/tracing/events/*/*/format`
//! (Documentation/trace/events.rst in the kernel sources).

use super::byte_order::ByteOrder;

/// Location of a field in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    pub offset: usize,
    pub size: usize,
    pub signed: bool,
    /// `__data_loc`: the field holds the offset and the length of the data.
    pub dynamic: bool,
}

/// A parsed event format.
#[derive(Debug)]
pub(super) struct EventFormat {
    pub name: String,
    pub id: u16,
    pub fields: Vec<(String, Field)>,
}

impl EventFormat {
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let (mut name, mut id, mut fields) = (None, None, Vec::new());
        for line in text.lines() {
            let line = line.trim();
            if let Some(n) = line.strip_prefix("name:") {
                name = Some(n.trim().to_owned());
            } else if let Some(n) = line.strip_prefix("ID:") {
                id = n.trim().parse().ok();
            } else if line.starts_with("field:") {
                fields.extend(field(line));
            } else if line.starts_with("print fmt:") {
                break;
            }
        }
        Some(Self {
            name: name?,
            id: id?,
            fields,
        })
    }

    pub(super) fn field(&self, name: &str) -> Option<Field> {
        self.fields.iter().find(|(n, _)| n == name).map(|(_, f)| *f)
    }
}

/// `field:char comm[16]; offset:8; size:16; signed:1;`, separated by tabs.
fn field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.split(';').map(str::trim);
    let declaration = parts.next()?.strip_prefix("field:")?.trim();
    let (mut offset, mut size, mut signed) = (None, None, false);
    for part in parts {
        if let Some(v) = part.strip_prefix("offset:") {
            offset = v.trim().parse().ok();
        } else if let Some(v) = part.strip_prefix("size:") {
            size = v.trim().parse().ok();
        } else if let Some(v) = part.strip_prefix("signed:") {
            signed = v.trim() == "1";
        }
    }
    let bare = declaration.split('[').next()?.trim_end();
    // In `__data_loc char[] name` the brackets precede the name.
    let dynamic = declaration.starts_with("__data_loc") || declaration.starts_with("__rel_loc");
    let name = if dynamic { declaration } else { bare };
    let name = name.rsplit([' ', '*', ']']).next()?;
    Some((
        name.to_owned(),
        Field {
            offset: offset?,
            size: size?,
            signed,
            dynamic,
        },
    ))
}

/// Layout of a ring-buffer page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageLayout {
    pub order: ByteOrder,
    pub commit: Field,
    pub data: usize,
}

impl PageLayout {
    pub(super) fn parse(text: &[u8], order: ByteOrder) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let fields: Vec<_> = text.lines().filter_map(|l| field(l.trim())).collect();
        let find = |name: &str| fields.iter().find(|(n, _)| n == name).map(|(_, f)| *f);
        let commit = find("commit")?;
        let data = find("data")?.offset;
        (matches!(commit.size, 4 | 8) && commit.offset <= 64 && (8..=128).contains(&data))
            .then_some(Self {
                order,
                commit,
                data,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_parse() {
        let f = EventFormat::parse(
            b"name: demo\nID: 76\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\
             \tsigned:0;\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\t\
             field:__data_loc char[] path;\toffset:12;\tsize:4;\tsigned:0;\n\tfield:char comm[16];\
             \toffset:16;\tsize:16;\tsigned:0;\n\tfield:const char * action;\toffset:32;\tsize:8;\
             \tsigned:0;\n\nprint fmt: \"field:x\"\n",
        )
        .unwrap();
        assert_eq!((f.name.as_str(), f.id), ("demo", 76));
        assert!(f.field("path").unwrap().dynamic);
        assert_eq!(f.field("comm").unwrap().size, 16);
        assert_eq!(f.field("action").unwrap().offset, 32);
        assert!(f.field("common_pid").unwrap().signed);
        assert!(EventFormat::parse(b"name: x\n").is_none());
    }

    #[test]
    fn page_layout() {
        let text = b"\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t \
        commit;\toffset:8;\tsize:8;\tsigned:1;\n\tfield: char data;\toffset:16;\tsize:4080;\t\
        signed:0;\n";
        let l = PageLayout::parse(text, ByteOrder::new(false)).unwrap();
        assert_eq!((l.commit.offset, l.commit.size, l.data), (8, 8, 16));
        assert!(PageLayout::parse(b"junk", ByteOrder::new(false)).is_none());
    }
}
