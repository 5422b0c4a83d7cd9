//! Processor time of Ethernet frames beside TCP, on two devices that a pipe connects: whether the
//! former pay there (docs/pipes.md).
//!
//! One end asks over a control connection for runs: an idle one, then one over TCP and one over
//! frames, in an order that changes, and so on. Each end measures its whole machine meanwhile, and
//! both are added up.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use mpbond_net::relay::LONGEST_TICK;
use mpbond_statistics::ratio_of_sums;
use mpbond_units::BitRate;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::SHORTEST_TICK;
use super::frames::REFUSED;
use super::options::{Datagrams, ReceiveOptions, SendOptions, Transport};
use super::receive::Receiver;
use super::send::{PATIENCE, send};
use crate::error::{Doing, Error, Result, one_line};
use crate::machine_use::{Counters, Soaker, Use, are_enough, are_undisturbed};
use crate::schedule::repetitions::order;

/// Saving from which frames pay: less is within what changes with kernels and drivers.
pub const LEAST_SAVING: f64 = 0.1;
/// Seed of the orders of both transports.
const SEED: u64 = 1;
/// Maximum length of a message.
const MAX_MESSAGE_BYTES: u64 = 4096;
/// Maximum length of the other end's reason for a failure.
const MAX_REASON_CHARS: usize = 300;
/// Maximum length of one run.
const MAX_RUN: Duration = Duration::from_secs(600);
/// Time beyond that for a run's beginning and end.
const MARGIN: Duration = Duration::from_secs(30);

/// Options of the end that sends.
#[derive(Debug, Clone, PartialEq)]
pub struct CompareOptions {
    /// The other end's control address.
    pub to: SocketAddr,
    /// Rate of the payload.
    pub rate: BitRate,
    /// Interval at which what is due is sent.
    pub tick: Duration,
    /// Length of each run.
    pub duration: Duration,
    /// Number of repetitions, each with a run of either transport.
    pub repetitions: u32,
}

impl CompareOptions {
    /// Those of one transfer to the control address.
    fn transfer(&self, transport: Transport) -> SendOptions {
        SendOptions {
            to: self.to,
            transport,
            datagrams: Datagrams::Single,
            file: None,
            rate: Some(self.rate),
            tick: self.tick,
            bytes: None,
            duration: Some(self.duration),
        }
    }

    /// Before the other end is asked for anything: it serves one connection.
    fn check(&self) -> Result<()> {
        let wrong = |why: &str| Err(Error::Experiment(why.to_owned()));
        if self.duration > MAX_RUN || self.duration < Duration::from_millis(100) {
            return wrong("a run takes 0.1 s to 10 min");
        }
        if !(2..=1000).contains(&self.repetitions) {
            return wrong("2 to 1000 repetitions");
        }
        if !(SHORTEST_TICK..=LONGEST_TICK).contains(&self.tick) {
            return wrong("the interval of sending is 1 to 5 ms, as in a relay");
        }
        self.transfer(Transport::Tcp).check()
    }
}

/// Processor time for 10^9 bytes in one repetition, of both ends together, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Costs {
    /// Over TCP.
    pub tcp_s: f64,
    /// Over Ethernet frames.
    pub l2_s: f64,
    /// Whether both ends were quiet enough for the comparison.
    pub is_undisturbed: bool,
}

/// Result of all repetitions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// All repetitions.
    pub repetitions: Vec<Costs>,
    /// Share of TCP's processor time that frames save, over the undisturbed repetitions; negative
    /// where they cost more. `None` where fewer than half of the repetitions are undisturbed.
    pub saving: Option<f64>,
    /// Its 95 % interval.
    pub interval: Option<(f64, f64)>,
    /// Whether frames save [`LEAST_SAVING`] or more, by the lower end of the interval.
    pub pays: Option<bool>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Run {
    Idle,
    Tcp,
    L2,
}

