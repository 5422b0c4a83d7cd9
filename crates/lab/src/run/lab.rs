//! A running experiment: its hosts, links, daemons and transfers.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use mpbond_units::Timestamp;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::options::RunOptions;
use crate::baselines::external::Programs;
use crate::daemons::{Daemons, Setup, Shares};
use crate::error::{Doing, Error, Result};
use crate::experiment::{Carrier, Connection, Experiment, Role, Scheme, Start, Workload, name_of};
use crate::figures::quantity::Quantity;
use crate::figures::{oracle, paper, summary};
use crate::isolate::Inside;
use crate::machine_use::{Reader, Reading, Use, Waits, why_disturbed};
use crate::network::links::{played_bluetooth, played_links, setting_changes, timed_changes};
use crate::network::wiring::Network;
use crate::player::{Clock, Emulated, Logs, Passed, Player};
use crate::record::{Lateness, RunReport, SubflowShare, Transfer};
use crate::schedule::duration::time_limit;
use crate::schedule::progress::Progress;
use crate::schedule::resume::Done;
use crate::schedule::{duration, repetitions};
use crate::simulate::CLOSING;
use crate::transfer::client::{Outcome, Way};
use crate::transfer::conditions::{
    all_of, cpu_percent, links_not_kept, other_classes, ratio_not_kept,
};
use crate::transfer::content::Content;
use crate::transfer::energy::Accountant;
use crate::transfer::fetcher::{self, Fetcher, Job};
use crate::transfer::ideal::ideal_time;
use crate::transfer::link_progress;
use crate::transfer::metered::metered_mb;
use crate::transfer::origin::{self, Listening, ORIGIN_PORT, Received};
use crate::{machine, program};

/// State before a transfer.
struct Ready {
    fetcher: Fetcher,
    /// Bytes that a kept connection has carried before.
    before: Shares,
    /// For an application over the daemons: when the last connection before its own was opened.
    latest_opened_s: Option<f64>,
}

/// A running experiment.
pub(super) struct Lab<'a> {
    experiment: &'a Experiment,
    accountants: Vec<Accountant<'a>>,
    options: &'a RunOptions,
    scratch: &'a Path,
    network: Network,
    player: Player,
    content: Content,
    received: Received,
    listening: Listening,
    upload: PathBuf,
    progress: Progress,
    digests: HashMap<u64, String>,
    congestion: String,
    /// Counters of the whole machine, where the experiment wants them and there are some.
    machine: Option<Reader>,
    /// Number of the next transfer.
    next: usize,
}

impl<'a> Lab<'a> {
    pub fn new(
        experiment: &'a Experiment,
        options: &'a RunOptions,
        inside: &'a Inside,
    ) -> Result<Self> {
        let scratch = inside.scratch();
        let each = duration::of_each_transfer(experiment)?;
        let progress = Progress::new(options.quiet, each);
        progress.note("making hosts and links ...");
        let accountants = Accountant::all(experiment)?;
        let mut network = Network::build(experiment)?;
        let links = Emulated {
            links: played_links(experiment, &mut network)?,
            bluetooth: played_bluetooth(experiment, scratch)?,
        };
        let logs = Logs {
            packets: options.packet_log.clone(),
            pcap: options.pcap.clone(),
        };
        // Parts that run side by side have losses of their own; links have the next few seeds.
        let part = options.part.map_or(0, |part| u64::from(part.index()));
        let seed = experiment.seed.wrapping_add(part << 32);
        let player = Player::start(links, Clock::start(), seed, &logs)?;
        let content = Content::new(experiment.seed);
        let host = network.host_in(Role::Origin)?;
        let address = origin_address(experiment)?;
        let (received, listening) = origin::start(host, address, content.clone())?;
        let machine = match experiment.whole_machine {
            true => counters(inside)?,
            false => None,
        };
        Ok(Self {
            experiment,
            accountants,
            options,
            scratch,
            network,
            player,
            content,
            received,
            listening,
            upload: scratch.join("upload"),
            progress,
            digests: HashMap::new(),
            congestion: String::new(),
            machine,
            next: 0,
        })
    }

