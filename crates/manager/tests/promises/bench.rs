//! A manager under test, its clock, and short forms of inputs and actions.

use std::net::IpAddr;
use std::time::Duration;

use mpbond_manager::{
    Action, Config, DialId, Held, LinkId, Manager, Notice, Purpose, Report, RequestId,
    SubflowFacts, Target,
};
use mpbond_session::SubflowId;
use mpbond_units::{BitRate, Timestamp};

pub fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A manager in virtual time.
pub struct Bench {
    pub manager: Manager,
    pub now: Timestamp,
    /// Instant at which stream bytes last moved, by [`fact`](Self::fact).
    moved: Timestamp,
    next_subflow: u32,
}

impl Bench {
    /// A manager whose session has just been opened.
    pub fn new(config: Config) -> Self {
        let now = Timestamp::from_millis(1_000);
        let mut bench = Self {
            manager: Manager::new(config, now),
            now,
            moved: Timestamp::ZERO,
            next_subflow: 1,
        };
        assert_eq!(bench.manager.poll_action(), Some(Action::OpenSession));
        bench.manager.handle_session_opened(now);
        bench
    }

    /// All actions that wait to be carried out.
    pub fn actions(&mut self) -> Vec<Action> {
        std::iter::from_fn(|| self.manager.poll_action()).collect()
    }

    /// The only action.
    #[track_caller]
    pub fn action(&mut self) -> Action {
        let mut actions = self.actions();
        assert_eq!(actions.len(), 1, "{actions:?}");
        actions.remove(0)
    }

    /// The only action, which is to dial.
    #[track_caller]
    pub fn dial(&mut self) -> (DialId, Target) {
        match self.action() {
            Action::Dial { dial, target } => (dial, target),
            other => panic!("{other:?}"),
        }
    }

    /// The only action, a request for a relay.
    #[track_caller]
    pub fn ask(&mut self) -> (RequestId, Purpose) {
        match self.action() {
            Action::AskRelay {
                request, purpose, ..
            } => (request, purpose),
            other => panic!("{other:?}"),
        }
    }

    /// Nothing happens for `span`, and then time brings something. Returns the actions.
    #[track_caller]
    pub fn due_after(&mut self, span: Duration) -> Vec<Action> {
        assert_eq!(self.actions(), []);
        assert_eq!(self.manager.poll_timeout(), Some(self.now + span));
        self.now += span;
        self.manager.handle_timeout(self.now);
        self.actions()
    }

    /// Time passes, and the manager is called whenever it is due. Returns the actions.
    pub fn pass(&mut self, span: Duration) -> Vec<Action> {
        let end = self.now + span;
        let mut actions = self.actions();
        while let Some(due) = self.manager.poll_timeout().filter(|due| *due <= end) {
            assert!(due >= self.now, "due in the past");
            self.now = due;
            self.manager.handle_timeout(due);
            actions.extend(self.actions());
        }
        self.now = end;
        actions
    }

    /// The attempt succeeds, and the proxy answers on the subflow.
    pub fn joined(&mut self, dial: DialId) -> SubflowId {
        self.joined_from(dial, None)
    }

    /// The same from an own address.
    pub fn joined_from(&mut self, dial: DialId, local: Option<IpAddr>) -> SubflowId {
        let id = self.unanswered_from(dial, local);
        self.manager.handle_established(self.now);
        self.manager.handle_subflow_up(self.now, id);
        id
    }

    /// The attempt succeeds, and the proxy does not answer yet.
    pub fn unanswered_from(&mut self, dial: DialId, local: Option<IpAddr>) -> SubflowId {
        let id = SubflowId(self.next_subflow);
        self.next_subflow += 1;
        self.manager.handle_dialled(self.now, dial, id, local);
        id
    }

    pub fn fails(&mut self, dial: DialId) {
        let reason = "connection refused";
        self.manager.handle_dial_failed(self.now, dial, reason);
    }

