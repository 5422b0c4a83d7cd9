//! The run: the server's assignment of chunks to paths, the watch's decisions, and time.

use std::collections::VecDeque;
use std::time::Duration;

use mpbond_radio::machine::Band;
use mpbond_units::{BitRate, Timestamp};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::air::Air;
use super::carried::{Carried, Stage};
use super::control::{Handover, HandoverAction, Interface, Observation, Selection, WifiState};
use super::flow::Flow;
use super::noise::signal_noise;
use super::outcome::{Delivery, Joules, Outcome};
use super::phases::Phases;
use super::phone::Phone;
use super::setup::{Connects, Interference, Paths, Setup};
use super::{CHUNK_BYTES, Path};
use crate::link::packet_loss;
use crate::tcp;

/// Begin of the traffic: a link that leaves Sniff has done so by then.
const START: Timestamp = Timestamp::from_millis(1_000);
/// Interval of observations and of samples of the signal (Wear OS paper, Table 3).
const LOOK: Duration = Duration::from_millis(200);
/// Time over which rates are observed.
const RATE_OVER: Duration = Duration::from_secs(1);

/// Runs a setup to its end.
pub fn run(setup: &Setup) -> Outcome {
    let mut world = World::new(setup);
    let mut now = Timestamp::ZERO;
    world.phone.small_packet(now, world.band.as_mut());
    loop {
        world.step(now);
        let done = world.flows.iter().all(Flow::is_complete);
        match world.next_event(now).filter(|at| *at < setup.until) {
            Some(next) if !done => now = next.max(now),
            _ => break,
        }
    }
    let end = if world.flows.iter().all(Flow::is_complete) {
        now
    } else {
        setup.until
    };
    world.finish(end)
}

struct World<'a> {
    setup: &'a Setup,
    flows: Vec<Flow>,
    phone: Phone,
    air: Option<Air>,
    band: Option<Band>,
    selection: Option<Selection>,
    handover: Option<Handover>,
    /// The application's choice.
    by_rate: Interface,
    /// When the association that was begun ends.
    joined_at: Option<Timestamp>,
    phases: Phases,
    look_at: Option<Timestamp>,
    uplink_at: Option<Timestamp>,
    /// Bytes that arrived over WiFi, and at the phone, at each observation of the last second.
    seen: VecDeque<(Timestamp, u64, u64)>,
    /// With the number of the chunk in its flow.
    deliveries: Vec<(usize, Delivery)>,
    requests: Vec<mpbond_radio::machine::LmpRequest>,
    switches: u64,
    rng: ChaCha8Rng,
    /// Random numbers of joining WiFi.
    join_rng: ChaCha8Rng,
}

impl<'a> World<'a> {
    fn new(setup: &'a Setup) -> Self {
        let zero = Timestamp::ZERO;
        let wifi = setup.wifi.as_ref();
        let band = wifi.and_then(|wifi| wifi.band.as_ref());
        let mut air = wifi.map(|wifi| Air::new(wifi, &setup.radios.watch_wifi));
        let handover = match setup.paths {
            Paths::Handover(mode) => Some(Handover::new(mode, zero)),
            _ => None,
        };
        let selection = match setup.paths {
            Paths::Selected(rule) => Some(Selection::new(rule)),
            _ => None,
        };
        let looks = handover.is_some() || selection.is_some() || setup.walk.is_some();
        if let Some(air) = &mut air {
            match handover {
                Some(_) => air.leave(zero),
                None => air.join(zero, setup.flows.len()),
            }
        }
        let mut phone = Phone::new(setup);
        phone.rfcomm.set_signal(zero, setup.dbm);
        Self {
            setup,
            flows: setup.flows.iter().map(|t| Flow::new(*t, START)).collect(),
            phone,
            air,
            band: band.map(Interference::band),
            selection,
            handover,
            by_rate: Interface::Bluetooth,
            joined_at: None,
            phases: Phases::default(),
            look_at: looks.then_some(zero),
            uplink_at: setup.uplink_every.map(|every| START + every),
            seen: VecDeque::new(),
            deliveries: Vec::new(),
            requests: Vec::new(),
            switches: 0,
            rng: ChaCha8Rng::seed_from_u64(!setup.seed),
            join_rng: ChaCha8Rng::seed_from_u64(setup.seed.rotate_left(32)),
        }
    }

