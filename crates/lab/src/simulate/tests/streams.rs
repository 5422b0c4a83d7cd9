//! Streams of constant rate in virtual time.

use super::{NO_MORE, SINGLE, experiment, figure, links, mpbond, of, run, workload};
use crate::experiment::Scope;
use crate::figures::quantity::Quantity;

fn stream(rate: &str) -> String {
    format!("stream = {{ rate = \"{rate} Mbit/s\", length = \"10s\" }}")
}

/// A scheme without a path of its own.
fn helper_only() -> String {
    mpbond("helper", "paths = []")
}

#[test]
fn messages_have_the_delay_of_empty_links() {
    let text = links([8, 10, 5], NO_MORE)
        + &mpbond("direct", "paths = [\"ps\"]").replace("devices = 2", "devices = 1")
        + &helper_only()
        + SINGLE
        + &workload("stream", "down", &stream("0.5"));
    assert_eq!(Scope::of(experiment(&text)), Scope::All);
    let all = run(&experiment(&text), 0, 2);
    let packet = |mbps: f64| 1_300.0 * 8e-6 / mbps;
    for (scheme, expected) in [
        ("single", 0.025 + packet(8.0)),
        ("direct", 0.025 + packet(8.0)),
        ("helper", 0.027 + packet(10.0) + packet(5.0)),
    ] {
        let median = figure(&all, scheme, "stream", Quantity::DelayMedianS);
        // Up to a millisecond more on each link, by seed.
        let more = median - expected;
        assert!(
            (-1e-4..2e-3).contains(&more),
            "{scheme}: {median}, not {expected}"
        );
        assert!(figure(&all, scheme, "stream", Quantity::DelaySdS) < 0.01);
        for d in of(&all, scheme, "stream") {
            // 520 messages of 1200 bytes, each 19.2 ms.
            assert_eq!(d.bytes, 520 * 1_200);
            assert!((9.98..10.2).contains(&d.seconds), "{}", d.seconds);
        }
    }
}

#[test]
fn messages_wait_where_the_rate_exceeds_that_of_the_link() {
    let text = links([1, 10, 1], NO_MORE)
        + &helper_only()
        + SINGLE
        + &workload("fits", "down", &stream("0.5"))
        + &workload("exceeds", "down", &stream("1.5"));
    let all = run(&experiment(&text), 0, 2);
    for scheme in ["helper", "single"] {
        let of_stream = |workload, quantity| figure(&all, scheme, workload, quantity);
        assert!(of_stream("fits", Quantity::DelayP95S) < 0.1, "{scheme}");
        // 15 Mbit at 1 Mbit/s, of which headers take 4 to 8 %: the last waits for 5.6 to 6.3 s.
        let longest = of_stream("exceeds", Quantity::DelayMaxS);
        assert!((5.5..6.5).contains(&longest), "{scheme}: {longest}");
        let median = of_stream("exceeds", Quantity::DelayMedianS);
        assert!((2.7..3.3).contains(&median), "{scheme}: {median}");
    }
}

#[test]
fn stamps_of_writing_leave_out_the_time_at_the_origin() {
    let written = stream("10").replace(" }", ", stamp = \"written\" }");
    let fits = stream("0.5").replace(" }", ", stamp = \"written\" }");
    let text = links([1, 10, 1], NO_MORE)
        + SINGLE
        + &workload("due", "down", &stream("10"))
        + &workload("written", "down", &written)
        + &workload("fits", "down", &fits);
    let all = run(&experiment(&text), 0, 2);
    let longest = |workload| figure(&all, "single", workload, Quantity::DelayMaxS);
    // 100 Mbit at 1 Mbit/s: the last message is due after 10 s and waits for most of the rest.
    // From its writing on, only the 4 MiB of the sender's buffer are before it.
    assert!((92.0..96.0).contains(&longest("due")), "{}", longest("due"));
    assert!(
        (30.0..38.0).contains(&longest("written")),
        "{}",
        longest("written")
    );
    assert!(longest("fits") < 0.1, "{}", longest("fits"));
}