    pub fn closed(&mut self, id: SubflowId) {
        let quiet = self.now.since(self.moved);
        self.manager.handle_subflow_closed(self.now, id, quiet);
    }

    /// Sets whether a subflow is silent, and when bytes last moved on it.
    pub fn fact(&mut self, id: SubflowId, silent: bool, last_moved: Option<Timestamp>) {
        self.moved = self.moved.max(last_moved.unwrap_or_default());
        let fact = SubflowFacts {
            id,
            silent,
            last_moved,
            octets: 1 << 20,
            heard: match silent {
                true => Timestamp::ZERO,
                false => self.now,
            },
            progress: Timestamp::ZERO,
            idle_before: Duration::ZERO,
            idle_survived: Duration::ZERO,
        };
        self.manager.handle_subflows(self.now, [fact]);
    }

    /// The session says that a subflow is silent, over which a record has just arrived.
    pub fn silent_but_heard(&mut self, id: SubflowId) {
        let fact = SubflowFacts {
            id,
            silent: true,
            last_moved: Some(self.now),
            octets: 1 << 20,
            heard: self.now,
            progress: Timestamp::ZERO,
            idle_before: Duration::ZERO,
            idle_survived: Duration::ZERO,
        };
        self.manager.handle_subflows(self.now, [fact]);
    }

    /// The session says that a subflow is silent: nothing was heard for 500 ms after it had been
    /// idle for this long.
    pub fn silent_after(&mut self, id: SubflowId, idle_before: Duration) {
        let fact = SubflowFacts {
            id,
            silent: true,
            last_moved: None,
            octets: 1 << 20,
            heard: Timestamp::ZERO,
            progress: self.now.before(ms(500)),
            idle_before,
            idle_survived: Duration::ZERO,
        };
        self.manager.handle_subflows(self.now, [fact]);
    }

    /// The session says that a subflow is silent, on which so many octets had arrived.
    pub fn stuck_after(&mut self, id: SubflowId, octets: u64, idle_before: Duration) {
        let fact = SubflowFacts {
            id,
            silent: true,
            last_moved: None,
            octets,
            heard: Timestamp::ZERO,
            progress: Timestamp::ZERO,
            idle_before,
            idle_survived: Duration::ZERO,
        };
        self.manager.handle_subflows(self.now, [fact]);
    }

    /// Takes the pipe from its control connection to a relay that works.
    #[track_caller]
    pub fn pipe_up(&mut self) -> (RequestId, SubflowId) {
        let (control, target) = self.dial();
        assert!(matches!(target, Target::Control { .. }));
        self.manager.handle_control_up(self.now, control, None);
        let (request, _) = self.ask();
        self.manager.handle_ticket(self.now, target.link(), request);
        let (relay, _) = self.dial();
        (request, self.joined(relay))
    }

    /// A report of a helper that holds what its pipe of 8 Mbit/s passes on in `held`.
    pub fn report(
        &mut self,
        link: LinkId,
        request: RequestId,
        number: u64,
        held: Duration,
    ) -> Option<SubflowId> {
        let throughput = BitRate::from_mbps(8.0);
        let down = Held {
            bytes: throughput.bytes_in(held),
            throughput,
            sojourn: None,
        };
        self.report_held(link, request, number, down)
    }

    /// A report of a helper that holds this for its pipe.
    pub fn report_held(
        &mut self,
        link: LinkId,
        request: RequestId,
        number: u64,
        down: Held,
    ) -> Option<SubflowId> {
        let report = Report {
            request,
            number,
            down,
            up: Held::default(),
        };
        self.manager.handle_report(self.now, link, &report)
    }
}

/// The notices among actions.
pub fn notices(actions: &[Action]) -> Vec<Notice> {
    let notice = |action: &Action| match action {
        Action::Tell(notice) => Some(notice.clone()),
        _ => None,
    };
    actions.iter().filter_map(notice).collect()
}