    fn next_event(&self, now: Timestamp) -> Option<Timestamp> {
        let flows = self.flows.iter().filter_map(|flow| flow.next_due(now));
        let air = self.air.as_ref().and_then(Air::next_event);
        let handover = self.handover.as_ref().and_then(Handover::poll_timeout);
        let own = [
            self.phone.next_event(),
            air,
            handover,
            self.joined_at,
            self.look_at,
            self.uplink_at,
        ];
        flows.chain(own.into_iter().flatten()).min()
    }

    fn step(&mut self, now: Timestamp) {
        self.timers(now);
        loop {
            self.transfer(now);
            // What an action moves goes out at once.
            if !self.follow(now) {
                break;
            }
        }
    }

    /// Moves bytes until nothing more can be moved now.
    fn transfer(&mut self, now: Timestamp) {
        loop {
            let mut moved = false;
            for flow in &mut self.flows {
                flow.produce(now, self.setup.until);
            }
            for n in 0..self.flows.len() {
                moved |= self.serve(now, n);
            }
            let mut arrived = Vec::new();
            let band = self.band.as_mut();
            moved |= self.phone.pump(now, &mut self.flows, band, &mut arrived);
            for (flow, bytes) in arrived {
                self.arrive(now, Path::Phone, flow, bytes);
            }
            moved |= self.wifi(now);
            if !moved {
                break;
            }
        }
        while let Some(request) = self.phone.rfcomm.poll_request() {
            self.requests.push(request);
        }
    }

    /// The application chooses a path for what it sends from now on.
    fn choose(&mut self, now: Timestamp) {
        let Paths::ByRate(wifi_from) = self.setup.paths else {
            return;
        };
        let rate = self.flows.first().and_then(|flow| flow.rate_at(now));
        let chosen = match rate.is_some_and(|rate| rate >= wifi_from) {
            true => Interface::Wifi,
            false => Interface::Bluetooth,
        };
        if now >= START && chosen != self.by_rate {
            self.by_rate = chosen;
            self.switches += 1;
        }
    }

    fn timers(&mut self, now: Timestamp) {
        self.choose(now);
        if let Some(every) = self.setup.uplink_every
            && self.uplink_at.is_some_and(|at| at <= now)
        {
            self.uplink_at = Some(now + every);
            self.phone.small_packet(now, self.band.as_mut());
        }
        if self.joined_at.is_some_and(|at| at <= now) {
            self.joined_at = None;
            self.phases.joined.get_or_insert(now);
            if let Some(air) = &mut self.air {
                air.join(now, self.flows.len());
            }
        }
        if self.look_at.is_some_and(|at| at <= now) {
            self.look_at = Some(now + LOOK);
            self.look(now);
        }
        if let Some(handover) = &mut self.handover {
            handover.handle_timeout(now);
        }
    }

