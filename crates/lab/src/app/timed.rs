//! A download that goes on for a given time: what counts is what came.

use std::io;
use std::time::{Duration, Instant};

use super::{Noticed, Ran, Setting, used};
use crate::client::Progress;
use crate::error::{Doing, Error, Result};
use crate::fetch::path_of;
use crate::watch::Watch;

/// More than any of the lab's links carries in an hour.
const FILE_BYTES: u64 = 1 << 40;

/// Downloads for `length` from before it connects, and goes away.
pub(super) fn fetch(length: Duration, setting: &Setting, progress: Progress) -> Result<Ran> {
    let (mut connection, start) = setting.dial.connect(setting.limit)?;
    let end = start + length;
    let mut watch = Watch::since(start);
    let mut intact = true;
    let head = connection.ask(&path_of(FILE_BYTES), None, end)?;
    let over = connection.body(head.length, end, &mut |mut piece| {
        let mut at = watch.bytes();
        watch.saw(at + piece.len() as u64, Instant::now());
        progress(watch.bytes());
        while !piece.is_empty() {
            let right = setting.content.piece(at, piece.len() as u64);
            let (now, later) = piece.split_at(right.len());
            intact &= now == right;
            at += right.len() as u64;
            piece = later;
        }
        io::Result::Ok(())
    });
    match over {
        Err(e) if e.kind() == io::ErrorKind::TimedOut => {}
        Err(e) => return Err(e).doing("the download broke off"),
        Ok(()) => return Err(Error::run("the download was over before its time")),
    }
    Ok(Ran {
        intact: intact && watch.bytes() > 0,
        watch,
        noticed: Noticed::new(),
        used: used(&connection, start),
    })
}
