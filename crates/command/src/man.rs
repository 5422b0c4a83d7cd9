//! Manual pages.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command};

use crate::man_page::{name, page};
use crate::{Failure, FilePage};

/// Write the manual pages, one for each subcommand and configuration file, for packagers.
///
/// They are written to the subfolders man1 (commands) and man5 (files).
#[derive(Debug, Args)]
pub struct ManArgs {
    /// The folder of manual pages, such as /usr/local/share/man; made when absent.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

impl ManArgs {
    /// Writes a page for `program` and for each of its subcommands, named after the command's
    /// display name (`man1/mpbond-trace-query.1`), and one for each of `files`
    /// (`man5/mpbond-proxy.toml.5`). No page is written for commands in `left_out`.
    ///
    /// # Errors
    /// When the folder cannot be made or written to.
    pub fn run(
        self,
        program: Command,
        left_out: &[&str],
        files: &[FilePage],
    ) -> Result<ExitCode, Failure> {
        let mut program = program.disable_help_subcommand(true);
        program.build();
        write_commands(&program, &self.folder.join("man1"), left_out)
            .and_then(|()| write_files(&program, &self.folder.join("man5"), files))
            .map_err(|e| {
                Failure::run(format_args!(
                    "cannot write to {}: {e}",
                    self.folder.display()
                ))
            })?;
        Ok(ExitCode::SUCCESS)
    }
}

fn write_commands(command: &Command, folder: &Path, left_out: &[&str]) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let name = name(command);
    if !left_out.contains(&name) {
        std::fs::write(folder.join(format!("{name}.1")), page(command)?)?;
    }
    let shown = command.get_subcommands().filter(|c| !c.is_hide_set());
    shown
        .into_iter()
        .try_for_each(|c| write_commands(c, folder, left_out))
}

fn write_files(program: &Command, folder: &Path, files: &[FilePage]) -> std::io::Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    std::fs::create_dir_all(folder)?;
    let version = program.get_version().unwrap_or_default();
    files.iter().try_for_each(|file| {
        std::fs::write(folder.join(format!("{}.5", file.name)), file.page(version))
    })
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
            folder: folder.path().join("man"),
        };
        let file = FilePage {
            name: "prog.toml",
            about: "configuration of prog",
            text: &[],
            sections: &[],
            remark: |_, _| "",
            example: "",
            see_also: &[],
        };
        args.run(program, &["prog", "prog-man"], &[file]).unwrap();
        let pages = |section: &str| {
            let pages = std::fs::read_dir(folder.path().join("man").join(section)).unwrap();
            let mut pages: Vec<_> = pages.map(|p| p.unwrap().file_name()).collect();
            pages.sort();
            pages
        };
        assert_eq!(pages("man1"), ["prog-lab-run.1", "prog-lab.1"]);
        assert_eq!(pages("man5"), ["prog.toml.5"]);
    }
}