    /// Observes rates and the signal.
    fn look(&mut self, now: Timestamp) {
        let mut dbm = self.setup.dbm;
        if let Some(walk) = self.setup.walk.filter(|walk| walk.from <= now) {
            dbm = walk.dbm(now);
            self.phone.rfcomm.handle(now, self.band.as_mut());
            self.phone.rfcomm.set_signal(now, dbm);
        }
        if packet_loss(dbm) >= 1.0 && self.phases.silent.is_none() {
            self.phases.silent = Some(now);
            self.connect(Connects::Silent);
        }
        if self.phone.rfcomm.is_lost() && self.phases.lost.is_none() {
            self.phases.lost = Some(now);
            self.connect(Connects::Lost);
        }
        let noise = signal_noise(&mut self.rng);
        if let Some(handover) = &mut self.handover {
            if self.phone.rfcomm.is_lost() {
                handover.handle_bluetooth(now, false);
            } else if self.setup.walk.is_none() || dbm >= -90.0 {
                handover.handle_rssi(now, dbm + noise);
            }
        }
        let sum = |path: Path, stage| -> u64 {
            let carried = self.flows.iter().map(|flow| &flow.carried[path.index()]);
            carried.map(|c| c.passed(stage)).sum()
        };
        let wifi = sum(Path::Wifi, Stage::Arrived);
        let phone = sum(Path::Phone, Stage::Received);
        self.seen.push_back((now, wifi, phone));
        while self.seen.len() > 1 && now.since(self.seen[0].0) > RATE_OVER {
            self.seen.pop_front();
        }
        let (since, wifi_then, phone_then) = self.seen[0];
        let span = now.since(since);
        let seen = Observation {
            buffered_bytes: self.phone.queue.bytes(),
            wifi_rate: BitRate::over(wifi - wifi_then, span),
            demand: BitRate::over(wifi - wifi_then + phone - phone_then, span),
            bluetooth_rate: Some(self.phone.queue.rate()),
        };
        if let Some(selection) = &mut self.selection
            && now >= START
        {
            let changed = selection.observe(now, &seen);
            self.switches = selection.switches();
            if let Some(interface) = changed {
                self.migrate(interface);
            }
        }
    }

    /// Begins the connections over WiFi, if they begin at this event.
    fn connect(&mut self, event: Connects) {
        let wifi = self.setup.wifi.as_ref();
        if wifi.is_some_and(|wifi| wifi.connects == event)
            && let Some(air) = &mut self.air
        {
            air.connect(self.flows.len());
        }
    }

    /// Carries out the actions of the handover; returns whether there were any.
    fn follow(&mut self, now: Timestamp) -> bool {
        let Some(handover) = &mut self.handover else {
            return false;
        };
        let joined = self.air.as_ref().is_some_and(Air::is_established);
        if joined {
            handover.handle_wifi(now, WifiState::Joined);
        }
        let (mut acted, mut left) = (false, false);
        let mut moves = Vec::new();
        while let Some(action) = handover.poll_action() {
            acted = true;
            match action {
                HandoverAction::JoinWifi => {
                    if let Some(wifi) = &self.setup.wifi {
                        let on = now + wifi.on_after;
                        self.phases.on.get_or_insert(on);
                        let rtt = wifi.network.rtt;
                        self.joined_at = Some(on + wifi.join.draw(&mut self.join_rng, rtt));
                    }
                }
                HandoverAction::Use {
                    interface,
                    reinject,
                } => {
                    self.switches += 1;
                    if reinject {
                        moves.push(interface);
                    }
                }
                HandoverAction::LeaveWifi => {
                    left = true;
                    self.joined_at = None;
                    if let Some(air) = &mut self.air {
                        air.leave(now);
                    }
                    handover.handle_wifi(now, WifiState::Off);
                }
                HandoverAction::KeepAlive => {
                    if let Some(air) = &mut self.air {
                        air.keep_alive();
                    }
                }
            }
        }
        for interface in moves {
            self.migrate(interface);
        }
        if left {
            self.forget_wifi();
        }
        acted
    }

    /// The connections on WiFi are gone: new ones begin at their first byte.
    fn forget_wifi(&mut self) {
        for flow in &mut self.flows {
            flow.carried[Path::Wifi.index()] = Carried::default();
        }
        // Rates count from here on.
        self.seen.clear();
    }

    /// Sends all that is in flight on the other interface again on this one.
    fn migrate(&mut self, to: Interface) {
        let (from, to) = match to {
            Interface::Wifi => (Path::Phone, Path::Wifi),
            Interface::Bluetooth => (Path::Wifi, Path::Phone),
        };
        for flow in &mut self.flows {
            flow.reinject(from, to);
        }
    }

