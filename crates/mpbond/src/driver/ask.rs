//! Streams whose clients are told that they are connected only when the destination is reached.

use mpbond_session::{Destination, OpenError, ResetCode, StreamId, Treatment};
use tokio::sync::oneshot;

use super::Driver;
use super::answer::Answer;
use super::place::Place;
use crate::memory;

impl Place {
    /// Whether the proxy answers [`ask`](Self::ask).
    pub fn is_answered(&self) -> bool {
        self.driver().shared.borrow().session.confirms()
    }

    /// Opens the stream without a connection. The receiver has the answer; it fails when the
    /// session ends first.
    ///
    /// # Errors
    /// The session is over, or takes no new streams any more.
    pub fn ask(
        self,
        destination: Destination,
        treatment: impl Into<Treatment>,
    ) -> Result<(StreamId, oneshot::Receiver<Answer>), OpenError> {
        let driver = self.driver().clone();
        drop(self);
        let (asker, answered) = oneshot::channel();
        let id = driver.with(|inner| {
            let now = inner.clock.now();
            let id = inner.session.open_confirmed(now, destination, treatment)?;
            let _ = inner.account.take(memory::STREAM);
            inner.asked.insert(id, asker);
            Ok(id)
        })?;
        Ok((id, answered))
    }
}

impl Driver {
    /// Primary: takes a stream back of which the proxy has acknowledged nothing; whether a client
    /// waits for it.
    pub fn reclaim_asked(&self, id: StreamId) -> bool {
        self.with(|inner| {
            let waits = inner.asked.contains_key(&id);
            if waits {
                inner.refuse(id, ResetCode::Cancelled);
                inner.answer(id, Answer::Unheard);
                inner.account.give_back(memory::STREAM);
            }
            waits
        })
    }
}
