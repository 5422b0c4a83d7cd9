//! Applications and rules of connections, in the status.

use std::collections::VecDeque;
use std::rc::Rc;
use std::vec;

use mpbond_session::{SessionId, StreamId};
use tokio::time::Instant;

use super::flows::{ASKED, Flows};
use crate::driver::{Driver, TransferLog};
use crate::policy::Cgroups;
use crate::primary::connections::identity::Identity;
use crate::primary::state::Primary;
use crate::status::{Status, TransferStatus};
use crate::status_text::{PART, Report};

/// Finds out which applications have the connections that sessions carry, the latest ones first,
/// and some at a time. The folders of control groups are read once at most, for all.
async fn find_applications(flows: &Flows, groups: &Cgroups) {
    let asked = Instant::now();
    flows.watch();
    let mut left = ASKED;
    flows.visit(|flow| {
        if left > 0 && !flow.identity.has_asked() {
            left -= 1;
            flow.identity.owner();
        }
    });
    let mut unknown: Vec<Rc<Identity>> = Vec::new();
    flows.visit_all(|identity| {
        if identity.has_asked() && !identity.find_group(groups, asked) {
            unknown.push(Rc::clone(identity));
        }
    });
    let Some(first) = unknown.first() else {
        return;
    };
    first.group(groups).await;
    for identity in &unknown {
        identity.find_group(groups, asked);
    }
}

/// Applications and rules of streams, as far as they are known. A stream may be over before its
/// client has read everything, and a client may leave before its stream is over.
struct Programs {
    flows: Flows,
    /// Numbers of connections, by their streams.
    numbers: Vec<(StreamId, SessionId, u64)>,
}

impl Programs {
    fn of(flows: &Flows) -> Self {
        Self {
            flows: flows.clone(),
            numbers: flows.streams(),
        }
    }

    fn describe(&self, transfers: &mut [TransferStatus]) {
        for transfer in transfers {
            let stream = StreamId(transfer.stream);
            let first = self.numbers.partition_point(|(s, ..)| *s < stream);
            let same = self.numbers.iter().skip(first);
            let mut same = same.take_while(|(s, ..)| *s == stream);
            let number = same.find(|(_, session, _)| session.to_string() == transfer.session);
            let number = number.map(|(.., number)| *number);
            let place = (stream, transfer.session.as_str());
            let found = self.flows.with_stream(number, place, |identity, rule| {
                (rule.map(str::to_owned), identity.application())
            });
            if let Some(found) = found {
                (transfer.rule, transfer.application) = found;
            }
        }
    }
}

/// Streams of a session that were open when an answer was begun.
struct OpenStreams {
    of: Driver,
    left: vec::IntoIter<StreamId>,
}

impl OpenStreams {
    /// The next ones. Those that have ended meanwhile are as the log has them.
    fn next_part(&mut self, log: &TransferLog) -> Option<Vec<TransferStatus>> {
        let streams: Vec<_> = self.left.by_ref().take(PART).collect();
        if streams.is_empty() {
            return None;
        }
        let mut part = self.of.transfers_of(&streams);
        if part.len() < streams.len() {
            let session = self.of.inspect(|session, _, _| session.id());
            let session = session.map(|id| id.to_string()).unwrap_or_default();
            let ended = log.closed().into_iter().filter(|ended| {
                let is_asked_for = streams.binary_search(&StreamId(ended.stream)).is_ok();
                is_asked_for && ended.session == session
            });
            part.extend(ended);
        }
        Some(part)
    }
}