    /// Assigns chunks of a flow to paths, and writes them to its connections.
    fn serve(&mut self, now: Timestamp, n: usize) -> bool {
        let mut moved = false;
        loop {
            let ready = Path::ALL.map(|path| {
                let idle = self.flows[n].backlog[path.index()].is_empty();
                idle && self.room(n, path) >= CHUNK_BYTES
            });
            let targets = self.targets(n, ready);
            if targets == [false; 2] {
                break;
            }
            let Some(chunk) = self.flows[n].take(now) else {
                break;
            };
            for (backlog, target) in self.flows[n].backlog.iter_mut().zip(targets) {
                if target {
                    backlog.push_back(chunk);
                }
            }
            moved |= self.write(now, n);
        }
        moved | self.write(now, n)
    }

    /// Which paths get the next chunk of a flow; `ready`: those that could send it at once.
    fn targets(&self, n: usize, ready: [bool; 2]) -> [bool; 2] {
        let only = |path: Path| {
            let mut targets = [false; 2];
            targets[path.index()] = ready[path.index()];
            targets
        };
        let interface = |interface| match interface {
            Interface::Bluetooth => only(Path::Phone),
            Interface::Wifi => only(Path::Wifi),
        };
        match self.setup.paths {
            Paths::Phone => only(Path::Phone),
            Paths::Wifi => only(Path::Wifi),
            Paths::Each if n == 0 => only(Path::Phone),
            Paths::Each => only(Path::Wifi),
            Paths::Selected(_) => {
                let selection = self.selection.as_ref();
                interface(selection.map_or(Interface::Bluetooth, Selection::interface))
            }
            Paths::ByRate(_) => interface(self.by_rate),
            Paths::Handover(_) => {
                let handover = self.handover.as_ref();
                interface(handover.map_or(Interface::Bluetooth, Handover::interface))
            }
            // The slower path gets its copy when it can send it.
            Paths::Redundant => match ready {
                [false, false] => ready,
                _ => [true; 2],
            },
            Paths::MinRtt => match ready {
                [true, true] => {
                    let rtts = Path::ALL.map(|path| self.rtt(n, path));
                    only(match rtts[0] <= rtts[1] {
                        true => Path::Phone,
                        false => Path::Wifi,
                    })
                }
                one => one,
            },
        }
    }

    fn room(&self, n: usize, path: Path) -> u64 {
        match (path, &self.air) {
            (Path::Phone, _) => self.phone.channels[n].socket(tcp::End::A).room() as u64,
            (Path::Wifi, Some(air)) => air.server(n).map_or(0, |s| s.room() as u64),
            (Path::Wifi, None) => 0,
        }
    }

    fn rtt(&self, n: usize, path: Path) -> Option<Duration> {
        match (path, &self.air) {
            (Path::Phone, _) => self.phone.channels[n].info(tcp::End::A).srtt,
            (Path::Wifi, Some(air)) => air.server(n).and_then(|s| s.info().srtt),
            (Path::Wifi, None) => None,
        }
    }

    /// Writes assigned chunks to the connections.
    fn write(&mut self, now: Timestamp, n: usize) -> bool {
        let mut moved = false;
        for path in Path::ALL {
            while let Some(chunk) = self.flows[n].backlog[path.index()].front().copied() {
                let bytes = self.flows[n].chunks[chunk].bytes;
                if self.room(n, path) < bytes {
                    break;
                }
                moved = true;
                let data = vec![0; usize::try_from(bytes).unwrap_or(0)];
                match path {
                    Path::Phone => {
                        self.phone.channels[n].write(now, tcp::End::A, &data);
                    }
                    Path::Wifi => {
                        if let Some((server, _)) = self.air.as_mut().and_then(|a| a.sockets(n)) {
                            server.write(&data);
                        }
                    }
                }
                let flow = &mut self.flows[n];
                flow.backlog[path.index()].pop_front();
                flow.carried[path.index()].assign(chunk, bytes);
            }
        }
        moved
    }

