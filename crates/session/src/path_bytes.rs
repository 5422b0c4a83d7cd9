//! Stream bytes of a session by the names of its paths, over all subflows that each has had.

/// Maximum number of names: a peer that changes its names has the rest counted under the last one.
const MAX_NAMES: usize = 32;

/// Stream bytes of the subflows of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathBytes {
    /// Name, as configured on the primary.
    pub name: String,
    /// Bytes that arrived, copies included.
    pub bytes_in: u64,
    /// Bytes given to it, copies included.
    pub bytes_out: u64,
}

/// Sums by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByName(Vec<PathBytes>);

impl ByName {
    /// Adds the bytes of a subflow.
    pub(crate) fn add(&mut self, name: &str, bytes_in: u64, bytes_out: u64) {
        let known = self.0.iter().position(|p| p.name == name);
        let at = known.unwrap_or_else(|| {
            if self.0.len() < MAX_NAMES {
                self.0.push(PathBytes {
                    name: name.to_owned(),
                    ..PathBytes::default()
                });
            }
            self.0.len() - 1
        });
        if let Some(path) = self.0.get_mut(at) {
            path.bytes_in += bytes_in;
            path.bytes_out += bytes_out;
        }
    }

    pub(crate) fn into_inner(self) -> Vec<PathBytes> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_summed_and_bounded() {
        let mut paths = ByName::default();
        for n in 0..1_000 {
            paths.add(&format!("p{}", n / 2), 1, 2);
        }
        let paths = paths.into_inner();
        assert_eq!(paths.len(), MAX_NAMES);
        assert_eq!((paths[0].bytes_in, paths[0].bytes_out), (2, 4));
        let all: u64 = paths.iter().map(|p| p.bytes_out).sum();
        assert_eq!(all, 2_000, "none is lost");
    }
}
