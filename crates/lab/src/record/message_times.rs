//! Times of the messages of a transfer.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Times of the messages of a transfer, in seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MessageTimes {
    /// Times from request to answer.
    pub answered: Vec<f64>,
    /// Messages that were left out, since the answer of the one before had not come when they were
    /// due: time from then to that answer, the least that each of them would have taken.
    pub left_out: Vec<f64>,
}

impl MessageTimes {
    /// Those of messages that were due at these times, by due time and time of each that was sent,
    /// in their order.
    pub(crate) fn of(
        due: impl IntoIterator<Item = Duration>,
        sent: impl IntoIterator<Item = (Duration, Duration)>,
    ) -> Self {
        let mut times = Self::default();
        let mut later = due.into_iter().peekable();
        for (due, took) in sent {
            let end = due + took;
            times.answered.push(took.as_secs_f64());
            while later.next_if(|next| *next <= due).is_some() {}
            while let Some(next) = later.next_if(|next| *next < end) {
                times.left_out.push((end - next).as_secs_f64());
            }
        }
        times
    }

    /// Whether there are no messages.
    pub fn is_empty(&self) -> bool {
        self.answered.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn messages_that_are_due_before_the_answer_of_the_one_before_are_left_out() {
        let sent = [
            (MS(350), MS(100)),
            (MS(550), MS(500)),
            (MS(1_150), MS(200)),
            (MS(1_350), MS(900)),
        ];
        let due = (0..7).map(|n| MS(350) + MS(200) * n);
        let times = MessageTimes::of(due, sent);
        assert_eq!(times.answered, [0.1, 0.5, 0.2, 0.9]);
        // Those of 750, 950 and 1550 ms. None is due later.
        assert_eq!(times.left_out, [0.3, 0.1, 0.7]);
    }
}
