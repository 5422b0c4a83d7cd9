//! Sessions of the hosts: opened by the primary, found or refused by the proxy, dropped.

use mpbond_session::{CloseCode, Hello, Session, SessionId, close_record};

use super::host::{Host, Surroundings, Welcome};
use super::line::Stage;

impl Host {
    /// Primary: begins with its next session.
    pub(super) fn open_session(&mut self) {
        let random = session_random(self.number);
        self.session = Some(Session::client(self.config.clone(), random));
        self.lost = None;
        self.note_due();
    }

    /// Drops its session.
    pub(super) fn drop_session(&mut self) {
        self.session = None;
        self.lost = None;
        self.awake.clear();
        self.note_due();
    }

    /// Ends its session, of which the rest is still delivered.
    pub(super) fn set_aside(&mut self) {
        let session = self.session.take();
        self.aside.extend(session.map(|s| (self.number, s)));
        self.drop_session();
    }

    /// Proxy: finds or opens the session to which a hello belongs.
    pub(super) fn welcome(&mut self, s: &mut Surroundings, hello: &Hello) -> Welcome {
        match hello {
            Hello::Capable { random, .. } => {
                let number = session_number(&random.0);
                let used = |session: &Session| session.stats().streams_total > 0;
                let in_use = self.session.as_ref().is_some_and(used);
                // A delayed hello, of a connection that the primary has given up: a proxy would
                // open a session that is never used.
                if number < self.number || (number == self.number && in_use) {
                    return Welcome::Ignore;
                }
                // If the answer to an earlier hello was lost, that session is never used.
                self.abandon(s);
                self.set_aside();
                self.number = number;
                let (config, id) = (self.config.clone(), session_id(self.process, number));
                let mut session = Session::server(config, id, [2; 32], hello);
                if self.leaving.is_some() {
                    session.go_away(LEAVING);
                }
                self.session = Some(session);
                Welcome::Go
            }
            Hello::Join { session, .. } => match &self.session {
                Some(own) if own.id() == Some(*session) => Welcome::Go,
                // The primary dials again, with the label of the process that holds it.
                _ if self
                    .before
                    .is_some_and(|before| s.processes.contains(&before))
                    && session.label() != self.process.to_be_bytes() =>
                {
                    Welcome::Unknown(CloseCode::Done)
                }
                _ => Welcome::Unknown(CloseCode::UnknownSession),
            },
        }
    }

    /// Tells the other end why a connection is closed, and closes it.
    pub(super) fn say_close(
        &mut self,
        s: &mut Surroundings,
        l: usize,
        code: CloseCode,
        reason: &str,
    ) {
        let io = self.io(s.lines, l);
        io.stage = Stage::Gone;
        io.queue_record(&close_record(code, reason));
        if let Some(conn) = io.conn {
            let end = io.end;
            io.write(s.net.socket_mut(conn, end));
            s.net.push(s.now, conn, end);
        }
    }

    /// Closes all subflows of its session.
    pub(super) fn abandon(&mut self, s: &mut Surroundings) {
        for &l in s.live {
            if self.owns(&s.lines[l]) && matches!(self.io(s.lines, l).stage, Stage::Up(_)) {
                self.lose_line(s, l);
            }
        }
    }
}

/// Reason of GO_AWAY, for people.
pub(super) const LEAVING: &str = "the proxy leaves";

/// Random number of the primary in its session of this number.
fn session_random(number: u64) -> [u8; 32] {
    let mut random = [1; 32];
    random[..8].copy_from_slice(&number.to_be_bytes());
    random
}

fn session_number(random: &[u8; 32]) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&random[..8]);
    u64::from_be_bytes(number)
}

fn session_id(process: u32, number: u64) -> SessionId {
    let mut random = [7; 12];
    random[..8].copy_from_slice(&number.to_be_bytes());
    SessionId::new(process.to_be_bytes(), random)
}
