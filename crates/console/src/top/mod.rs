//! `mpbond top`.

mod draw;
mod format;
mod screen;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use mpbond_command::{Failure, print};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};

use crate::client::{Client, DaemonArgs};
use crate::model::Model;
use crate::status::Status;
use screen::Screen;

/// Time between two questions to the daemon.
const EVERY: Duration = Duration::from_secs(1);

/// Time within which keys, answers and signals are noticed.
const NOTICE: Duration = Duration::from_millis(100);

/// Show the traffic of a running daemon in the terminal, once a second.
///
/// Keys: q, Escape or Ctrl-C ends it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpbond top                        until q is pressed
  mpbond top --role helper          where several daemons run
  mpbond top --once                 one frame as plain text, after a second
  mpbond top --once --json          the same as JSON; docs/console.md explains every field")]
pub(crate) struct TopArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Print one frame as plain text, and end.
    #[arg(long)]
    once: bool,
    /// Print JSON, for programs. Sizes are in bytes, rates in bytes per second.
    #[arg(long, requires = "once")]
    json: bool,
}

impl TopArgs {
    pub fn run(self) -> Result<ExitCode, Failure> {
        let (client, first) = self.daemon.find()?;
        let mut model = Model::default();
        let start = Instant::now();
        model.take(0.0, first);
        if self.once {
            return self.once(&client, model, start);
        }
        let ends = signals()?;
        let answers = ask_always(client);
        let mut screen = Screen::open()?;
        while !ends.load(Ordering::Relaxed) {
            let t = start.elapsed().as_secs_f64();
            let lines = screen.show(&model, t);
            lines.map_err(|e| Failure::run(format_args!("cannot write to the terminal: {e}")))?;
            if !wait(&ends, &answers, &mut model, start)? {
                break;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Two answers are needed: rates are their difference.
    fn once(&self, client: &Client, mut model: Model, start: Instant) -> Result<ExitCode, Failure> {
        // A daemon gives other users than its own the same answer for a second.
        thread::sleep(EVERY + NOTICE);
        let status = client.ask().map_err(Failure::run)?;
        let t = start.elapsed().as_secs_f64();
        let added = model.take(t, status);
        if self.json {
            let text = serde_json::to_string(added.frame).map_err(Failure::run)?;
            print(&format!("{text}\n"))?;
        } else {
            print(&draw::as_text(&model, t))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A flag that a signal to end sets.
fn signals() -> Result<Arc<AtomicBool>, Failure> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    let ends = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&ends)).map_err(Failure::run)?;
    }
    Ok(ends)
}

/// Asks once a second, in a thread: keys are read while a daemon does not answer.
fn ask_always(client: Client) -> Receiver<Result<Status, String>> {
    let (to, from) = sync_channel(1);
    thread::spawn(move || {
        loop {
            thread::sleep(EVERY);
            if to.send(client.ask()).is_err() {
                return;
            }
        }
    });
    from
}

/// Waits until there is something to draw. False: end the program.
fn wait(
    ends: &AtomicBool,
    answers: &Receiver<Result<Status, String>>,
    model: &mut Model,
    start: Instant,
) -> Result<bool, Failure> {
    while !ends.load(Ordering::Relaxed) {
        let t = start.elapsed().as_secs_f64();
        match answers.try_recv() {
            Ok(Ok(status)) => {
                model.take(t, status);
                return Ok(true);
            }
            Ok(Err(why)) => {
                model.fail(t, &why);
                return Ok(true);
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => {
                return Err(Failure::run("the thread that asks the daemon has ended"));
            }
        }
        let has_event = match event::poll(NOTICE) {
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            result => result.map_err(Failure::run)?,
        };
        if has_event {
            match event::read().map_err(Failure::run)? {
                Event::Key(key) if key.kind == KeyEventKind::Press => match key.code {
                    KeyCode::Char('q') | KeyCode::Esc => return Ok(false),
                    KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                        return Ok(false);
                    }
                    _ => {}
                },
                Event::Resize(..) => return Ok(true),
                _ => {}
            }
        }
    }
    Ok(false)
}
