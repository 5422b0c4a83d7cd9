//! Files at the ends of a transfer.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::fs::sendfile;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

use super::options::{Copies, Files};
use super::{BUFFER_BYTES, Transport};
use crate::error::{Doing, Error, Result};

/// Capacity of the pipe between socket and file: the most that an ordinary user may set.
pub(super) const PIPE_BYTES: usize = 1 << 20;

/// Source of the data that is sent.
pub(super) enum Source {
    /// Always the same bytes.
    Memory(Vec<u8>),
    /// A file, from its beginning again after its end.
    File {
        file: File,
        bytes: u64,
        at: u64,
        copies: Copies,
        buffer: Vec<u8>,
    },
}

impl Source {
    pub(super) fn open(file: Option<&Files>, transport: Transport) -> Result<Self> {
        let buffer_bytes = match transport {
            Transport::Tcp | Transport::L2 => BUFFER_BYTES,
            Transport::Udp(bytes) => BUFFER_BYTES.max(bytes.into()),
        };
        let Some(Files { path, copies, .. }) = file else {
            return Ok(Self::Memory(vec![0x5a; buffer_bytes]));
        };
        let opened = File::open(path).at("open", path)?;
        let bytes = opened.metadata().at("read", path)?.len();
        if bytes == 0 {
            let why = format!("{}: the file is empty", path.display());
            return Err(Error::Experiment(why));
        }
        Ok(Self::File {
            file: opened,
            bytes,
            at: 0,
            copies: *copies,
            buffer: vec![0; buffer_bytes],
        })
    }

    /// Writes at most `most` bytes, and returns their number.
    pub(super) fn write_to(&mut self, stream: &mut TcpStream, most: usize) -> io::Result<usize> {
        if let Self::File {
            file,
            bytes,
            at,
            copies: Copies::One,
            ..
        } = self
        {
            let sent = sendfile(&*stream, &*file, Some(at), most)?;
            if sent == 0 && *at < *bytes {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if *at >= *bytes {
                *at = 0;
            }
            return Ok(sent);
        }
        let data = self.next(most.min(BUFFER_BYTES))?;
        stream.write_all(data)?;
        Ok(data.len())
    }

    /// The next bytes: `most`, or fewer at the end of a file. `most` is at most the buffer's size.
    pub(super) fn next(&mut self, most: usize) -> io::Result<&[u8]> {
        match self {
            Self::Memory(data) => Ok(data.get(..most).unwrap_or(data)),
            Self::File {
                file,
                bytes,
                at,
                buffer,
                ..
            } => {
                let end = most.min(buffer.len());
                let part = buffer.get_mut(..end).unwrap_or_default();
                let read = file.read_at(part, *at)?;
                if read == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                *at += read as u64;
                if *at >= *bytes {
                    *at = 0;
                }
                Ok(buffer.get(..read).unwrap_or_default())
            }
        }
    }
}

/// Destination of the data that arrives.
pub(super) enum Sink {
    Nowhere,
    File(Ring),
}

/// A file that is written from its beginning again after a number of bytes.
pub(super) struct Ring {
    file: File,
    bytes: u64,
    at: u64,
    /// Of one copy.
    pipe: Option<(OwnedFd, OwnedFd)>,
}

impl Sink {
    pub(super) fn create(file: Option<&Files>) -> Result<Self> {
        let Some(Files {
            path,
            copies,
            ring_bytes,
        }) = file
        else {
            return Ok(Self::Nowhere);
        };
        let pipe = match copies {
            Copies::Two => None,
            Copies::One => {
                let (out, into) = pipe_with(PipeFlags::CLOEXEC).doing("cannot make a pipe")?;
                // A smaller one works, too.
                let _ = fcntl_setpipe_size(&into, PIPE_BYTES);
                Some((out, into))
            }
        };
        Ok(Self::File(Ring {
            file: File::create(path).at("create", path)?,
            bytes: ring_bytes.unwrap_or(u64::MAX),
            at: 0,
            pipe,
        }))
    }

    /// Moves bytes from the connection to the file by one copy, and returns their number; `None`
    /// with two copies.
    pub(super) fn splice_from(&mut self, stream: &TcpStream) -> io::Result<Option<usize>> {
        let Self::File(ring) = self else {
            return Ok(None);
        };
        let Some((out, into)) = &ring.pipe else {
            return Ok(None);
        };
        let flags = SpliceFlags::MOVE;
        let taken = splice(stream, None, into, None, PIPE_BYTES, flags)?;
        let mut left = taken;
        while left > 0 {
            let room = usize::try_from(ring.bytes - ring.at).unwrap_or(usize::MAX);
            let moved = splice(
                out,
                None,
                &ring.file,
                Some(&mut ring.at),
                left.min(room),
                flags,
            )?;
            if moved == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            left -= moved;
            if ring.at >= ring.bytes {
                ring.at = 0;
            }
        }
        Ok(Some(taken))
    }

    /// Writes bytes by the second of two copies.
    pub(super) fn write(&mut self, mut data: &[u8]) -> io::Result<()> {
        let Self::File(ring) = self else {
            return Ok(());
        };
        while !data.is_empty() {
            let room = usize::try_from(ring.bytes - ring.at).unwrap_or(usize::MAX);
            let (now, later) = data.split_at(data.len().min(room));
            ring.file.write_all(now)?;
            ring.at += now.len() as u64;
            if ring.at >= ring.bytes {
                ring.at = 0;
                ring.file.seek(SeekFrom::Start(0))?;
            }
            data = later;
        }
        Ok(())
    }
}
