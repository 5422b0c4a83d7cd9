//! The terminal: the alternative screen without echo, and its restoration however the program ends.

use std::io::{self, IsTerminal as _};

use mpbond_command::Failure;
use ratatui::DefaultTerminal;

use super::draw;
use crate::model::Model;

/// The terminal while the picture is shown; restored when dropped, and when a thread panics.
#[derive(Debug)]
pub(super) struct Screen(DefaultTerminal);

impl Screen {
    /// # Errors
    /// Standard output is no terminal.
    pub fn open() -> Result<Self, Failure> {
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            return Err(Failure::input(
                "standard input and output are no terminal: --once prints one picture",
            ));
        }
        // It also has panics restore the terminal.
        ratatui::try_init()
            .map(Self)
            .map_err(|e| Failure::run(format_args!("the terminal cannot be used: {e}")))
    }

    /// Draws the picture.
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
        // Where the terminal has gone, there is nothing to restore.
        let _ = ratatui::try_restore();
    }
}