    pub fn run_all(mut self) -> Result<RunReport> {
        let e = self.experiment;
        // Those of its start: files may change while it runs.
        let (date, commit) = (machine::date(), machine::commit(&e.path));
        let mut done = Done::open(e, self.options.resume.as_deref())?;
        let planned = e.repetitions;
        for repetition in 0..planned {
            match self.options.part {
                Some(part) if !part.has(repetition) => self.pass_over(),
                _ => self.repeat(repetition, &mut done)?,
            }
        }
        for repetition in planned..planned + self.options.most_further(planned) {
            if !repetitions::follows(done.transfers(), planned, repetition) {
                break;
            }
            if !repetitions::has_begun(done.transfers(), repetition) {
                let undisturbed = repetitions::undisturbed(done.transfers());
                self.progress.say(&format!(
                    "{undisturbed} of {planned} repetitions are undisturbed: a further one follows"
                ));
            }
            self.progress
                .further(duration::of_repetition(e, repetition)?);
            self.repeat(repetition, &mut done)?;
        }
        self.progress.note("");
        let mut transfers = done.into_transfers();
        repetitions::leave_out_disturbed(&mut transfers, planned);
        oracle::compare(e, &mut transfers);
        let summaries = summary::summaries(e, &transfers);
        let report = RunReport {
            experiment: e.name.clone(),
            title: e.title.clone(),
            date,
            commit,
            kernel: machine::kernel(),
            simulated: None,
            asserts: summary::judge(e, &transfers, &summaries),
            summary: summaries,
            paper: paper::comparisons(e, &transfers),
            file: Some(e.text.clone()),
            ideal: link_progress::ideals(e)?,
            reduced: None,
            transfers,
        };
        self.player.stop()?;
        Ok(report)
    }

    /// Counts the transfers of a repetition that another part of the run has.
    fn pass_over(&mut self) {
        let e = self.experiment;
        let transfers: usize = e.schemes.iter().map(|s| e.workloads_of(s).count()).sum();
        for place in self.next..self.next + transfers {
            self.progress.skipped(place);
        }
        self.next += transfers;
    }

    /// Runs all workloads by every scheme once.
    fn repeat(&mut self, repetition: u32, done: &mut Done) -> Result<()> {
        let e = self.experiment;
        for position in repetitions::order(e.schemes.len(), e.seed, repetition) {
            let Some(scheme) = e.schemes.get(position) else {
                continue;
            };
            self.run_scheme(scheme, repetition, done)?;
        }
        Ok(())
    }

    /// Runs workloads of a scheme, with daemons of its own.
    fn run_scheme(&mut self, scheme: &Scheme, repetition: u32, done: &mut Done) -> Result<()> {
        let mut daemons: Option<Daemons> = None;
        let mut programs: Option<Programs> = None;
        let mut before: Option<&Workload> = None;
        for workload in self.experiment.workloads_of(scheme) {
            let place = self.next;
            self.next += 1;
            if done.has(scheme, workload, repetition) {
                self.progress.skipped(place);
                continue;
            }
            if self.congestion != scheme.congestion {
                self.network.set_congestion(&scheme.congestion)?;
                self.listening.set_congestion(&scheme.congestion)?;
                self.congestion.clone_from(&scheme.congestion);
            }
            let e = self.experiment;
            if before.is_some_and(|before| before.leaves_other_links(e, workload)) {
                (daemons, programs) = (None, None);
            }
            before = Some(workload);
            // Between transfers, links are as at the start.
            self.player.reset()?;
            for c in setting_changes(self.experiment, workload)? {
                self.player.change(&c.link, c.direction, c.change)?;
            }
            if scheme.scheme == Carrier::Mpbond && daemons.is_none() {
                daemons = Some(self.start_daemons(scheme, repetition)?);
            }
            if let (Some(external), None) = (&scheme.external, &programs) {
                let folder = self.folder(scheme, repetition)?;
                programs = Some(Programs::start(
                    e,
                    &self.network,
                    scheme,
                    external,
                    &folder,
                )?);
            }
            let way = programs.as_ref().map(Programs::way);
            let result = self.make_ready(scheme, workload, repetition, daemons.as_mut(), way);
            let result = result.and_then(|ready| {
                let daemons = daemons.as_ref();
                self.transfer(scheme, workload, repetition, place, daemons, ready)
            });
            let transfer = result.map_err(|e| match (&daemons, &programs) {
                (Some(daemons), _) => Error::run(format!("{e}\n{}", daemons.log_tails())),
                (_, Some(programs)) => Error::run(format!("{e}\n{}", programs.log_tails())),
                (None, None) => e,
            })?;
            let failed = !transfer.sha256_ok;
            done.add(transfer)?;
            self.progress.done(place);
            // A cold start needs fresh daemons; so does the transfer after a fault or a failure.
            if scheme.start == Start::Cold || !workload.faults.is_empty() || failed {
                (daemons, programs) = (None, None);
            }
        }
        Ok(())
    }