    fn wifi(&mut self, now: Timestamp) -> bool {
        let Some(air) = &mut self.air else {
            return false;
        };
        let mut moved = air.handle(now, self.band.as_mut());
        let mut arrived = Vec::new();
        for n in 0..self.flows.len() {
            let Some((server, watch)) = air.sockets(n) else {
                continue;
            };
            let info = server.info();
            let sent = info.bytes_sent - info.bytes_retransmitted;
            self.flows[n].carried[Path::Wifi.index()].pass(now, Stage::Sent, sent);
            while let Some(bytes) = watch.read(usize::MAX) {
                arrived.push((n, bytes.len() as u64));
            }
        }
        // Window updates.
        moved |= air.handle(now, self.band.as_mut());
        for (flow, bytes) in arrived {
            moved = true;
            self.phases.resumed.get_or_insert(now);
            if let Some(handover) = &mut self.handover {
                handover.handle_wifi_used(now);
            }
            self.arrive(now, Path::Wifi, flow, bytes);
        }
        moved
    }

    fn arrive(&mut self, now: Timestamp, path: Path, n: usize, bytes: u64) {
        let flow = &mut self.flows[n];
        let carried = &mut flow.carried[path.index()];
        let total = carried.passed(Stage::Arrived) + bytes;
        for piece in carried.pass(now, Stage::Arrived, total) {
            let chunk = &mut flow.chunks[piece.chunk];
            if chunk.arrived.is_some() {
                continue;
            }
            chunk.arrived = Some(now);
            let sent = piece.at(Stage::Sent);
            debug_assert!(sent.is_some(), "chunk {} arrived unsent", piece.chunk);
            let sent = sent.unwrap_or(chunk.due);
            let delivery = Delivery {
                flow: n,
                bytes: chunk.bytes,
                due: chunk.due,
                path,
                arrived: now,
                delivered: now,
                delay: now.since(sent),
                parts: piece.parts(),
            };
            self.deliveries.push((piece.chunk, delivery));
        }
        while flow
            .chunks
            .get(flow.frontier)
            .is_some_and(|chunk| chunk.arrived.is_some())
        {
            flow.frontier += 1;
        }
    }

    fn finish(self, end: Timestamp) -> Outcome {
        let undelivered = self.flows.iter().map(|f| f.chunks.len() - f.frontier);
        let undelivered = undelivered.sum();
        let keeper_packets = self.phone.keeper_packets();
        let base_watts = self.setup.radios.watch_base_mw / 1_000.0;
        let joules = Joules {
            watch_wifi: self.air.map_or(0.0, |air| air.finish(end)),
            watch_base: base_watts * end.since(Timestamp::ZERO).as_secs_f64(),
            ..self.phone.finish(end)
        };
        Outcome {
            start: START,
            end,
            deliveries: in_order(self.deliveries, &self.flows),
            undelivered,
            requests: self.requests,
            keeper_packets,
            switches: self.switches,
            phases: self.phases.lengths(),
            joules,
        }
    }
}

/// Deliveries by flow and chunk, as far as nothing before them is missing.
fn in_order(mut all: Vec<(usize, Delivery)>, flows: &[Flow]) -> Vec<Delivery> {
    all.sort_by_key(|(chunk, d)| (d.flow, *chunk));
    all.retain(|(chunk, d)| *chunk < flows[d.flow].frontier);
    let mut last = (0, Timestamp::ZERO);
    let in_order = all.into_iter().map(|(_, mut d)| {
        let before = if d.flow == last.0 {
            last.1
        } else {
            Timestamp::ZERO
        };
        d.delivered = d.arrived.max(before);
        last = (d.flow, d.delivered);
        d
    });
    in_order.collect()
}
