//! Writer of pcapng (draft-ietf-opsawg-pcapng), with times in nanoseconds.

use std::io::Write;

use mpbond_units::Timestamp;

use crate::record::LinkType;

const COMMENT: u16 = 1;
const NAME: u16 = 2;
const RESOLUTION: u16 = 9;

pub(crate) struct PcapngWriter<W> {
    to: W,
    interfaces: u32,
    block: Vec<u8>,
}

impl<W: Write> PcapngWriter<W> {
    pub(crate) fn new(to: W) -> std::io::Result<Self> {
        let mut writer = Self {
            to,
            interfaces: 0,
            block: Vec::new(),
        };
        let mut body = 0x1a2b_3c4d_u32.to_le_bytes().to_vec();
        body.extend([1, 0, 0, 0]);
        body.extend((-1_i64).to_le_bytes());
        writer.write(0x0a0d_0d0a, &body)?;
        Ok(writer)
    }

    /// Adds an interface; returns its number.
    pub(crate) fn interface(&mut self, link: LinkType, name: &str) -> std::io::Result<u32> {
        let mut body = (link.0 as u16).to_le_bytes().to_vec();
        body.extend([0; 6]);
        option(&mut body, NAME, name.as_bytes());
        option(&mut body, RESOLUTION, &[9]);
        option(&mut body, 0, &[]);
        self.write(1, &body)?;
        self.interfaces += 1;
        Ok(self.interfaces - 1)
    }

    pub(crate) fn packet(
        &mut self,
        interface: u32,
        at: Timestamp,
        data: &[u8],
        original: u32,
        comment: &str,
    ) -> std::io::Result<()> {
        let ns = at.as_nanos();
        let mut body = std::mem::take(&mut self.block);
        body.clear();
        for field in [
            interface,
            (ns >> 32) as u32,
            ns as u32,
            data.len() as u32,
            original,
        ] {
            body.extend(field.to_le_bytes());
        }
        body.extend_from_slice(data);
        body.resize(body.len().next_multiple_of(4), 0);
        option(&mut body, COMMENT, comment.as_bytes());
        option(&mut body, 0, &[]);
        let done = self.write(6, &body);
        self.block = body;
        done
    }

    pub(crate) fn finish(mut self) -> std::io::Result<()> {
        self.to.flush()
    }

    fn write(&mut self, kind: u32, body: &[u8]) -> std::io::Result<()> {
        let length = (body.len() as u32 + 12).to_le_bytes();
        self.to.write_all(&kind.to_le_bytes())?;
        self.to.write_all(&length)?;
        self.to.write_all(body)?;
        self.to.write_all(&length)
    }
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    // Lengths have two octets; longer values are only informative and are cut.
    let value = value
        .get(..value.len().min(usize::from(u16::MAX)))
        .unwrap_or_default();
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend_from_slice(value);
    body.resize(body.len().next_multiple_of(4), 0);
}
