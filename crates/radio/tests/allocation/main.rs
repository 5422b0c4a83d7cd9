//! A step of a state machine allocates nothing.

// Helpers of tests may fail loudly, as the tests themselves.
#![allow(clippy::unwrap_used)]
#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod counting_allocator;

use counting_allocator::allocations;
use mpbond_radio::{Account, Hint, Packet, Placement, Profiles, Radio};
use mpbond_units::Timestamp;

#[test]
fn a_step_allocates_nothing() {
    let profiles = Profiles::shipped().unwrap();
    for name in profiles.names("radio") {
        for placement in [Placement::Live, Placement::Recorded] {
            let mut radio = Radio::new(profiles.radio(name).unwrap(), placement);
            let mut sums = Account::default();
            let mut now = 3_600_000_000_000_u64;
            let before = allocations();
            for i in 0..2000_u64 {
                now += [1_000_000, 40_000_000, 300_000_000, 7_000_000_000][(i % 4) as usize];
                let at = Timestamp::from_nanos(now);
                let packet = if i % 3 == 0 {
                    Packet::up(60)
                } else {
                    Packet::down(1500)
                };
                radio.packet(at, packet, &mut sums);
                if i % 50 == 0 {
                    radio.hint(
                        at,
                        [Hint::Wake, Hint::Release][(i / 50 % 2) as usize],
                        &mut sums,
                    );
                }
                radio.advance(at, &mut sums);
            }
            radio.finish(Timestamp::ZERO, &mut sums);
            assert_eq!(allocations() - before, 0, "{name} {placement:?}");
            assert!(sums.total_mj() > 0.0 || name.starts_with("bus"), "{name}");
        }
    }
}

#[test]
fn the_counter_counts() {
    let before = allocations();
    let some = std::hint::black_box(vec![1_u8; 100]);
    assert!(allocations() > before, "{}", some.len());
}
