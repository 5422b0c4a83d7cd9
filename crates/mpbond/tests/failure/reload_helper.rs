//! A helper that reads its configuration again.

use std::time::{Duration, Instant};

use mpbond_net::control::{Direction, Message, RefusalCode, RequestId};
use tokio::io::AsyncReadExt as _;

use crate::daemons::{Bond, Ways};
use crate::reload::{apply, read, write};
use crate::visitor::{control, open, runtime, ticket};

/// Time after which a measurement ends by itself.
const TEST_WITHIN: Duration = Duration::from_secs(30);

#[test]
fn a_measurement_ends_when_its_helper_is_switched_off() {
    let bond = Bond::new(Ways::Helper, "", "");
    write(
        &bond,
        "helper",
        &format!("enabled = true\n{}", read(&bond, "helper")),
    );
    let helper = bond.start("helper");
    let measure = Message::MeasurePipe {
        request: RequestId(1),
        direction: Direction::Down,
    };
    let runtime = runtime();
    runtime.block_on(async {
        let mut control = control(&bond).await;
        let begun = Instant::now();
        let ticket_used = ticket(&mut control, &measure).await.unwrap();
        let mut measured = open(&bond, &ticket_used).await;
        let mut block = vec![0; 1 << 16];
        measured.read_exact(&mut block).await.unwrap();
        let off = ("enabled = true", "enabled = false");
        apply(&bond, "helper", off, &["enabled"]);
        let end = loop {
            match measured.read(&mut block).await {
                Ok(1..) => {}
                end => break end,
            }
        };
        assert!(end.is_err(), "it is reset: {end:?}");
        assert!(begun.elapsed() < TEST_WITHIN, "{:?}", begun.elapsed());
        let refused = ticket(&mut control, &measure).await.unwrap_err();
        let code = RefusalCode::SwitchedOff;
        assert!(matches!(refused, Message::Refused { code: c, .. } if c == code));
    });
    helper.logs("the measurement is no longer allowed");
}
