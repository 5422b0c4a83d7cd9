//! Strength of a signal by the controller's answers to Read RSSI.

/// Greatest lower end of the golden receive power range, in dBm (Bluetooth Core Specification,
/// volume 2, part A, section 4.1.6): it is at most this, and at least 6 dB above the sensitivity.
const GOLDEN_DBM: i16 = -56;

/// Least distance from that range at which anything is received, in dB: no receiver of Bluetooth
/// classic hears below -100 dBm, where noise alone is as strong as the signal has to be.
const LEAST_DB: i16 = -44;

/// Meaning of a controller's answers, as far as they have shown it.
///
/// Of a link of Bluetooth classic, Read RSSI tells the distance from the golden receive power range
/// in dB: 0 in the range, negative below it, positive above (volume 4, part E, section 7.5.4).
/// Some controllers tell the strength itself, against the specification. From -1 to
/// [`LEAST_DB`] an answer may be either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Answers {
    /// All of them may be either.
    #[default]
    Unknown,
    /// One was no strength: a receiver has to work up to -20 dBm only (volume 2, part A, section
    /// 4.1.5), and 0 dBm is far more than arrives.
    Distances,
    /// One was no distance.
    Strengths,
}

impl Answers {
    /// Strength in dBm by an answer, if the meaning is known.
    ///
    /// Of a distance below the range it is the largest strength that fits, since the beginning of
    /// the range is the manufacturer's choice. Of one within or above the range it is only known
    /// that it is at least the range's lower end plus the distance.
    pub(super) fn dbm(&mut self, rssi: i8) -> Option<i16> {
        let rssi = i16::from(rssi);
        if rssi < LEAST_DB {
            *self = Self::Strengths;
        } else if rssi >= 0 && *self == Self::Unknown {
            *self = Self::Distances;
        }
        match self {
            Self::Unknown => None,
            Self::Distances => Some((GOLDEN_DBM + rssi).min(0)),
            Self::Strengths => Some(rssi.min(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Answers;

    fn told(answers: &[i8]) -> Vec<Option<i16>> {
        let mut meaning = Answers::default();
        answers.iter().map(|rssi| meaning.dbm(*rssi)).collect()
    }

    #[test]
    fn distances_are_known_by_one_that_is_no_strength() {
        let strengths = told(&[-10, -1, 0, -10, -11, -34, -35, -44, 20, 127]);
        let known = [-56, -66, -67, -90, -91, -100, -36, 0].map(Some);
        assert_eq!(strengths, [&[None; 2][..], &known].concat());
    }

    /// Devices that move apart, and together again.
    #[test]
    fn strengths_are_known_by_one_that_is_no_distance_and_a_near_device_is_never_weak() {
        let apart: Vec<i8> = (-90..=-8).rev().collect();
        let together: Vec<i8> = (-90..=-8).collect();
        let strengths = told(&[apart.clone(), together.clone()].concat());
        let (first, second) = strengths.split_at(apart.len());
        for (rssi, strength) in apart.iter().zip(first) {
            let known = (*rssi < -44).then_some(i16::from(*rssi));
            assert_eq!(*strength, known, "{rssi}");
        }
        for (rssi, strength) in together.iter().zip(second) {
            assert_eq!(*strength, Some(i16::from(*rssi)), "{rssi}");
        }
    }

    #[test]
    fn what_no_distance_can_be_ends_a_wrong_guess() {
        assert_eq!(
            told(&[0, -20, -45, -20, 0, 3]),
            [-56, -76, -45, -20, 0, 0].map(Some)
        );
    }
}
