//! Joining: hellos, proofs, limits on the number of subflows.

use mpbond_units::Timestamp;

use super::Session;
use super::error::SubflowError;
use super::subflows::IdError;
use crate::handshake::Hello;
use crate::mechanism::Mechanism;
use crate::subflow::{Phase, Subflow, SubflowSetup};
use crate::wire::{Capabilities, Frame, PathLabel, Secret};
use crate::{CloseCode, Role, SubflowId};

impl Session {
    /// Client: a connection to the proxy is up, its TLS handshake done. The first one opens the
    /// session, the others join it once it exists; any may come first.
    pub fn add_subflow(&mut self, now: Timestamp, setup: SubflowSetup) -> SubflowId {
        let id = self.subflows.next_id();
        let opening = self
            .subflows
            .iter()
            .any(|s| matches!(s.phase, Phase::SendHello(_) | Phase::AwaitOk));
        let subflow = Subflow::new(id, Phase::AwaitSession, setup, &self.config, now);
        self.add(subflow);
        if self.identity.established || !opening {
            self.prepare_hello(self.subflows.len() - 1);
        }
        id
    }

    fn add(&mut self, mut subflow: Subflow) {
        if self.config.uses(Mechanism::KnownPaths) {
            self.known_paths().tell(&mut subflow);
        }
        if !subflow.is_express() {
            self.resume.has_path();
        }
        self.subflows.add(subflow);
    }

    /// Client: the subflow's hello is to be written.
    pub(super) fn prepare_hello(&mut self, i: usize) {
        let hello = self.hello(&self.subflows[i]);
        self.subflows[i].phase = Phase::SendHello(Box::new(hello));
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            answers_look_ups: self.config.answers_look_ups,
            obeys_paths: self.config.obeys_paths,
            ..Capabilities::of_this_version(self.config.families)
        }
    }

    /// Client: the hello for a subflow as things stand.
    fn hello(&self, s: &Subflow) -> Frame {
        let path = PathLabel {
            helper: s.helper,
            role: s.role,
            name: s.name.clone(),
            number: s.path,
            lender: s.lender,
        };
        match (&self.identity.key, self.identity.id) {
            (Some(key), Some(session)) => Frame::MpJoin {
                session,
                subflow: s.id,
                proof: Secret(key.prove(true, session, s.id, &s.exporter)),
                path,
            },
            _ => Frame::MpCapable {
                random: Secret(self.identity.random),
                subflow: s.id,
                limits: self.flow.limits(),
                path,
                capabilities: self.capabilities(),
            },
        }
    }

    /// Server: a connection brought this hello. On success the subflow belongs to the session.
    ///
    /// # Errors
    /// A wrong proof, a number used before, or too many subflows: close the connection with the
    /// code. Name, helper, path number and role are taken from the hello.
    pub fn accept_subflow(
        &mut self,
        now: Timestamp,
        setup: SubflowSetup,
        hello: &Hello,
    ) -> Result<SubflowId, SubflowError> {
        let (Some(key), Some(session)) = (&self.identity.key, self.identity.id) else {
            return Err(SubflowError::ours(
                CloseCode::UnknownSession,
                "no session key",
            ));
        };
        if self.identity.lost {
            let reason = "the session is over";
            return Err(SubflowError::ours(CloseCode::UnknownSession, reason));
        }
        let (id, path, answer) = match hello {
            Hello::Capable { subflow, path, .. } => (
                *subflow,
                path,
                Frame::MpOk {
                    random: Secret(self.identity.random),
                    session,
                    limits: self.flow.limits(),
                    capabilities: self.capabilities(),
                },
            ),
            Hello::Join {
                subflow,
                proof,
                path,
                ..
            } => {
                if !key.verify(true, session, *subflow, &setup.exporter, &proof.0) {
                    return Err(SubflowError::ours(
                        CloseCode::BadProof,
                        format!("subflow {subflow}"),
                    ));
                }
                let proof = Secret(key.prove(false, session, *subflow, &setup.exporter));
                (*subflow, path, Frame::MpJoinOk { proof })
            }
        };
        let opens = matches!(hello, Hello::Capable { .. });
        let limit = match path.role {
            Role::Express if opens => {
                return Err(SubflowError::ours(
                    CloseCode::UnexpectedFrame,
                    "an express opens no session",
                ));
            }
            // Expresses leave half of the places to paths.
            Role::Express => self.config.max_subflows / 2,
            Role::Regular | Role::Backup => self.config.max_subflows,
        };
        if self.subflows.len() >= limit {
            return Err(SubflowError::ours(
                CloseCode::TooMuch,
                format!("{limit} subflows are the limit"),
            ));
        }
        self.subflows.use_id(id).map_err(|e| match e {
            IdError::TooManyGaps => {
                SubflowError::ours(CloseCode::TooMuch, "subflow numbers with too many gaps")
            }
            IdError::Reused => {
                SubflowError::ours(CloseCode::SubflowIdReused, format!("subflow {id}"))
            }
        })?;
        let setup = SubflowSetup {
            name: path.name.clone(),
            helper: path.helper,
            path: path.number,
            role: path.role,
            ..setup
        };
        let phase = Phase::SendHello(Box::new(answer));
        self.add(Subflow::new(id, phase, setup, &self.config, now));
        Ok(id)
    }
}
