//! Users of common links, with sessions that are independent or in one ledger of links: dual mode,
//! with two who lend to each other (ADR 0069), and an owner beside one who only borrows (ADR 0075).

#![allow(clippy::unwrap_used, clippy::panic)] // of tests

use std::array::from_fn;
use std::ops::Range;
use std::time::Duration;

use mpbond_sim::link::{LinkConfig, Rate};
use mpbond_sim::world::{
    Exchange, HelperId, Late, Rounds, Route, Scenario, Sessions, TwoWay, User, When, World,
};
use mpbond_units::BitRate;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

const MB: f64 = 1e6;

/// What the two users have and do.
#[derive(Clone, Copy)]
struct Setting {
    name: &'static str,
    /// Rates of the own links in Mbit/s.
    mbps: [f64; 2],
    /// Sizes of each user's chunks: evenly distributed in their logarithm.
    bytes: [[f64; 2]; 2],
    /// Pauses between chunks, in seconds.
    pauses_s: [f64; 2],
    /// Chunks of each user.
    chunks: [usize; 2],
}

/// Figure 8 of MPBond, with its pauses.
const FIGURE: Setting = Setting {
    name: "chunks of 1 MB, pauses of 1 to 5 s",
    mbps: [5.0; 2],
    bytes: [[MB; 2]; 2],
    pauses_s: [1.0, 5.0],
    chunks: [20; 2],
};

/// The same with pauses in which the links are hardly ever idle.
const SHORT_PAUSES: Setting = Setting {
    name: "chunks of 1 MB, pauses of 0 to 1 s",
    pauses_s: [0.0, 1.0],
    ..FIGURE
};

const MIXED: Setting = Setting {
    name: "chunks of 0.1 to 4 MB, pauses of 0 to 4 s",
    bytes: [[0.1 * MB, 4.0 * MB]; 2],
    pauses_s: [0.0, 4.0],
    ..FIGURE
};

const UNEQUAL: Setting = Setting {
    name: "own links of 8 and 3 Mbit/s, pauses of 0 to 1 s",
    mbps: [8.0, 3.0],
    ..SHORT_PAUSES
};

const BESIDE_A_DOWNLOAD: Setting = Setting {
    name: "one user downloads 30 MB, pauses of 0 to 1 s of the other one",
    bytes: [[30.0 * MB; 2], [MB; 2]],
    chunks: [1, 20],
    ..SHORT_PAUSES
};

/// Of the download the proxy keeps 8 MiB: 1.3 s over the own link.
const FAST: Setting = Setting {
    name: "own links of 50 Mbit/s, one user downloads 150 MB beside chunks of 5 MB",
    mbps: [50.0; 2],
    bytes: [[150.0 * MB; 2], [5.0 * MB; 2]],
    chunks: [1, 15],
    ..SHORT_PAUSES
};

const FAR_APART: Setting = Setting {
    name: "own links of 50 and 5 Mbit/s, the first user downloads 100 MB beside chunks of 1 MB",
    mbps: [50.0, 5.0],
    bytes: [[100.0 * MB; 2], [MB; 2]],
    chunks: [1, 15],
    ..SHORT_PAUSES
};

/// Mean and 95th percentile of the times of each user's chunks, in seconds, or ratios of them.
type Figures = [[f64; 2]; 2];

