//! Address families in which destinations are reached.

use tokio::sync::watch;

use super::message::Family;
use crate::Reception;

/// Families in which connections are carried at present. Connections of the others are refused by
/// the kernel, so that applications use another address at once, and names have no addresses of
/// them, so that applications do not try.
#[derive(Debug)]
pub struct ReachedFamilies {
    known: watch::Sender<Option<Known>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    ipv4: bool,
    ipv6: bool,
}

impl Default for ReachedFamilies {
    /// Not known yet.
    fn default() -> Self {
        Self {
            known: watch::Sender::new(None),
        }
    }
}

impl ReachedFamilies {
    /// Sets the families.
    pub fn set(&self, ipv4: bool, ipv6: bool) {
        let now = Some(Known { ipv4, ipv6 });
        self.known.send_if_modified(|known| {
            let before = std::mem::replace(known, now);
            before != now
        });
    }

    /// Whether addresses of this family are known not to be reached, while those of the other one
    /// are.
    pub fn lacks(&self, family: Family) -> bool {
        let [this, other] = match (*self.known.borrow(), family) {
            (None, _) => return false,
            (Some(known), Family::V4) => [known.ipv4, known.ipv6],
            (Some(known), Family::V6) => [known.ipv6, known.ipv4],
        };
        !this && other
    }

    /// Treatment of new clients whose destinations are of this family, if it is known.
    pub fn reception(&self, family: Family) -> Option<Reception> {
        reception(*self.known.borrow(), family)
    }

    /// Waits until the treatment of new clients is another one.
    pub async fn changed(&self, family: Family, from: Option<Reception>) {
        let mut known = self.known.subscribe();
        // The sender is there as long as this.
        let _ = known.wait_for(|now| reception(*now, family) != from).await;
    }
}

fn reception(known: Option<Known>, family: Family) -> Option<Reception> {
    let known = known?;
    let is_reached = match family {
        Family::V4 => known.ipv4,
        Family::V6 => known.ipv6,
    };
    Some(match is_reached {
        true => Reception::Accept,
        false => Reception::Refuse,
    })
}