    /// Prepares a transfer up to the start of its clock, idle time included.
    fn make_ready(
        &self,
        scheme: &Scheme,
        workload: &Workload,
        repetition: u32,
        mut daemons: Option<&mut Daemons>,
        way: Option<&Way>,
    ) -> Result<Ready> {
        self.progress
            .note(&format!("{}: idle ...", scheme.name.get_ref()));
        let warm = scheme.start == Start::Warm;
        let job = self.job(scheme, workload, repetition)?;
        if let (Some(daemons), true) = (&mut daemons, warm) {
            daemons.wait_until_joined()?;
            fetcher::reach(job, daemons.way())?;
        }
        let kept = scheme.connection == Connection::Kept;
        let way = daemons.as_deref().map(Daemons::way).or(way);
        let fetcher = Fetcher::ready(job, way)?;
        let before = match &daemons {
            Some(daemons) if kept => {
                let destination = job.destination.to_string();
                daemons.shares_so_far(workload.direction, &destination)?
            }
            _ => Shares::default(),
        };
        let latest_opened_s = match &daemons {
            Some(daemons) if workload.application().is_some() => {
                let destination = job.destination.to_string();
                daemons.latest_opened_s(workload.direction, &destination)?
            }
            _ => None,
        };
        if kept || (warm && daemons.is_some()) {
            std::thread::sleep(scheme.idle);
        }
        Ok(Ready {
            fetcher,
            before,
            latest_opened_s,
        })
    }