/// A number from 0 to 1.
fn draw(rng: &mut ChaCha8Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

fn users(setting: &Setting, number: u64) -> Vec<User> {
    let mut rng = ChaCha8Rng::seed_from_u64(number);
    let mut link = |name: &str, mbps: f64, delay_ms: f64| {
        let rate = Rate::Constant(BitRate::from_mbps(mbps));
        let delay = Duration::from_secs_f64((delay_ms + draw(&mut rng)) / 1e3);
        TwoWay::symmetric(name, LinkConfig::new(rate).with_delay(delay))
    };
    let [first, second] = setting.mbps;
    let own = [link("first", first, 25.0), link("second", second, 25.0)];
    let pipe = link("pipe", 50.0, 2.0);
    let user = |user: usize| {
        let links = vec![own[user].clone(), pipe.clone(), own[1 - user].clone()];
        let routes = vec![
            Route::direct("own", 0),
            Route::through("lent", HelperId(0), 1, 2),
        ];
        let mut scenario = Scenario {
            seed: number,
            has_bounds: false,
            ..Scenario::new(links, routes)
        };
        let mut rng = ChaCha8Rng::seed_from_u64(number ^ ((user as u64 + 1) << 40));
        for chunk in 0..setting.chunks[user] {
            let [least, most] = setting.pauses_s;
            let pause = Duration::from_secs_f64(least + draw(&mut rng) * (most - least));
            let start = match chunk.checked_sub(1) {
                Some(before) => When::AfterEnd(before, pause),
                None => When::AfterJoined(Duration::from_secs(5) + pause),
            };
            let [least, most] = setting.bytes[user];
            let bytes = least * (most / least).powf(draw(&mut rng));
            scenario.exchanges.push(Exchange {
                by_length: true,
                ..Exchange::download(start, bytes as u64)
            });
        }
        let reversed = if user == 0 { vec![] } else { vec![1] };
        User { scenario, reversed }
    };
    (0..2).map(user).collect()
}

/// Figures of one draw.
fn times(setting: &Setting, number: u64, sessions: Sessions) -> Figures {
    let all = World::observe_together(users(setting, number), sessions);
    let figures = |user: usize| {
        assert!(all[user].failure.is_none(), "{:?}", all[user].failure);
        let exchanges = all[user].exchanges.iter();
        let took = exchanges.map(|x| x.as_ref().unwrap().took.unwrap().as_secs_f64());
        let mut took: Vec<f64> = took.collect();
        took.sort_by(f64::total_cmp);
        let mean = took.iter().sum::<f64>() / took.len() as f64;
        [mean, took[(took.len() * 95).div_ceil(100) - 1]]
    };
    [figures(0), figures(1)]
}

/// Means over draws of the figures of [`times`], of independent sessions and of those in a ledger,
/// and of the ratios of the latter to the former; and half the width of the 95 % intervals of the
/// ratios' means.
fn compared(setting: &Setting, draws: Range<u64>) -> [Figures; 4] {
    let all = draws.map(|number| {
        let of = |sessions| times(setting, number, sessions);
        [of(Sessions::Independent), of(Sessions::InLedger)]
    });
    let all: Vec<_> = all.collect();
    let n = all.len() as f64;
    let mean = |of: &dyn Fn(&[Figures; 2], usize, usize) -> f64| {
        [0, 1].map(|user| {
            [0, 1].map(|figure| {
                let each = all.iter().map(|both| of(both, user, figure));
                each.sum::<f64>() / n
            })
        })
    };
    let ratio =
        |[independent, ledger]: &[Figures; 2], u: usize, f: usize| ledger[u][f] / independent[u][f];
    let ratios = mean(&ratio);
    let interval = |u: usize, f: usize| {
        let squares = all
            .iter()
            .map(|both| (ratio(both, u, f) - ratios[u][f]).powi(2));
        1.96 * (squares.sum::<f64>() / (n - 1.0) / n).sqrt()
    };
    [
        mean(&|[independent, _], u, f| independent[u][f]),
        mean(&|[_, ledger], u, f| ledger[u][f]),
        ratios,
        from_fn(|u| from_fn(|f| interval(u, f))),
    ]
}

#[test]
fn a_ledger_gains_on_mean_and_95th_percentile_of_chunks() {
    for (setting, most) in [(FIGURE, 0.95), (SHORT_PAUSES, 1.0)] {
        let [_, _, ratios, _] = compared(&setting, 0..8);
        let [mean, p95] = [0, 1].map(|figure| (ratios[0][figure] + ratios[1][figure]) / 2.0);
        assert!(mean < most && p95 < most, "{}: {ratios:?}", setting.name);
    }
}

#[test]
fn a_ledger_delays_nobody_where_own_links_are_unlike() {
    for (setting, draws) in [(UNEQUAL, 0..12), (FAR_APART, 0..2)] {
        let [_, _, ratios, _] = compared(&setting, draws);
        let mut all = ratios.iter().flatten();
        let name = setting.name;
        assert!(all.all(|ratio| *ratio < 1.1), "{name}: {ratios:?}");
    }
}

/// Rate of the link that is lent, and of the borrower's own, in Mbit/s.
const LENT_MBPS: f64 = 20.0;
const BORROWERS_MBPS: f64 = 2.0;

/// Size of a download of the owner, of 20 s alone.
const DOWNLOAD: f64 = 48.0 * MB;

/// The owner of a link downloads, and one to whom it is lent, with a link of its own or without,
/// loads pages of this size, with 5 s between them.
fn owner_and_borrower(page_bytes: f64, has_own: bool, number: u64) -> Vec<User> {
    let mut rng = ChaCha8Rng::seed_from_u64(number);
    let mut link = |name: &str, mbps: f64, delay_ms: f64| {
        let rate = Rate::Constant(BitRate::from_mbps(mbps));
        let delay = Duration::from_secs_f64((delay_ms + draw(&mut rng)) / 1e3);
        TwoWay::symmetric(name, LinkConfig::new(rate).with_delay(delay))
    };
    let lent = link("lent", LENT_MBPS, 20.0);
    let own = link("borrower's", BORROWERS_MBPS, 25.0);
    let pipe = link("pipe", 50.0, 2.0);
    let base = |links, routes| Scenario {
        seed: number,
        has_bounds: false,
        ..Scenario::new(links, routes)
    };
    let by_length = |start, bytes: f64| Exchange {
        by_length: true,
        ..Exchange::download(start, bytes as u64)
    };
    let mut owner = base(vec![lent.clone()], vec![Route::direct("own", 0)]);
    let begins = When::AfterJoined(Duration::from_secs(5));
    owner.exchanges.push(by_length(begins, DOWNLOAD));
    let mut routes = vec![Route::through("lent", HelperId(0), 1, 2)];
    routes.extend(has_own.then(|| Route::direct("own", 0)));
    let mut borrower = base(vec![own, pipe, lent], routes);
    for page in 0..3 {
        let start = match page {
            0 => When::AfterJoined(Duration::from_secs(7)),
            _ => When::AfterEnd(page - 1, Duration::from_secs(5)),
        };
        borrower.exchanges.push(by_length(start, page_bytes));
    }
    let user = |scenario| User {
        scenario,
        reversed: vec![],
    };
    vec![user(owner), user(borrower)]
}

/// Time of the owner's download, and the mean of the pages' times, in seconds.
fn beside_the_owner(page: (f64, bool), number: u64, sessions: Sessions) -> [f64; 2] {
    let all = World::observe_together(owner_and_borrower(page.0, page.1, number), sessions);
    let mean = |user: usize| {
        assert!(all[user].failure.is_none(), "{:?}", all[user].failure);
        let exchanges = all[user].exchanges.iter();
        let took = exchanges.map(|x| x.as_ref().unwrap().took.unwrap().as_secs_f64());
        took.sum::<f64>() / all[user].exchanges.len() as f64
    };
    [mean(0), mean(1)]
}

/// With a record each half second beside the owner, such pages take 2.1 and 6.4 s.
#[test]
fn pages_go_over_a_lent_link_beside_a_download_of_its_owner_who_keeps_95_percent() {
    for (has_own, number, most_s) in [(true, 0, 1.4), (false, 1, 3.0)] {
        let page = (0.5 * MB, has_own);
        let [download, page] = beside_the_owner(page, number, Sessions::InLedger);
        let link = DOWNLOAD * 8e-6 / download / LENT_MBPS;
        assert!(page < most_s, "{page}");
        assert!(link > 0.95 * 1448.0 / 1514.0, "{link}");
    }
}

/// Figures of ADR 0075.
#[test]
#[ignore = "prints figures"]
fn figures_of_lending() {
    let pages = [true, false].map(|has_own| [0.1, 0.5, 1.0, 2.0].map(|mb| (mb, has_own)));
    for (mb, has_own) in pages.into_iter().flatten() {
        let figures = [Sessions::Independent, Sessions::InLedger].map(|sessions| {
            let page = (mb * MB, has_own);
            let all = (3_000..3_010).map(|number| beside_the_owner(page, number, sessions));
            let all: Vec<_> = all.collect();
            let mean = |i: usize| all.iter().map(|one| one[i]).sum::<f64>() / all.len() as f64;
            let part = 100.0 * DOWNLOAD * 8e-6 / mean(0) / LENT_MBPS;
            format!("{:.2} s, {part:.1} % for the owner", mean(1))
        });
        let [independent, ledger] = figures;
        println!(
            "figure: pages of {mb} MB, own link {has_own}: independent {independent}; in the \
             ledger {ledger}"
        );
    }
}

/// Traffic beside the small requests of a lender.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Beside {
    Nothing,
    BorrowersDownload,
    OwnDownload,
    BothDownloads,
}