/// What the sending end asks for.
#[derive(Debug, Serialize, Deserialize)]
struct Request {
    run: Run,
    /// Length of an idle run.
    seconds: f64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    /// Port for the transfer that was asked for.
    Port(u16),
    /// Use of the machine in the run that is over.
    Used(Use),
    Failed(String),
}

/// A control connection: a line of JSON for each message.
struct Control(BufReader<TcpStream>);

impl Control {
    fn new(tcp: TcpStream) -> Result<Self> {
        let patience = Some(MAX_RUN + MARGIN);
        tcp.set_read_timeout(patience).doing(CONTROL)?;
        tcp.set_write_timeout(patience).doing(CONTROL)?;
        tcp.set_nodelay(true).doing(CONTROL)?;
        Ok(Self(BufReader::new(tcp)))
    }

    fn say(&mut self, message: &impl Serialize) -> Result<()> {
        let line = serde_json::to_string(message).map_err(Error::run)? + "\n";
        self.0.get_mut().write_all(line.as_bytes()).doing(CONTROL)
    }

    /// The next message; `None` when the other end has closed the connection.
    fn hear<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        let mut line = String::new();
        let mut limited = (&mut self.0).take(MAX_MESSAGE_BYTES);
        limited.read_line(&mut line).doing(CONTROL)?;
        if line.is_empty() {
            return Ok(None);
        }
        let message = serde_json::from_str(&line);
        message.map(Some).map_err(|_| Error::run(STRANGE))
    }

    fn answer(&mut self) -> Result<Answer> {
        let answer = self.hear()?;
        answer.ok_or_else(|| Error::run("the other end has ended: it says why"))
    }
}

/// What the other end says of its failure. It may be anyone, and the text reaches a terminal.
fn failure(why: &str) -> Error {
    let short: String = why.chars().take(MAX_REASON_CHARS).collect();
    Error::run(format!("the other end: {}", one_line(&short)))
}

const STRANGE: &str = "the other end sent something else than `mpbond traffic compare` does";
const CONTROL: &str = "the control connection failed";

/// The use of this machine while `work` runs.
fn during<T>(soaker: &Soaker, work: impl FnOnce() -> Result<T>) -> Result<(Use, T)> {
    let start = Instant::now();
    let from = Counters::read(soaker, start);
    let done = work()?;
    let to = Counters::read(soaker, start);
    let used = Use::between(soaker.processors(), &from, &to);
    Ok((used.ok_or_else(|| Error::run("no time has passed"))?, done))
}

/// The end that receives, for one comparison.
pub struct Comparer {
    listener: TcpListener,
    soaker: Soaker,
}

impl Comparer {
    /// Opens the control socket, and begins to count idle time.
    ///
    /// # Errors
    /// When the socket fails, or idle time cannot be counted on all processors.
    pub fn open(listen: SocketAddr) -> Result<Self> {
        let soaker = Soaker::start().map_err(Error::run)?;
        let listener =
            TcpListener::bind(listen).doing(format_args!("cannot listen at {listen}"))?;
        Ok(Self { listener, soaker })
    }

