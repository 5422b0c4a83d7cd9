//! What a subflow may be given, by its role and standing: the one table.
//!
//! | Role | Standing | New data | Data of others | Urgent | Feedback |
//! | --- | --- | --- | --- | --- | --- |
//! | regular | active | first | yes | | first |
//! | regular | probed | first | | | first |
//! | regular | avoided | second | | | first |
//! | backup | up to avoided | third | | | first |
//! | express | active | third | | yes | second |
//! | express | probed, avoided | third | | | second |
//! | any | potentially failed | last | | | last |
//! | regular, its radio left asleep | up to avoided | third | | | second |
//!
//! *New data* and *feedback* go to subflows of the best tier that there is: a worse one is used
//! only where no better one exists. Which of the tier is chosen is for the scheduler, or the
//! feedback rule. *Data of others* are bytes that another subflow carries and is late with. They
//! are copied by probing and rebalancing only while a subflow that may take them exists, and are
//! then sent as new data is. *Urgent* are copies, and bytes of streams of early ranks, that would
//! wait at a helper elsewhere. Which radios are left asleep, `session::resting` says. A subflow
//! whose hello is not written, or whose first one is not answered, is given nothing.

use super::Subflow;
use super::health::Standing;
use crate::Role;

/// Preference among subflows, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tier {
    First,
    Second,
    Third,
    Last,
}

impl Subflow {
    /// Carries data, and has not failed.
    pub(crate) fn works(&self) -> bool {
        self.carries() && !self.has_failed()
    }

    /// Tier for new data; without regard to silence shorter than a failure where the scheduler does
    /// not heed it. None: no data at all.
    pub(crate) fn data_tier(&self, heeds_silence: bool) -> Option<Tier> {
        let tier = match (self.health.standing(), self.role) {
            (Standing::PotentiallyFailed, _) => Tier::Last,
            (_, Role::Backup | Role::Express) => Tier::Third,
            _ if self.radio.rests => Tier::Third,
            (Standing::Avoided, Role::Regular) if heeds_silence => Tier::Second,
            (_, Role::Regular) => Tier::First,
        };
        self.carries().then_some(tier)
    }

    /// Tier for acknowledgements, reports and other control frames. An express's radio may be at
    /// rest.
    pub(crate) fn feedback_tier(&self) -> Option<Tier> {
        let tier = match self.role {
            _ if self.has_failed() => Tier::Last,
            Role::Express => Tier::Second,
            Role::Regular if self.radio.rests => Tier::Second,
            Role::Regular | Role::Backup => Tier::First,
        };
        self.carries().then_some(tier)
    }

    /// May be given data of others. A radio whose subflow carries data is awake, though it be left
    /// asleep for others.
    pub(crate) fn may_take_over(&self) -> bool {
        let rests = self.radio.rests && self.sent.data_bytes == 0;
        let is_regular = self.role == Role::Regular && !rests;
        self.carries() && is_regular && self.health.standing() == Standing::Active
    }

    /// May be given what another one is late with. It would wait for a radio that is left asleep
    /// where that of the late one is not: the scheduler is shown the late one alone.
    pub(crate) fn may_take_over_from(&self, late: &Self) -> bool {
        let is_shown = late.radio.rests || !self.radio.rests;
        self.id != late.id && self.may_take_over() && is_shown
    }

    /// May carry urgent bytes past the queue of its helper.
    pub(crate) fn may_carry_urgent(&self) -> bool {
        self.carries() && self.is_express() && self.health.standing() == Standing::Active
    }
}

#[cfg(test)]
mod tests {
    use mpbond_units::Timestamp;

    use super::*;
    use crate::subflow::{Phase, SubflowSetup};
    use crate::{SessionConfig, SubflowId};

    /// The table of the module's documentation, row by row.
    #[test]
    fn the_table() {
        use Standing::{Active, Avoided, PotentiallyFailed, Probed};
        let now = Timestamp::from_millis(1);
        for role in [Role::Regular, Role::Backup, Role::Express] {
            for (standing, probes) in [
                (Active, 0),
                (Probed, 1),
                (Avoided, 4),
                (PotentiallyFailed, 0),
            ] {
                let setup = SubflowSetup {
                    role,
                    ..SubflowSetup::default()
                };
                let config = SessionConfig::default();
                let mut s = Subflow::new(SubflowId(1), Phase::Up, setup, &config, now);
                s.health.probes = probes;
                if standing == PotentiallyFailed {
                    s.health.failed_since = Some(now);
                }
                assert_eq!(s.health.standing(), standing);
                let (data, others, urgent, feedback) = match (role, standing) {
                    (_, PotentiallyFailed) => (Tier::Last, false, false, Tier::Last),
                    (Role::Regular, Active) => (Tier::First, true, false, Tier::First),
                    (Role::Regular, Probed) => (Tier::First, false, false, Tier::First),
                    (Role::Regular, Avoided) => (Tier::Second, false, false, Tier::First),
                    (Role::Backup, _) => (Tier::Third, false, false, Tier::First),
                    (Role::Express, Active) => (Tier::Third, false, true, Tier::Second),
                    (Role::Express, _) => (Tier::Third, false, false, Tier::Second),
                };
                let row = format!("{role:?} {standing:?}");
                assert_eq!(s.data_tier(true), Some(data), "{row}");
                assert_eq!(s.may_take_over(), others, "{row}");
                assert_eq!(s.may_carry_urgent(), urgent, "{row}");
                assert_eq!(s.feedback_tier(), Some(feedback), "{row}");
                assert_eq!(s.works(), standing != PotentiallyFailed, "{row}");
                if role == Role::Regular && standing != PotentiallyFailed {
                    s.radio.rests = true;
                    assert_eq!(s.data_tier(true), Some(Tier::Third), "{row}");
                    assert_eq!(s.feedback_tier(), Some(Tier::Second), "{row}");
                    assert!(!s.may_take_over(), "{row}");
                    // It carries data of streams that no other may carry.
                    s.sent.data_bytes = 1;
                    assert_eq!(s.may_take_over(), others, "{row}");
                }
                s.phase = Phase::AwaitSession;
                assert_eq!(
                    (s.data_tier(true), s.feedback_tier()),
                    (None, None),
                    "{row}"
                );
                assert!(
                    !s.may_take_over() && !s.may_carry_urgent() && !s.works(),
                    "{row}"
                );
            }
        }
    }

    #[test]
    fn a_radio_left_asleep_takes_over_from_another_one_only() {
        let of = |id, rests| {
            let mut s = Subflow::for_test(id, Some(id), Role::Regular);
            s.radio.rests = rests;
            s.sent.data_bytes = 1;
            s
        };
        for (fast, late, may) in [
            (false, false, true),
            (false, true, true),
            (true, true, true),
            (true, false, false),
        ] {
            let row = format!("{fast} {late}");
            let (fast, late) = (of(1, fast), of(2, late));
            assert_eq!(fast.may_take_over_from(&late), may, "{row}");
            assert!(!fast.may_take_over_from(&fast), "{row}");
        }
    }

    #[test]
    fn a_fixed_share_is_kept_through_a_pause() {
        let now = Timestamp::ZERO;
        let config = SessionConfig::default();
        let setup = SubflowSetup::default();
        let mut s = Subflow::new(SubflowId(1), Phase::AwaitJoinOk, setup, &config, now);
        s.health.probes = 12;
        assert_eq!(s.data_tier(false), Some(Tier::First));
        s.health.failed_since = Some(now);
        assert_eq!(s.data_tier(false), Some(Tier::Last));
    }
}