    fn job<'s>(
        &'s self,
        scheme: &'s Scheme,
        workload: &'s Workload,
        repetition: u32,
    ) -> Result<Job<'s>> {
        Ok(Job {
            experiment: self.experiment,
            scheme,
            workload,
            seed: self.experiment.seed.wrapping_add(repetition.into()),
            network: &self.network,
            content: &self.content,
            received: &self.received,
            upload: &self.upload,
            destination: origin_address(self.experiment)?,
        })
    }

    /// Folder for the files and logs of a scheme in a repetition.
    fn folder(&self, scheme: &Scheme, repetition: u32) -> Result<PathBuf> {
        let name = scheme.name.get_ref();
        let place: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        let folder = self
            .options
            .out
            .as_deref()
            .unwrap_or(self.scratch)
            .join(format!("{place}.{repetition}"));
        std::fs::create_dir_all(&folder).at("make", &folder)?;
        Ok(folder)
    }

    fn start_daemons(&self, scheme: &Scheme, repetition: u32) -> Result<Daemons> {
        let name = scheme.name.get_ref();
        self.progress.note(&format!("{name}: starting daemons ..."));
        let folder = self.folder(scheme, repetition)?;
        let binary = match &self.options.binary {
            Some(binary) => binary.clone(),
            None => program::mpbond()?,
        };
        let setup = Setup {
            experiment: self.experiment,
            network: &self.network,
            binary: &binary,
            scratch: self.scratch,
            folder: &folder,
        };
        Daemons::start(&setup, scheme)
    }

    fn transfer(
        &mut self,
        scheme: &Scheme,
        workload: &Workload,
        repetition: u32,
        number: usize,
        daemons: Option<&Daemons>,
        ready: Ready,
    ) -> Result<Transfer> {
        let e = self.experiment;
        let most = workload.most_bytes();
        let ideal = ideal_time(e, scheme, workload, most.max(1))?;
        let limit = time_limit(e, scheme, workload, ideal)?;
        let destination = origin_address(e)?;
        let expected = match workload.application() {
            None => self
                .digests
                .entry(most)
                .or_insert_with(|| self.content.sha256(most))
                .clone(),
            Some(_) => String::new(),
        };
        let changes = timed_changes(e, workload)?;
        let losing = changes.iter().filter(|c| c.carrier == Some(false));
        let without_carrier: BTreeSet<String> = losing.map(|c| c.link.clone()).collect();
        let drops_before = self.network.device_drops(&without_carrier)?;
        let cpu_before = daemons.map(Daemons::cpu_seconds).unwrap_or_default();

        let Ready {
            fetcher,
            before,
            latest_opened_s,
        } = ready;
        let waits = Waits::start();
        let machine_before = self.machine.as_mut().map(Reader::read);
        let begun = Instant::now();
        let job = self.job(scheme, workload, repetition)?;
        let outcome = match self.carry(job, number, daemons, fetcher, limit) {
            // That others fail is a result.
            Err(e) if scheme.scheme != Carrier::Mpbond => {
                Outcome::failed(begun.elapsed(), &e.to_string())
            }
            outcome => outcome?,
        };
        let end = self.player.now();
        let machine = machine_before.and_then(|before| self.used_since(before));
        let waited = waits.and_then(Waits::finish);
        let (bytes, ideal) = match workload.application() {
            None => (most, ideal),
            // The bytes that the application selected, as one transfer.
            Some(_) => (
                outcome.bytes,
                ideal_time(e, scheme, workload, outcome.bytes)?,
            ),
        };
        let whole = outcome
            .intact
            .unwrap_or_else(|| outcome.bytes == bytes && outcome.sha256 == expected);

        let conditions = self.player.conditions()?;
        let lost = self.network.device_drops(&without_carrier)? - drops_before;
        let mut cpu_s = daemons.map(Daemons::cpu_seconds).unwrap_or_default();
        for (host, seconds) in &mut cpu_s {
            *seconds -= cpu_before.get(host).copied().unwrap_or_default();
        }
        let cpu_percent = cpu_percent(e, &cpu_s, outcome.seconds);
        let shares = match daemons {
            Some(daemons) if workload.application().is_some() => {
                let destination = destination.to_string();
                daemons.shares_of_all(workload.direction, &destination, latest_opened_s)?
            }
            Some(daemons) => daemons
                .shares(workload.direction, &destination.to_string())?
                .since(&before, outcome.opened_before_s),
            None if scheme.scheme == Carrier::Single => self.single_share(scheme, &outcome),
            None => Shares {
                redundant_bytes: outcome.redundant_bytes,
                subflows: outcome.shares.clone(),
                ..Shares::default()
            },
        };
        // The packets that close its connections belong to it.
        std::thread::sleep((end + CLOSING).since(self.player.now()));
        let passed = of_transfer(self.player.passed()?, end);
        let links = self.player.links();
        let metered = metered_mb(e, links, &passed).map(|mb| (Quantity::MeteredMb, mb));
        let messages = outcome.messages;
        let noticed = outcome.noticed.into_iter().chain(metered).collect();
        let energy = self
            .accountants
            .iter()
            .map(|a| a.account(scheme, links, &passed, end))
            .collect::<Result<_>>()?;
        // While no path is up, a primary may let connections bypass it.
        let passed_by = daemons.is_some() && shares.subflows.is_empty();
        let links_not_kept = links_not_kept(&conditions, lost, e.max_lateness);
        // What did not pass or failed has neither ratio nor classes.
        let unlike_scheme = passed_by
            .then(|| "the bytes did not pass through the daemons".to_owned())
            .or_else(|| outcome.unfit_because.clone())
            .or_else(|| {
                let classes = daemons.and_then(|_| other_classes(workload, &shares.classes));
                all_of([ratio_not_kept(e, scheme, &shares.subflows), classes])
            });
        let unfit = all_of([unlike_scheme, links_not_kept.clone()]);
        let ideal_seconds = ideal.as_secs_f64();
        let us = |span: Duration| span.as_secs_f64() * 1e6;
        Ok(Transfer {
            scheme: name_of(scheme.scheme),
            name: scheme.name.get_ref().clone(),
            workload: workload.name.get_ref().clone(),
            repetition,
            seed: None,
            scheduler: daemons.map(|_| scheme.scheduler.name().to_owned()),
            direction: workload.direction,
            devices: scheme.devices,
            interception: scheme.interception,
            client: e.client,
            connection: scheme.connection,
            congestion: scheme.congestion.clone(),
            bytes,
            seconds: outcome.seconds,
            ideal_seconds,
            ratio: Transfer::ratio_of(outcome.seconds, ideal_seconds),
            redundant_bytes: shares.redundant_bytes,
            sha256_ok: whole,
            first_byte_s: Some(outcome.first_byte_s),
            longest_stall_s: outcome.longest_stall.as_secs_f64(),
            subflows: shares.subflows,
            classes: shares.classes,
            progress: outcome.series,
            noticed,
            messages,
            cpu_s,
            cpu_percent,
            machine,
            disturbed: why_disturbed(waited.as_ref(), machine.as_ref()).or(links_not_kept),
            waited,
            energy,
            links: link_progress::of_links(links, &passed, workload.direction),
            fit: unfit.is_none(),
            left_out: false,
            unfit_because: unfit,
            lateness_us: Some(Lateness {
                p50: us(conditions.lateness_p50),
                p99: us(conditions.lateness_p99),
                max: us(conditions.lateness_max),
                realtime: conditions.realtime,
            }),
        })
    }

    /// Runs the client, and the faults meanwhile.
    fn carry(
        &self,
        job: Job,
        number: usize,
        daemons: Option<&Daemons>,
        fetcher: Fetcher,
        limit: Duration,
    ) -> Result<Outcome> {
        let Job {
            scheme, workload, ..
        } = job;
        let bytes = workload.most_bytes();
        let label = format!("{}, {}", scheme.name.get_ref(), workload.name.get_ref());
        let mut line = self.progress.transfer(number, &label, bytes);
        let mut progress = |done: u64| line.show(done);
        let kills: Vec<(Duration, Pid)> = workload
            .faults
            .iter()
            .filter_map(|f| Some((f.at, daemons?.pid(f.kill.as_ref()?.get_ref())?)))
            .collect();
        let changes = timed_changes(self.experiment, workload)?;
        self.player.begin(changes)?;
        std::thread::scope(|scope| {
            let mut over = Vec::new();
            for (at, pid) in kills {
                let (ended, waits) = channel::<()>();
                over.push(ended);
                scope.spawn(move || {
                    // A transfer that ends earlier drops its end of the channel.
                    if waits.recv_timeout(at) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                        let _ = kill(pid, Signal::SIGKILL);
                    }
                });
            }
            fetcher.carry(job, limit, &mut progress)
        })
    }

    /// Use of the machine since a reading, which the first error ends for all transfers.
    fn used_since(&mut self, before: Result<Reading, String>) -> Option<Use> {
        let after = self.machine.as_mut()?.read();
        match (before, after) {
            (Ok(before), Ok(after)) => before.until(&after),
            (Err(why), _) | (_, Err(why)) => {
                not_measured(&why);
                self.machine = None;
                None
            }
        }
    }

    /// The share of a single path, by the client's account.
    fn single_share(&self, scheme: &Scheme, outcome: &Outcome) -> Shares {
        let path = scheme.direct_links(self.experiment).next();
        Shares {
            redundant_bytes: Some(0),
            subflows: path
                .map(|link| SubflowShare {
                    name: link.name.get_ref().clone(),
                    bytes: outcome.bytes,
                    finished_s: Some(outcome.seconds),
                })
                .into_iter()
                .collect(),
            ..Shares::default()
        }
    }
}