impl Primary {
    /// A status with streams, their applications and rules, for clients that may read everything.
    pub(in crate::primary) async fn described(&self, snapshot: &dyn Fn() -> Status) -> Report {
        find_applications(&self.flows, &self.cgroups).await;
        let mut status = snapshot();
        let programs = Programs::of(&self.flows);
        status.transfers = self.log.closed();
        programs.describe(&mut status.transfers);
        let drivers = self.drivers().into_iter().map(|of| {
            let left = of.open_streams().into_iter();
            OpenStreams { of, left }
        });
        let (mut drivers, log) = (drivers.collect::<VecDeque<_>>(), self.log.clone());
        let further = move || {
            while let Some(open) = drivers.front_mut() {
                if let Some(mut part) = open.next_part(&log) {
                    programs.describe(&mut part);
                    return Some(part);
                }
                drivers.pop_front();
            }
            None
        };
        Report {
            status,
            further: Box::new(further),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;
    use std::time::Duration;

    use mpbond_net::DeviceId;
    use mpbond_policy::Multipath;
    use mpbond_session::{Session, SessionConfig, SubflowSetup, parse_hello};
    use mpbond_units::Timestamp;
    use tokio::task::LocalSet;

    use super::*;
    use crate::driver::{Clock, FairQueue, Seat};
    use crate::memory::Memory;
    use crate::primary::connections::{
        clients::Clients,
        flows::Share,
        identity::{
            Owners,
            tests::{client, unasked},
        },
    };
    use crate::primary::rules::ruling::{Handling, Kept, Ruling};

    const SESSION: SessionId = SessionId([7; 16]);

    /// Connections that a session carries, each on the stream of its place in the list.
    struct Carried {
        flows: Flows,
        shares: Vec<Option<Share>>,
        driver: Driver,
    }

    impl Carried {
        fn of(identities: impl IntoIterator<Item = Identity>) -> Self {
            let mut carried = Self {
                flows: Flows::default(),
                shares: Vec::new(),
                driver: driver(),
            };
            carried.enter(identities);
            carried
        }

        fn enter(&mut self, identities: impl IntoIterator<Item = Identity>) {
            let clients = Clients::new(Owners::default());
            let ruling = Ruling {
                policy: None,
                rule: None,
                handling: Handling::Carry,
                is_counted: false,
                kept: Kept::default(),
            };
            for identity in identities {
                let place = clients.take(&identity).unwrap();
                let share = self.flows.enter(place, &Rc::new(identity));
                let (number, stream) = (share.number(), StreamId(self.shares.len() as u64));
                let ruling = (&ruling, Multipath::Aggregate);
                self.flows.carried(number, &self.driver, stream, ruling);
                self.shares.push(Some(share));
            }
        }

        /// The streams in the status, whether they have an application.
        fn described(&self) -> Vec<bool> {
            let transfer = |stream| TransferStatus {
                session: SESSION.to_string(),
                stream,
                state: "closed".to_owned(),
                ..TransferStatus::default()
            };
            let mut transfers: Vec<_> = (0..self.shares.len() as u64).map(transfer).collect();
            // One of none of these clients, and one of another session.
            transfers.insert(0, transfer(self.shares.len() as u64));
            transfers.push(TransferStatus::default());
            Programs::of(&self.flows).describe(&mut transfers);
            let mut found = transfers.iter().map(|t| t.application.is_some());
            assert!(!found.next().unwrap() && !found.next_back().unwrap());
            found.collect()
        }
    }

    /// A driver of a session whose id is known.
    fn driver() -> Driver {
        let mut client = Session::client(SessionConfig::default(), [1; 32]);
        let now = Timestamp::from_millis(1);
        let subflow = client.add_subflow(now, SubflowSetup::default());
        client.handle_room(subflow, u64::from(u32::MAX));
        let mut record = Vec::new();
        client.poll_transmit(now, &mut record).unwrap();
        let (hello, _) = parse_hello(record.into()).unwrap();
        let session = Session::server(SessionConfig::default(), SESSION, [2; 32], &hello);
        let seat = Seat::take(&FairQueue::start(), &Memory::unbounded()).unwrap();
        let device = DeviceId::from_bytes([3; 32]);
        Driver::start(
            session,
            device,
            Clock::start(),
            TransferLog::default(),
            seat,
        )
        .0
    }

    #[tokio::test]
    async fn streams_that_are_over_have_applications_whether_their_clients_have_left_or_not() {
        let test = async {
            let none = Cgroups::at(None);
            let mut carried = Carried::of((0..70).map(|_| client(7)));
            find_applications(&carried.flows, &none).await;
            assert_eq!(carried.described(), [true; 70]);
            // All but the last ones have left: as many are known as the status shows.
            carried
                .shares
                .iter_mut()
                .take(68)
                .for_each(|share| *share = None);
            let known: Vec<_> = (0..70).map(|stream| stream >= 4).collect();
            assert_eq!(carried.described(), known);
        };
        LocalSet::new().run_until(test).await;
    }

    #[tokio::test]
    async fn sixty_four_owners_of_sockets_are_asked_for_at_a_time_the_latest_first() {
        let test = async {
            let none = Cgroups::at(None);
            let mut carried = Carried::of((0..70).map(|_| unasked()));
            // A client that has left before has no socket any more.
            carried.shares[69] = None;
            assert_eq!(carried.described(), [false; 70]);
            find_applications(&carried.flows, &none).await;
            let known: Vec<_> = (0..70).map(|stream| (5..69).contains(&stream)).collect();
            assert_eq!(carried.described(), known);
            find_applications(&carried.flows, &none).await;
            let known: Vec<_> = (0..70).map(|stream| stream < 69).collect();
            assert_eq!(carried.described(), known);
        };
        LocalSet::new().run_until(test).await;
    }

    #[tokio::test(start_paused = true)]
    async fn while_somebody_looks_programs_are_known_that_leave_before_the_next_look() {
        let test = async {
            let none = Cgroups::at(None);
            let mut carried = Carried::of([]);
            // Nobody looks.
            carried.enter([unasked()]);
            carried.shares[0] = None;
            find_applications(&carried.flows, &none).await;
            assert_eq!(carried.described(), [false]);
            // As many as at a look.
            carried.enter((0..66).map(|_| unasked()));
            carried.shares.fill_with(|| None);
            find_applications(&carried.flows, &none).await;
            // The log has 64, of which the last two have not been asked for.
            let known: Vec<_> = (0..67).map(|stream| (3..65).contains(&stream)).collect();
            assert_eq!(carried.described(), known);
            tokio::time::advance(Duration::from_secs(3)).await;
            carried.enter([unasked()]);
            carried.shares[67] = None;
            find_applications(&carried.flows, &none).await;
            assert!(!carried.described()[67], "nobody looks any more");
        };
        LocalSet::new().run_until(test).await;
    }

    #[tokio::test(start_paused = true)]
    async fn one_reading_of_the_control_groups_tells_all_applications_also_that_some_have_gone() {
        let test = async {
            let folder = tempfile::tempdir().unwrap();
            let id = fs::metadata(folder.path()).unwrap().ino();
            let groups = Cgroups::at(Some(folder.path().to_owned()));
            let carried =
                Carried::of([id + 1_000_001, id + 1_000_002, id, id + 1_000_003].map(client));
            // Each reading waits for some time after the one before.
            groups.path_of(id).await;
            let began = Instant::now();
            find_applications(&carried.flows, &groups).await;
            assert_eq!(carried.described(), [true; 4]);
            assert!(began.elapsed() < Duration::from_millis(200));
        };
        LocalSet::new().run_until(test).await;
    }
}
