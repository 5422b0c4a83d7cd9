//! Connection between an old and a new process: path of its socket, and messages with descriptors
//! (unix(7), SCM_RIGHTS).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;
use rustix::cmsg_space;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, recvmsg, sendmsg, shutdown,
};
use serde::{Deserialize, Serialize};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::Mutex;

/// Maximum number of listeners of a daemon that can be taken over.
pub(super) const MAX_LISTENERS: usize = 64;

/// Maximum size of a message: the names of all listeners, with room.
const MAX_MESSAGE_BYTES: usize = 16 << 10;

/// Path of the socket for a new process, beside the status socket.
pub(super) fn path_beside(status_socket: &Path) -> PathBuf {
    let mut path = status_socket.as_os_str().to_owned();
    path.push(".upgrade");
    path.into()
}

/// Message of either process. Versions of the program differ at its two ends: a field may be added
/// with a default, none may be removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Message {
    /// New process: asks for the listeners of this role.
    TakeOver { role: String, process: u32 },
    /// Old process: all listeners, with a descriptor for each name.
    Listeners { process: u32, names: Vec<String> },
    /// Old process: it keeps them.
    Refused { reason: String },
    /// New process: it accepts connections from now on.
    Ready,
    /// Old process: it answers on the status socket no longer.
    TakenOver,
    /// New process: an unread connection that is for the old one, with its descriptor.
    Connection,
}

/// A connection between two processes. A message is its length (u32), then JSON; descriptors come
/// with the length.
#[derive(Debug)]
pub(super) struct Line {
    stream: UnixStream,
    /// Held while a message is written, which may take several calls.
    writing: Mutex<()>,
}

impl Line {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            writing: Mutex::default(),
        }
    }

    /// The process at the other end runs as the same user.
    ///
    /// # Errors
    /// It does not.
    pub(super) fn check_user(&self) -> io::Result<()> {
        let (theirs, ours) = (self.stream.peer_cred()?.uid(), geteuid().as_raw());
        if theirs == ours {
            return Ok(());
        }
        let reason = format!("the other process runs as user {theirs}, this one as user {ours}");
        Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
    }

    /// Ends this side: the other one receives no further message.
    pub(super) fn end(&self) -> io::Result<()> {
        Ok(shutdown(&self.stream, Shutdown::Write)?)
    }

    /// Sends a message with copies of these descriptors.
    pub(super) async fn send(
        &self,
        message: &Message,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let text = serde_json::to_vec(message)?;
        let length = u32::try_from(text.len()).map_err(io::Error::other)?;
        let octets = [&length.to_be_bytes()[..], &text].concat();
        let _writing = self.writing.lock().await;
        let mut sent = self.write(&octets, descriptors).await?;
        while let Some(rest) = octets.get(sent..).filter(|rest| !rest.is_empty()) {
            sent += self.write(rest, &[]).await?;
        }
        Ok(())
    }

    async fn write(&self, octets: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
        let write = || {
            let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_LISTENERS))];
            let mut rights = SendAncillaryBuffer::new(&mut space);
            if !descriptors.is_empty() && !rights.push(SendAncillaryMessage::ScmRights(descriptors))
            {
                return Err(io::Error::other("too many descriptors for a message"));
            }
            let octets = [IoSlice::new(octets)];
            Ok(sendmsg(
                &self.stream,
                &octets,
                &mut rights,
                SendFlags::NOSIGNAL,
            )?)
        };
        self.stream.async_io(Interest::WRITABLE, write).await
    }

    /// The next message with its descriptors; `None` at the end. Not to be cancelled if another
    /// message is to be received afterwards.
    pub(super) async fn receive(&self) -> io::Result<Option<(Message, Vec<OwnedFd>)>> {
        let mut descriptors = Vec::new();
        let mut length = [0; 4];
        if !self.read(&mut length, &mut descriptors).await? {
            return Ok(None);
        }
        let length = usize::try_from(u32::from_be_bytes(length)).map_err(io::Error::other)?;
        if length > MAX_MESSAGE_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a message that is too long",
            ));
        }
        let mut text = vec![0; length];
        if !self.read(&mut text, &mut descriptors).await? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Some((serde_json::from_slice(&text)?, descriptors)))
    }

    /// Fills `into`; false if the connection has ended before its first octet.
    async fn read(&self, into: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<bool> {
        let mut filled = 0;
        while let Some(rest) = into.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let read = || {
                let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_LISTENERS))];
                let mut rights = RecvAncillaryBuffer::new(&mut space);
                let mut rest = [IoSliceMut::new(rest)];
                let flags = RecvFlags::CMSG_CLOEXEC;
                let received = recvmsg(&self.stream, &mut rest, &mut rights, flags)?;
                for message in rights.drain() {
                    if let RecvAncillaryMessage::ScmRights(rights) = message {
                        descriptors.extend(rights);
                    }
                }
                Ok(received.bytes)
            };
            match self.stream.async_io(Interest::READABLE, read).await? {
                0 if filled == 0 => return Ok(false),
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => filled += read,
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream as Plain;

    use super::*;

    #[tokio::test]
    async fn descriptors_arrive_with_their_message() {
        let (a, b) = UnixStream::pair().unwrap();
        let (a, b) = (Line::new(a), Line::new(b));
        a.check_user().unwrap();
        let (mut kept, given) = Plain::pair().unwrap();
        a.send(&Message::Ready, &[]).await.unwrap();
        a.send(&Message::Connection, &[given.as_fd()])
            .await
            .unwrap();
        drop((a, given));
        let (message, none) = b.receive().await.unwrap().unwrap();
        assert_eq!((message, none.len()), (Message::Ready, 0));
        let (message, mut got) = b.receive().await.unwrap().unwrap();
        assert_eq!((message, got.len()), (Message::Connection, 1));
        assert!(b.receive().await.unwrap().is_none());
        let (a, b) = UnixStream::pair().unwrap();
        let b = Line::new(b);
        a.try_write(&[0, 1, 0, 0]).unwrap();
        let e = b.receive().await.unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::InvalidData);
        kept.write_all(b"unread").unwrap();
        let mut text = [0; 6];
        Plain::from(got.remove(0)).read_exact(&mut text).unwrap();
        assert_eq!(&text, b"unread");
    }
}
