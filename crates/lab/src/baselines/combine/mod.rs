//! The baseline COMBINE (Ananthanarayanan et al., MobiSys 2007) as MPBond
//! section 6.1 describes it: the file is cut into chunks, a work queue gives the
//! next one to whichever device is free, and each device fetches its chunk as
//! an HTTP byte range.
//!
//! A helper hands a chunk over either as published, after the whole chunk has
//! arrived, or while it arrives, which is faster ([`HandOver`]). Where the
//! descriptions leave a choice, the faster way is taken: the group is formed
//! beforehand, so that the primary's connections to its helpers are open when a
//! transfer begins, and the length of the file is known, as from a manifest.
//!
//! [`HandOver`]: crate::experiment::HandOver

mod agent;
mod assemble;

use std::net::SocketAddrV4;
use std::ops::Range;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use self::assemble::Assembler;
use crate::error::{Error, Result};
use crate::experiment::{Experiment, Role, Scheme};
use crate::network::wiring::Network;
use crate::record::SubflowShare;
use crate::transfer::client::{Connection, Dial, Outcome, Progress, WARM_UP_BYTES, Way, path_of};
use crate::transfer::content::hex;
use crate::transfer::watch::Watch;

/// Port of a helper's agent, on the pipe.
const AGENT_PORT: u16 = 4435;

/// The devices of one transfer, the primary first.
pub(crate) struct Crew {
    workers: Vec<Worker>,
    chunk_bytes: u64,
}

/// The primary's side of one device.
struct Worker {
    /// Name of the path or helper.
    name: String,
    /// To the origin, or to the helper's agent.
    dial: Dial,
    connection: Option<Connection>,
}

/// A piece of the file.
struct Piece {
    offset: u64,
    bytes: Vec<u8>,
}

/// Result of a worker.
struct Done {
    bytes: u64,
    last: Option<Instant>,
}

impl Crew {
    /// Connects the devices of `scheme`, which fetch from `destination`.
    ///
    /// # Errors
    /// When a helper cannot be reached.
    pub fn form(
        e: &Experiment,
        network: &Network,
        scheme: &Scheme,
        destination: SocketAddrV4,
        limit: Duration,
    ) -> Result<Self> {
        let missing = |what: &str| Error::run(format!("scheme combine: no {what}"));
        let primary = network.host_in(Role::Primary)?;
        let path = scheme
            .direct_links(e)
            .next()
            .ok_or_else(|| missing("path"))?;
        let mut workers = vec![Worker {
            name: path.name.get_ref().clone(),
            dial: Dial {
                host: primary.clone(),
                way: Way::Plain(Some(path.name.get_ref().clone())),
                destination,
                class: None,
            },
            connection: None,
        }];
        for helper in scheme.helpers(e) {
            let pipe = e.pipe_of(helper).ok_or_else(|| missing("pipe"))?;
            let way_out = e.uplink_of(helper).ok_or_else(|| missing("HS-Path"))?;
            let host = network.host(helper)?;
            let address = network.address(helper, pipe.name.get_ref());
            let address = address.ok_or_else(|| missing("address on the pipe"))?;
            let agent = SocketAddrV4::new(address, AGENT_PORT);
            let onward = Dial {
                host: host.clone(),
                way: Way::Plain(Some(way_out.name.get_ref().clone())),
                destination,
                class: None,
            };
            agent::start(onward, agent, scheme.hand_over)?;
            let dial = Dial {
                host: primary.clone(),
                way: Way::Plain(Some(pipe.name.get_ref().clone())),
                destination: agent,
                class: None,
            };
            let (connection, _) = dial.connect(limit)?;
            workers.push(Worker {
                name: helper.clone(),
                dial,
                connection: Some(connection),
            });
        }
        Ok(Self {
            workers,
            chunk_bytes: scheme.chunk_bytes(),
        })
    }

    /// Opens and uses the connection of each device to the origin.
    ///
    /// # Errors
    /// When one fails.
    pub fn warm_up(&mut self, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        for worker in &mut self.workers {
            let mut connection = match worker.connection.take() {
                Some(connection) => connection,
                None => worker.dial.connect(limit)?.0,
            };
            let path = path_of(WARM_UP_BYTES);
            connection.get(&path, Some(0..WARM_UP_BYTES), deadline, &mut |_| Ok(()))?;
            worker.connection = Some(connection);
        }
        Ok(())
    }