    /// Address of the control socket.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn address(&self) -> Result<SocketAddr> {
        self.listener.local_addr().doing("no address of the socket")
    }

    /// Does what one sending end asks for, until that closes the connection.
    ///
    /// # Errors
    /// When the connection or a transfer fails.
    pub fn serve(&self) -> Result<()> {
        let (tcp, _) = self.listener.accept().doing(CONTROL)?;
        // With the scope of a link-local address.
        let mut listen = tcp.local_addr().doing(CONTROL)?;
        listen.set_port(0);
        let mut control = Control::new(tcp)?;
        while let Some(request) = control.hear::<Request>()? {
            let done = self.run(&request, listen, &mut control);
            match &done {
                Ok(used) => control.say(&Answer::Used(*used))?,
                Err(e) => control.say(&Answer::Failed(e.to_string()))?,
            }
            done?;
        }
        Ok(())
    }

    fn run(&self, request: &Request, listen: SocketAddr, control: &mut Control) -> Result<Use> {
        let transport = match request.run {
            Run::Idle => {
                let length = Duration::try_from_secs_f64(request.seconds).unwrap_or_default();
                let wait = || {
                    std::thread::sleep(length.min(MAX_RUN));
                    Ok(())
                };
                return Ok(during(&self.soaker, wait)?.0);
            }
            Run::Tcp => Transport::Tcp,
            Run::L2 => Transport::L2,
        };
        let mut receiver = Receiver::open(&ReceiveOptions {
            listen,
            transport,
            datagrams: Datagrams::Single,
            file: None,
        })?;
        receiver.begins_within = Some(PATIENCE);
        let port = receiver.address()?.port();
        control.say(&Answer::Port(port))?;
        Ok(during(&self.soaker, || receiver.receive())?.0)
    }
}

/// Compares both transports between this device and that of a [`Comparer`]. `told` gets each
/// repetition.
///
/// # Errors
/// Wrong options; a connection or a transfer that fails; no frames between the two devices.
pub fn compare(options: &CompareOptions, mut told: impl FnMut(&Costs)) -> Result<Comparison> {
    options.check()?;
    let soaker = Soaker::start().map_err(Error::run)?;
    let what = format!("cannot connect to {}", options.to);
    let tcp = TcpStream::connect_timeout(&options.to, PATIENCE).doing(&what)?;
    let mut near = Near {
        options,
        control: Control::new(tcp)?,
        soaker,
    };
    let mut all = Vec::new();
    for repetition in 0..options.repetitions {
        let idle = near.idle()?;
        let (tcp, l2) = if is_l2_first(repetition) {
            let l2 = near.transfer(Run::L2)?;
            (near.transfer(Run::Tcp)?, l2)
        } else {
            (near.transfer(Run::Tcp)?, near.transfer(Run::L2)?)
        };
        let costs = costs([idle, tcp, l2]);
        told(&costs);
        all.push(costs);
    }
    Ok(comparison(all))
}

/// Whether frames run before TCP in a repetition, in the order of the lab's schemes (ADR 0055).
fn is_l2_first(repetition: u32) -> bool {
    order(2, SEED, repetition).first() == Some(&1)
}

/// One run: the use of both ends, and the bytes that were moved.
struct Ran {
    ends: [Use; 2],
    bytes: u64,
}

struct Near<'a> {
    options: &'a CompareOptions,
    control: Control,
    soaker: Soaker,
}

impl Near<'_> {
    fn idle(&mut self) -> Result<Ran> {
        self.ask(Run::Idle)?;
        let wait = || {
            std::thread::sleep(self.options.duration);
            Ok(())
        };
        let own = during(&self.soaker, wait)?.0;
        self.ran(own, 0)
    }

    fn transfer(&mut self, run: Run) -> Result<Ran> {
        self.ask(run)?;
        let port = match self.control.answer()? {
            Answer::Port(port) => port,
            Answer::Used(_) => return Err(Error::run(STRANGE)),
            Answer::Failed(why) => return Err(failure(&why)),
        };
        let mut options = self.options.transfer(match run {
            Run::L2 => Transport::L2,
            Run::Idle | Run::Tcp => Transport::Tcp,
        });
        options.to.set_port(port);
        let (own, moved) = match during(&self.soaker, || send(&options)) {
            Err(Error::System { source, .. }) if source.kind() == REFUSED => {
                return self.ran(Use::default(), 0);
            }
            sent => sent?,
        };
        self.ran(own, moved.bytes)
    }

    fn ask(&mut self, run: Run) -> Result<()> {
        let seconds = self.options.duration.as_secs_f64();
        self.control.say(&Request { run, seconds })
    }

    fn ran(&mut self, own: Use, bytes: u64) -> Result<Ran> {
        match self.control.answer()? {
            Answer::Used(far) => Ok(Ran {
                ends: [own, far],
                bytes,
            }),
            Answer::Port(_) => Err(Error::run(STRANGE)),
            Answer::Failed(why) => Err(failure(&why)),
        }
    }
}

