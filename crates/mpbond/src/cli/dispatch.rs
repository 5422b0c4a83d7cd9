//! Subcommands of `mpbond-lab`: `mpbond` runs that program for them, as git does.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use mpbond_command::Failure;

const PROGRAM: &str = "mpbond-lab";

/// The subcommands, with their lines in `mpbond --help`.
pub(crate) const SUBCOMMANDS: [(&str, &str); 9] = [
    (
        "lab",
        "Run experiments: hosts, links and daemons on this one machine",
    ),
    ("link", "Run a program behind an emulated link"),
    (
        "probe",
        "Measure the delay to a host, and what this host adds to it",
    ),
    ("probe-server", "Answer the datagrams of `mpbond probe`"),
    (
        "traffic",
        "Send traffic through a network, and see throughput, delay and blackouts",
    ),
    (
        "capture",
        "Analyse captures: Bluetooth logs, sniffers' captures, delays",
    ),
    ("trace", "Analyse system traces: where a device's time goes"),
    (
        "energy",
        "Account the energy of captures, packet logs and processor logs",
    ),
    ("cpulog", "Log the processor's frequency and utilisation"),
];

/// The subcommand of `mpbond-lab` in these arguments, if any. Options that both programs have, and
/// `help`, may precede it.
pub(crate) fn called(args: impl IntoIterator<Item = OsString>) -> Option<&'static str> {
    let mut args = args.into_iter().skip(1);
    loop {
        let arg = args.next()?;
        match arg.to_str()? {
            "--log" => {
                args.next();
            }
            "--log-json" | "help" => {}
            option if option.starts_with("--log=") => {}
            name => {
                let mut names = SUBCOMMANDS.iter().map(|(known, _)| *known);
                return names.find(|known| *known == name);
            }
        }
    }
}

/// Lines for the completion script of bash: arguments of the subcommands are completed by the
/// script of `mpbond-lab`, if that is installed.
pub(crate) fn bash_completion() -> String {
    let names = SUBCOMMANDS.map(|(name, _)| name).join("|");
    format!(
        "
# Arguments of these subcommands are completed by the script of mpbond-lab.
_mpbond_or_lab() {{
    case \"${{COMP_WORDS[1]}}\" in
        {names})
            if [[ ${{COMP_CWORD}} -gt 1 ]]; then
                if ! declare -F _mpbond_lab >/dev/null && command -v mpbond-lab >/dev/null; then
                    eval \"$(mpbond-lab completions bash)\"
                fi
                if declare -F _mpbond_lab >/dev/null; then
                    _mpbond_lab \"$@\"
                    return
                fi
            fi
            ;;
    esac
    _mpbond \"$@\"
}}
complete -F _mpbond_or_lab -o bashdefault -o default mpbond
"
    )
}

/// Replaces this process by `mpbond-lab` with the same arguments: the one beside this program, else
/// the one in PATH. Returns only on failure.
pub(crate) fn run(subcommand: &str) -> Result<Infallible, Failure> {
    let args: Vec<OsString> = std::env::args_os().collect();
    let folder = std::env::current_exe()
        .ok()
        .and_then(|own| own.parent().map(PathBuf::from));
    let beside = folder.as_ref().map(|folder| folder.join(PROGRAM));
    let programs = beside.into_iter().chain([PathBuf::from(PROGRAM)]);
    for program in programs {
        let mut command = Command::new(&program);
        // Its usage lines and errors begin as people typed it.
        if let [called, rest @ ..] = &args[..] {
            command.arg0(called).args(rest);
        }
        let error = command.exec();
        if error.kind() != ErrorKind::NotFound {
            return Err(Failure::run(format_args!(
                "cannot run {}: {error}",
                program.display()
            )));
        }
    }
    let folder = folder.map_or_else(String::new, |f| format!("in {} nor ", f.display()));
    Err(Failure::input(format_args!(
        "`mpbond {subcommand}` is part of mpbond-lab, which is neither {folder}in PATH: build it with \
         `make release` and install it with `make install`"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subcommands_are_found_behind_common_options() {
        let called = |text: &str| called(text.split(' ').map(OsString::from));
        for text in [
            "mpbond lab run x.toml",
            "mpbond --log debug lab",
            "mpbond --log-json --log=info lab list",
            "mpbond help lab",
        ] {
            assert_eq!(called(text), Some("lab"), "{text}");
        }
        for text in [
            "mpbond",
            "mpbond primary",
            "mpbond --help lab",
            "mpbond --log lab",
            "mpbond trust --name lab",
            "mpbond labs",
        ] {
            assert_eq!(called(text), None, "{text}");
        }
    }
}
