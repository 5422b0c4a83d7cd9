//! A person at terminals of machines, who types what the document says.

use std::thread;
use std::time::{Duration, Instant};

use crate::machine::Machine;
use crate::terminal::Terminal;

/// Time limit of a command, with the time that a person takes.
const WITHIN: Duration = Duration::from_secs(300);

/// Environment variable: `person` has questions read and answers typed as slowly as people do.
const PACE: &str = "MPBOND_TEST_PACE";
/// Time in which a person reads a question and finds the answer.
const READING: Duration = Duration::from_secs(4);
/// Time in which a person types a character; a longer text than [`PASTED`] is pasted.
const TYPING: Duration = Duration::from_millis(200);
const PASTED: usize = 24;

/// Types a command at a terminal of a machine.
pub fn type_at(machine: &Machine, command: &str) -> Terminal {
    println!("{}$ {command}", machine.name);
    type_slowly(command);
    let enter = format!(
        "exec nsenter --target {} --mount --net --uts --pid --root --wdns=/root \
         env -i HOME=/root TERM=xterm LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
         PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
         sh -c \"$TYPED\"",
        machine.process
    );
    Terminal::open(&enter, &[("TYPED", command)])
}

fn type_slowly(text: &str) {
    if std::env::var(PACE).is_ok_and(|pace| pace == "person") {
        let keys = if text.len() > PASTED { 1 } else { text.len() };
        thread::sleep(READING + TYPING * u32::try_from(keys).unwrap());
    }
}

/// Answers the questions of commands until all have ended well.
pub fn answer(
    terminals: &mut [(&mut Terminal, Vec<String>)],
    fill: impl Fn(&str, &[String]) -> String,
) {
    answer_until(terminals, fill, |_| false);
}

/// Answers the questions of commands by lines of the document, until all have ended well, or their
/// screens are as wanted. `fill` puts in what other devices have shown.
pub fn answer_until(
    terminals: &mut [(&mut Terminal, Vec<String>)],
    fill: impl Fn(&str, &[String]) -> String,
    is_enough: impl Fn(&[String]) -> bool,
) {
    let deadline = Instant::now() + WITHIN;
    loop {
        let screens: Vec<String> = terminals.iter().map(|(t, _)| t.screen()).collect();
        let mut all_ended = true;
        for (terminal, dialogue) in &mut *terminals {
            if let Some(code) = terminal.ended() {
                assert_eq!(code, 0, "{}", terminal.screen());
                continue;
            }
            all_ended = false;
            let Some(question) = terminal.question() else {
                continue;
            };
            let answers = dialogue.iter();
            let answer = answers
                .filter_map(|line| line.strip_prefix(&*question))
                .next();
            // No question at all, if it is the beginning of a line that is read in parts, such as a
            // notice of apt. One that the document does not answer ends at the deadline.
            let Some(answer) = answer else {
                continue;
            };
            let text = fill(answer.trim(), &screens);
            println!("{question} {text}");
            type_slowly(&text);
            terminal.type_in(&format!("{text}\n"));
        }
        if all_ended || is_enough(&screens) {
            return;
        }
        assert!(Instant::now() < deadline, "no end: {screens:#?}");
        thread::sleep(Duration::from_millis(20));
    }
}
