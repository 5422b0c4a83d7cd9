//! A download of given duration.

use std::io;
use std::time::{Duration, Instant};

use super::ran::{Noticed, Ran, Setting, used};
use crate::error::{Doing, Error, Result};
use crate::transfer::client::{Connection, Progress, path_of};
use crate::transfer::content::Content;

use crate::record::MessageTimes;
use crate::transfer::watch::Watch;

/// More bytes than any of the links carries in an hour.
const FILE_BYTES: u64 = 1 << 40;

/// Downloads for `length` from before the connection is opened, then closes it.
pub(super) fn fetch(length: Duration, setting: &Setting, progress: Progress) -> Result<Ran> {
    let (mut connection, start) = setting.dial.connect(setting.limit)?;
    let mut watch = Watch::since(start);
    let mut arrived = |more| {
        watch.saw(watch.bytes() + more, Instant::now());
        progress(watch.bytes());
        true
    };
    let end = start + length;
    let intact = download_until(&mut connection, setting.content, end, &mut arrived)?;
    Ok(Ran {
        intact: intact && watch.bytes() > 0,
        watch,
        noticed: Noticed::new(),
        used: used(&connection, start),
        messages: MessageTimes::default(),
    })
}

/// Downloads until `end`, or until `arrived`, which is called with the number of new bytes, returns
/// `false`. Returns whether every byte was right.
///
/// # Errors
/// When the connection breaks before.
pub(super) fn download_until(
    connection: &mut Connection,
    content: &Content,
    end: Instant,
    arrived: &mut dyn FnMut(u64) -> bool,
) -> Result<bool> {
    let (mut at, mut intact, mut enough) = (0, true, false);
    let head = connection.ask(&path_of(FILE_BYTES), None, end)?;
    let over = connection.body(head.length, end, &mut |mut piece| {
        let more = piece.len() as u64;
        while !piece.is_empty() {
            let right = content.piece(at, piece.len() as u64);
            let (now, later) = piece.split_at(right.len());
            intact &= now == right;
            at += right.len() as u64;
            piece = later;
        }
        enough = !arrived(more);
        match enough {
            true => Err(io::ErrorKind::Interrupted.into()),
            false => io::Result::Ok(()),
        }
    });
    match over {
        Err(_) if enough => Ok(intact),
        Err(e) if e.kind() == io::ErrorKind::TimedOut => Ok(intact),
        Err(e) => Err(e).doing("the download broke off"),
        Ok(()) => Err(Error::run("the download was over before its time")),
    }
}