/// Round-trip times of small requests of the owner over the lent link, one each 250 ms for 20 s, in
/// milliseconds, in rising order; and the rate of the borrower's download in Mbit/s.
fn round_trips(beside: Beside, number: u64, sessions: Sessions) -> (Vec<f64>, f64) {
    let mut users = owner_and_borrower(60.0 * MB, true, number);
    let [owner, borrower] = &mut users[..] else {
        panic!("two users")
    };
    let mut own_download = owner.scenario.exchanges.remove(0);
    borrower.scenario.exchanges.truncate(1);
    // Both downloads last longer than the requests.
    own_download.down_bytes = 60 * 1_000_000;
    own_download.start = When::AfterJoined(Duration::from_secs(7));
    let lends = matches!(beside, Beside::BorrowersDownload | Beside::BothDownloads);
    if !lends {
        borrower.scenario.exchanges[0].down_bytes = 1;
    }
    owner.scenario.exchanges.push(Exchange {
        rounds: Some(Rounds {
            first: Duration::ZERO,
            every: Duration::from_millis(250),
            length: Duration::from_secs(20),
            late: Late::LeftOut,
        }),
        by_length: true,
        ..Exchange::download(When::AfterJoined(Duration::from_secs(10)), 300)
    });
    if matches!(beside, Beside::OwnDownload | Beside::BothDownloads) {
        owner.scenario.exchanges.push(own_download);
    }
    let all = World::observe_together(users, sessions);
    assert!(all[0].failure.is_none(), "{:?}", all[0].failure);
    let rounds = &all[0].exchanges[0].as_ref().unwrap().rounds;
    let mut took: Vec<f64> = rounds.iter().map(|r| r.took.as_secs_f64() * 1e3).collect();
    took.sort_by(f64::total_cmp);
    let download = all[1].exchanges[0].as_ref().unwrap();
    let seconds = download.took.unwrap().as_secs_f64();
    (took, download.down_bytes as f64 * 8e-6 / seconds)
}

