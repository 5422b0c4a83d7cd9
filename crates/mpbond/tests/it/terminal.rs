//! A terminal in which a program runs, and its keyboard.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Whatever is waited for has come by then, or never will.
const WITHIN: Duration = Duration::from_secs(120);

/// A terminal in which a command runs; it is closed when dropped.
pub struct Terminal {
    child: Child,
    keyboard: ChildStdin,
    screen: Arc<Mutex<String>>,
    /// Reads what it shows, until the end.
    reader: JoinHandle<()>,
    /// Length of the screen's text when something was typed last.
    typed: usize,
}

impl Terminal {
    /// Opens one for a line of shell, with these variables.
    pub fn open(line: &str, variables: &[(&str, &str)]) -> Self {
        let mut child = Command::new("script")
            .args(["--quiet", "--return", "--flush", "--command", line])
            .arg("/dev/null")
            .env("SHELL", "/bin/sh")
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let keyboard = child.stdin.take().unwrap();
        let mut output = child.stdout.take().unwrap();
        let screen = Arc::new(Mutex::new(String::new()));
        let shown = Arc::clone(&screen);
        let reader = thread::spawn(move || {
            let mut block = [0; 4096];
            let mut bytes = Vec::new();
            while let Ok(octets @ 1..) = output.read(&mut block) {
                bytes.extend_from_slice(&block[..octets]);
                *shown.lock().unwrap() = String::from_utf8_lossy(&bytes).replace('\r', "");
            }
        });
        Self {
            child,
            keyboard,
            screen,
            reader,
            typed: 0,
        }
    }

    /// Text that it has shown.
    pub fn screen(&self) -> String {
        self.screen.lock().unwrap().clone()
    }

    /// The question that waits for an answer: the end of the screen, without a line break.
    pub fn question(&self) -> Option<String> {
        let screen = self.screen();
        let last = screen.rsplit('\n').next().unwrap_or_default();
        let is_question = last.ends_with(": ") || last.ends_with("] ");
        (is_question && screen.len() > self.typed).then(|| last.trim_end().to_owned())
    }

    /// Types something.
    pub fn type_in(&mut self, text: &str) {
        self.typed = self.screen().len();
        self.keyboard.write_all(text.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// Types Ctrl-C.
    pub fn interrupt(&mut self) {
        self.type_in("\u{3}");
    }

    /// The exit code, if the command has ended and all that it has written is on the screen.
    pub fn ended(&mut self) -> Option<i32> {
        let status = self.child.try_wait().unwrap()?;
        let code = status.code().unwrap_or(-1);
        self.reader.is_finished().then_some(code)
    }

    /// Waits for the end; returns the exit code.
    pub fn ends(&mut self) -> i32 {
        let deadline = Instant::now() + WITHIN;
        loop {
            if let Some(code) = self.ended() {
                return code;
            }
            assert!(Instant::now() < deadline, "no end:\n{}", self.screen());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for words on the screen, while the command runs.
    pub fn shows(&mut self, words: &str) {
        let deadline = Instant::now() + WITHIN;
        while !self.screen().contains(words) {
            let is_over = self.ended().is_some() || Instant::now() > deadline;
            assert!(!is_over, "no \"{words}\" in\n{}", self.screen());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