    /// GETs the first `bytes` of the origin's content, by all devices.
    ///
    /// # Errors
    /// When a device fails or `limit` passes.
    pub fn download(self, bytes: u64, limit: Duration, progress: Progress) -> Result<Outcome> {
        let queue = Queue::new(bytes, self.chunk_bytes);
        let names: Vec<String> = self.workers.iter().map(|w| w.name.clone()).collect();
        // All workers are ready before the clock starts.
        let ready = Barrier::new(self.workers.len() + 1);
        let (pieces, arriving) = channel::<Piece>();
        let (queue, ready) = (&queue, &ready);
        std::thread::scope(|scope| {
            let working: Vec<_> = self
                .workers
                .into_iter()
                .map(|worker| {
                    let pieces = pieces.clone();
                    scope.spawn(move || {
                        let there = worker.dial.host.move_in();
                        ready.wait();
                        there?;
                        let deadline = Instant::now() + limit;
                        worker.work(queue, bytes, deadline, &pieces)
                    })
                })
                .collect();
            drop(pieces);
            ready.wait();
            let start = Instant::now();
            let mut digest = Sha256::new();
            let mut watch = Watch::since(start);
            let mut assembler = Assembler::default();
            let mut first_byte = None;
            // Ends when the last worker has dropped its sender.
            for piece in arriving {
                assembler.put(piece.offset, piece.bytes);
                while let Some(next) = assembler.take() {
                    let now = Instant::now();
                    first_byte.get_or_insert(now);
                    digest.update(&next);
                    watch.saw(watch.bytes() + next.len() as u64, now);
                    progress(watch.bytes());
                }
            }
            let mut shares = Vec::new();
            for (name, worker) in names.into_iter().zip(working) {
                let done = worker.join();
                let done = done.map_err(|_| Error::run("a device of COMBINE panicked"))??;
                shares.push(SubflowShare {
                    name,
                    bytes: done.bytes,
                    finished_s: done.last.map(|at| (at - start).as_secs_f64()),
                });
            }
            let end = watch.last().unwrap_or(start);
            Ok(Outcome {
                bytes: watch.bytes(),
                sha256: hex(&digest.finalize()),
                seconds: (end - start).as_secs_f64(),
                first_byte_s: (first_byte.unwrap_or(start) - start).as_secs_f64(),
                longest_stall: watch.longest(),
                series: watch.into_series(),
                shares,
                redundant_bytes: Some(0),
                ..Outcome::default()
            })
        })
    }
}

impl Worker {
    /// Fetches chunks until none is left, on a thread inside the primary.
    fn work(
        mut self,
        queue: &Queue,
        bytes: u64,
        deadline: Instant,
        pieces: &Sender<Piece>,
    ) -> Result<Done> {
        let mut done = Done {
            bytes: 0,
            last: None,
        };
        while let Some(chunk) = queue.next() {
            let connection = match &mut self.connection {
                Some(connection) => connection,
                none => none.insert(self.dial.connect_here(deadline)?),
            };
            let mut offset = chunk.start;
            let head = connection.get(&path_of(bytes), Some(chunk), deadline, &mut |piece| {
                let sent = pieces.send(Piece {
                    offset,
                    bytes: piece.to_vec(),
                });
                offset += piece.len() as u64;
                sent.map_err(|_| std::io::ErrorKind::BrokenPipe.into())
            });
            let head = head.map_err(|e| Error::run(format!("{}: {e}", self.name)))?;
            done.bytes += head.length;
            done.last = Some(Instant::now());
        }
        Ok(done)
    }
}

/// Work queue: chunks of a file that no device has taken, in order.
struct Queue {
    left: Mutex<Range<u64>>,
    chunk_bytes: u64,
}

impl Queue {
    fn new(bytes: u64, chunk_bytes: u64) -> Self {
        Self {
            left: Mutex::new(0..bytes),
            chunk_bytes: chunk_bytes.max(1),
        }
    }

    fn next(&self) -> Option<Range<u64>> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if left.is_empty() {
            return None;
        }
        let end = left.end.min(left.start + self.chunk_bytes);
        let chunk = left.start..end;
        left.start = end;
        Some(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_in_exactly_one_chunk() {
        let queue = Queue::new(600, 256);
        let chunks: Vec<_> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(chunks, [0..256, 256..512, 512..600]);
        assert_eq!(Queue::new(0, 256).next(), None);
    }
}