/// The packets of a transfer that ended at `end`, as in virtual time: without those that passed
/// while the lab waited for the daemons' account of it.
fn of_transfer(mut passed: Vec<Passed>, end: Timestamp) -> Vec<Passed> {
    passed.retain(|p| p.arrived <= end + CLOSING);
    passed
}

/// Counters of the whole machine, by the process outside, once it is ready to count.
fn counters(inside: &Inside) -> Result<Option<Reader>> {
    let mut reader = Reader::new(inside.line()).doing("cannot copy a descriptor")?;
    Ok(match reader.read() {
        Ok(_) => Some(reader),
        Err(why) => {
            not_measured(&why);
            None
        }
    })
}

fn not_measured(why: &str) {
    eprintln!("mpbond: processor time of the whole machine is not measured: {why}");
}

fn origin_address(e: &Experiment) -> Result<SocketAddr> {
    let address = e.host(Role::Origin).address;
    let address = address.ok_or_else(|| Error::run("the origin has no address"))?;
    Ok(SocketAddr::from((address, ORIGIN_PORT)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Direction;

    #[test]
    fn packets_later_than_100_ms_after_a_transfer_are_none_of_it() {
        let end = Timestamp::from_millis(2_000);
        let packet = |ms| Passed {
            link: 0,
            direction: Direction::Down,
            bytes: 1_500,
            departed: Timestamp::from_millis(1_000),
            arrived: Timestamp::from_millis(ms),
        };
        let all = [1_999, 2_100, 2_101, 3_500].map(packet).to_vec();
        let kept = of_transfer(all, end);
        assert_eq!(kept, [1_999, 2_100].map(packet));
    }
}