/// Processor time by bytes above that of the idle machines.
fn costs([idle, tcp, l2]: [Ran; 3]) -> Costs {
    let own = |run: &Ran| {
        let ends = run.ends.iter().zip(&idle.ends);
        let used = ends.map(|(used, idle)| (used.own() - idle.own()) * used.seconds);
        used.sum::<f64>() / run.bytes.max(1) as f64 * 1e9
    };
    let is_undisturbed = |[idle, tcp, l2]: [&Use; 3]| are_undisturbed(&[*idle, *tcp, *l2]);
    let ends = (idle.ends.iter().zip(&tcp.ends)).zip(&l2.ends);
    Costs {
        tcp_s: own(&tcp),
        l2_s: own(&l2),
        is_undisturbed: { ends }.all(|((idle, tcp), l2)| is_undisturbed([idle, tcp, l2])),
    }
}

fn comparison(repetitions: Vec<Costs>) -> Comparison {
    let quiet = repetitions.iter().filter(|c| c.is_undisturbed);
    let quiet: Vec<(f64, f64)> = quiet.map(|c| (c.l2_s, c.tcp_s)).collect();
    let is_enough = are_enough(quiet.len(), repetitions.len());
    let ratio = ratio_of_sums(&quiet).filter(|_| is_enough);
    let interval = ratio.and_then(|ratio| ratio.interval);
    let interval = interval.map(|(low, high)| (1.0 - high, 1.0 - low));
    Comparison {
        saving: ratio.map(|ratio| 1.0 - ratio.value),
        interval,
        pays: interval.map(|(low, _)| low >= LEAST_SAVING),
        repetitions,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_options_are_refused_before_the_other_end_is_asked() {
        let far = TcpListener::bind("127.0.0.1:0").unwrap();
        far.set_nonblocking(true).unwrap();
        let good = CompareOptions {
            to: far.local_addr().unwrap(),
            rate: BitRate::from_mbps(24.0),
            tick: Duration::from_millis(5),
            duration: Duration::from_secs(1),
            repetitions: 2,
        };
        assert!(good.check().is_ok());
        let ms = Duration::from_millis;
        for (wrong, words) in [
            (
                CompareOptions {
                    tick: ms(6),
                    ..good.clone()
                },
                "1 to 5 ms",
            ),
            (
                CompareOptions {
                    tick: ms(0),
                    ..good.clone()
                },
                "1 to 5 ms",
            ),
            (
                CompareOptions {
                    duration: ms(99),
                    ..good.clone()
                },
                "0.1 s",
            ),
            (
                CompareOptions {
                    repetitions: 1,
                    ..good.clone()
                },
                "2 to 1000",
            ),
            (
                CompareOptions {
                    rate: BitRate::from_bps(7_999),
                    ..good.clone()
                },
                "8 kbit/s",
            ),
        ] {
            let why = compare(&wrong, |_| {}).unwrap_err();
            assert_eq!(why.exit_code(), 2);
            assert!(why.to_string().contains(words), "{why}");
        }
        assert!(far.accept().is_err(), "no connection");
    }

    fn used(seconds: f64, all: f64, others: f64) -> Use {
        Use {
            seconds,
            all,
            steal: 0.0,
            others,
        }
    }

    fn ran(ends: [Use; 2], bytes: u64) -> Ran {
        Ran { ends, bytes }
    }

    fn repetition(tcp_s: f64, l2_s: f64, is_undisturbed: bool) -> Costs {
        Costs {
            tcp_s,
            l2_s,
            is_undisturbed,
        }
    }

    #[test]
    fn both_ends_count_above_their_idle_use() {
        let idle = || ran([used(5.0, 0.02, 0.01), used(5.0, 0.05, 0.0)], 0);
        let tcp = || ran([used(5.0, 0.12, 0.01), used(5.0, 0.15, 0.0)], 500_000_000);
        let l2 = ran([used(10.0, 0.07, 0.01), used(10.0, 0.05, 0.0)], 500_000_000);
        let found = costs([idle(), tcp(), l2]);
        // 5 s of 0.1 and 5 s of 0.1 for half of 10^9 bytes; 10 s of 0.05.
        assert!((found.tcp_s - 2.0).abs() < 1e-9, "{found:?}");
        assert!((found.l2_s - 1.0).abs() < 1e-9, "{found:?}");
        assert!(found.is_undisturbed);
        let busy = ran([used(5.0, 0.2, 0.1), used(5.0, 0.05, 0.0)], 500_000_000);
        assert!(!costs([idle(), tcp(), busy]).is_undisturbed);
    }

    #[test]
    fn frames_pay_from_ten_per_cent_on() {
        let by = |l2: [f64; 3], is_undisturbed: [bool; 3]| {
            let all = l2.into_iter().zip(is_undisturbed);
            comparison(all.map(|(l2, fit)| repetition(10.0, l2, fit)).collect())
        };
        let all = [true; 3];
        assert_eq!(by([7.0, 7.1, 6.9], all).pays, Some(true));
        // The mean suffices, but not the interval; frames cost more.
        assert_eq!(by([8.0, 9.0, 8.5], all).pays, Some(false));
        let more = by([17.0, 17.1, 16.9], all);
        assert_eq!(more.pays, Some(false));
        assert!((more.saving.unwrap() + 0.7).abs() < 1e-9);
        // Disturbed ones do not count, and too few do not suffice.
        assert_eq!(by([7.0, 7.1, 90.0], [true, true, false]).pays, Some(true));
        let few = by([7.0, 7.1, 90.0], [true, false, false]);
        assert_eq!((few.saving, few.pays), (None, None));
    }

    #[test]
    fn each_transport_is_as_often_the_first() {
        assert_eq!([0, 1].map(is_l2_first), [false, true]);
        for pair in 0..10 {
            let [first, second] = [2 * pair, 2 * pair + 1].map(is_l2_first);
            assert_ne!(first, second, "{pair}");
        }
        assert!((1..20).any(|pair| is_l2_first(2 * pair)));
    }

    #[test]
    fn the_saving_is_that_of_the_sums() {
        // 19 of 20 and 3 of 4: 22 of 24. The mean of ratios would be 0.85.
        let all = vec![repetition(20.0, 19.0, true), repetition(4.0, 3.0, true)];
        let saving = comparison(all).saving.unwrap();
        assert!((saving - 2.0 / 24.0).abs() < 1e-9, "{saving}");
    }

    #[test]
    fn a_reason_of_the_other_end_is_a_short_line_of_text() {
        let why = failure(&format!("a\u{1b}[2J\nb{}", "x".repeat(4000))).to_string();
        assert!(why.starts_with("the other end: a?[2J?bxxx"), "{why}");
        assert_eq!(
            why.chars().count(),
            "the other end: ".len() + MAX_REASON_CHARS
        );
    }

    #[test]
    fn messages_of_another_program_are_one_line() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut control = Control::new(listener.accept().unwrap().0).unwrap();
        other
            .write_all(b"{\"run\":\"tcp\",\"seconds\":1}\nGET / HTTP/1.1\r\n")
            .unwrap();
        assert!(matches!(control.hear::<Request>(), Ok(Some(r)) if matches!(r.run, Run::Tcp)));
        let why = control.hear::<Request>().unwrap_err().to_string();
        assert!(why.contains("`mpbond traffic compare`"), "{why}");
        let long = vec![b'x'; 2 * MAX_MESSAGE_BYTES as usize];
        other.write_all(&long).unwrap();
        assert!(control.hear::<Request>().is_err());
        drop(other);
    }
}
