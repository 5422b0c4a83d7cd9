//! Names of subflows, kept for streams that outlive them.

use std::collections::HashMap;

use mpbond_session::SubflowId;

/// Bound on the names kept, so that days of rejoining do not fill memory.
const MAX_NAMES: usize = 256;

/// Names of a session's subflows, closed ones included.
#[derive(Clone, Debug, Default)]
pub(super) struct SubflowNames {
    names: HashMap<SubflowId, String>,
}

impl SubflowNames {
    pub(super) fn insert(&mut self, id: SubflowId, name: String) {
        self.make_room(&name);
        self.names.insert(id, name);
    }

    pub(super) fn get(&self, id: SubflowId) -> Option<&str> {
        self.names.get(&id).map(String::as_str)
    }

    /// Removes the older half of the names equal to the new one; if there are none, because a peer
    /// changes its name each time, the oldest ones.
    fn make_room(&mut self, new: &str) {
        if self.names.len() < MAX_NAMES {
            return;
        }
        let same = self.names.iter().filter(|(_, name)| *name == new);
        let mut same: Vec<_> = same.map(|(id, _)| *id).collect();
        same.sort_unstable();
        for id in &same[..same.len() / 2] {
            self.names.remove(id);
        }
        while self.names.len() >= MAX_NAMES {
            let Some(oldest) = self.names.keys().min().copied() else {
                break;
            };
            self.names.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_whatever_a_peer_calls_itself() {
        for same in [true, false] {
            let mut names = SubflowNames::default();
            for n in 0..10_000 {
                let name = match same {
                    true => "wifi".to_owned(),
                    false => format!("wifi {n}"),
                };
                names.insert(SubflowId(n), name);
                assert!(names.names.len() <= MAX_NAMES);
            }
            assert!(names.get(SubflowId(9_999)).is_some());
        }
    }
}
