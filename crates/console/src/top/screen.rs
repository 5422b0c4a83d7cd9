//! The terminal: the alternative screen without echo, and its restoration however the program ends.

use std::io::{self, IsTerminal as _};

use mpbond_command::Failure;
use ratatui::DefaultTerminal;

use super::draw;
use crate::model::Model;

/// The terminal while frames are shown; restored when dropped, and when a thread panics.
#[derive(Debug)]
pub(super) struct Screen(DefaultTerminal);

impl Screen {
    /// # Errors
    /// Standard output is no terminal.
    pub fn open() -> Result<Self, Failure> {
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            return Err(Failure::input(
                "standard input and output are no terminal: --once prints one frame",
            ));
        }
        // A panic restores the terminal, too: this sets a hook for it.
        ratatui::try_init()
            .map(Self)
            .map_err(|e| Failure::run(format_args!("the terminal cannot be used: {e}")))
    }

    /// Draws a frame.
    ///
    /// # Errors
    /// The terminal takes no more.
    pub fn show(&mut self, model: &Model, t: f64) -> io::Result<()> {
        self.0
            .draw(|frame| draw::draw(frame.area(), frame.buffer_mut(), model, t))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // It fails where the terminal is closed.
        let _ = ratatui::try_restore();
    }
}