/// The design's aim: at most 20 ms more.
#[test]
fn small_requests_of_a_lender_take_20_ms_more_at_most_beside_a_borrowers_download() {
    let median = |beside| {
        let (took, mbps) = round_trips(beside, 0, Sessions::InLedger);
        (took[took.len() / 2], mbps)
    };
    let (alone, _) = median(Beside::Nothing);
    let (lending, mbps) = median(Beside::BorrowersDownload);
    assert!(lending < alone + 20.0, "{alone} {lending}");
    assert!(mbps > 0.9 * (LENT_MBPS + BORROWERS_MBPS), "{mbps}");
    let (both, _) = median(Beside::BothDownloads);
    assert!(both < alone + 20.0, "{alone} {both}");
}

/// Figures of ADR 0078.
#[test]
#[ignore = "prints figures"]
fn figures_of_round_trips() {
    for sessions in [Sessions::Independent, Sessions::InLedger] {
        for beside in [
            Beside::Nothing,
            Beside::BorrowersDownload,
            Beside::OwnDownload,
            Beside::BothDownloads,
        ] {
            let draws = (4_000..4_005).map(|number| round_trips(beside, number, sessions));
            let draws: Vec<_> = draws.collect();
            let mbps = draws.iter().map(|(_, mbps)| mbps).sum::<f64>() / draws.len() as f64;
            let mut all: Vec<f64> = draws.into_iter().flat_map(|(took, _)| took).collect();
            all.sort_by(f64::total_cmp);
            let at = |part: usize| all[(all.len() * part).div_ceil(100) - 1];
            println!(
                "figure: {sessions:?}, beside {beside:?}: median {:.0} ms, 95th percentile {:.0} ms, \
                 {} round trips; the borrower downloads at {mbps:.1} Mbit/s",
                at(50),
                at(95),
                all.len()
            );
        }
    }
}

/// Figures of ADR 0069: `cargo test -p mpbond-sim --test dual figures -- --ignored --nocapture`.
#[test]
#[ignore = "prints figures, for a minute"]
fn figures() {
    print(0..20);
}

/// The same of draws by which no rule was chosen.
#[test]
#[ignore = "prints figures, for minutes"]
fn fresh_draws() {
    print(2_000..2_040);
}

fn print(draws: Range<u64>) {
    let all = [
        FIGURE,
        SHORT_PAUSES,
        MIXED,
        UNEQUAL,
        BESIDE_A_DOWNLOAD,
        FAST,
        FAR_APART,
    ];
    std::thread::scope(|scope| {
        let threads = all.iter().map(|setting| {
            let draws = draws.clone();
            scope.spawn(move || {
                let [independent, ledger, ratios, interval] = compared(setting, draws);
                format!(
                    "{}: mean and 95th percentile of each user\n  independent {independent:.2?}\n  \
                     ledger {ledger:.2?}\n  ratio {ratios:.3?}\n  within {interval:.3?}",
                    setting.name
                )
            })
        });
        let threads: Vec<_> = threads.collect();
        for thread in threads {
            println!("{}", thread.join().unwrap());
        }
    });
}
