//! Manual pages.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command};

use crate::Failure;
use crate::man_page::{name, page};

/// Write the manual pages, one for each subcommand, for packagers.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// The folder to write them to; made when absent.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

impl ManArgs {
    /// Writes a page for `program` and for each of its subcommands, named after the command's
    /// display name (`mpbond-trace-query.1`). No page is written for the names in `left_out`.
    ///
    /// # Errors
    /// When the folder cannot be made or written to.
    pub fn run(self, program: Command, left_out: &[&str]) -> Result<ExitCode, Failure> {
        let mut program = program.disable_help_subcommand(true);
        program.build();
        let made = std::fs::create_dir_all(&self.folder);
        made.and_then(|()| write(&program, &self.folder, left_out))
            .map_err(|e| {
                Failure::run(format_args!(
                    "cannot write to {}: {e}",
                    self.folder.display()
                ))
            })?;
        Ok(ExitCode::SUCCESS)
    }
}

fn write(command: &Command, folder: &Path, left_out: &[&str]) -> std::io::Result<()> {
    let name = name(command);
    if !left_out.contains(&name) {
        std::fs::write(folder.join(format!("{name}.1")), page(command)?)?;
    }
    let shown = command.get_subcommands().filter(|c| !c.is_hide_set());
    shown
        .into_iter()
        .try_for_each(|c| write(c, folder, left_out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_named_as_people_type_and_some_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let run = Command::new("run").about("Run it");
        let program = Command::new("prog")
            .subcommand(Command::new("lab").subcommand(run))
            .subcommand(Command::new("man"))
            .subcommand(Command::new("secret").hide(true));
        let args = ManArgs {
            folder: folder.path().join("man1"),
        };
        args.run(program, &["prog", "prog-man"]).unwrap();
        let pages = std::fs::read_dir(folder.path().join("man1")).unwrap();
        let mut pages: Vec<_> = pages.map(|p| p.unwrap().file_name()).collect();
        pages.sort();
        assert_eq!(pages, ["prog-lab-run.1", "prog-lab.1"]);
    }
}
