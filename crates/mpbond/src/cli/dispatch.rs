//! Subcommands of `mpbond-console`, `mpbond-bluetooth` and `mpbond-lab`: `mpbond` runs these
//! programs for them, as git does.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use mpbond_command::Failure;

/// The subcommands, with their lines in `mpbond --help`.
pub(crate) const SUBCOMMANDS: [(&str, &str); 12] = [
    ("console", "Show the traffic of a daemon in a browser"),
    ("top", "Show the traffic of a daemon in the terminal"),
    ("bluetooth", "Carry pipes over Bluetooth"),
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

/// The program of a subcommand.
fn program_of(subcommand: &str) -> &'static str {
    match subcommand {
        "console" | "top" => "mpbond-console",
        "bluetooth" => "mpbond-bluetooth",
        _ => "mpbond-lab",
    }
}

/// The subcommand of another program in these arguments, if any. Options that all programs have,
/// and `help`, may precede it.
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
/// script of their program, if that is installed.
pub(crate) fn bash_completion() -> String {
    let names_of = |program| {
        let names = SUBCOMMANDS.iter().map(|(name, _)| *name);
        let names = names.filter(|name| program_of(name) == program);
        names.collect::<Vec<_>>().join("|")
    };
    let [console, bluetooth, lab] =
        ["mpbond-console", "mpbond-bluetooth", "mpbond-lab"].map(names_of);
    format!(
        "
# Arguments of these subcommands are completed by the script of their program.
_mpbond_or_other() {{
    local program=
    case \"${{COMP_WORDS[1]}}\" in
        {console}) program=mpbond-console ;;
        {bluetooth}) program=mpbond-bluetooth ;;
        {lab}) program=mpbond-lab ;;
    esac
    if [[ -n $program && ${{COMP_CWORD}} -gt 1 ]]; then
        local completer=_${{program/-/_}}
        if ! declare -F $completer >/dev/null && command -v $program >/dev/null; then
            eval \"$($program completions bash)\"
        fi
        if declare -F $completer >/dev/null; then
            $completer \"$@\"
            return
        fi
    fi
    _mpbond \"$@\"
}}
complete -F _mpbond_or_other -o bashdefault -o default mpbond
"
    )
}

fn own_folder() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    own.parent().map(PathBuf::from)
}

/// The program of a subcommand, in the order in which it is looked for: beside this program, then
/// in PATH.
pub(crate) fn programs(subcommand: &str) -> impl Iterator<Item = PathBuf> {
    let name = program_of(subcommand);
    let beside = own_folder().map(|folder| folder.join(name));
    beside.into_iter().chain([PathBuf::from(name)])
}

/// Replaces this process by the subcommand's program with the same arguments: the one beside this
/// program, else the one in PATH. Returns only on failure.
pub(crate) fn run(subcommand: &str) -> Result<Infallible, Failure> {
    let args: Vec<OsString> = std::env::args_os().collect();
    for program in programs(subcommand) {
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
    let name = program_of(subcommand);
    let folder = own_folder().map_or_else(String::new, |f| format!("in {} nor ", f.display()));
    Err(Failure::input(format_args!(
        "`mpbond {subcommand}` is part of {name}, which is neither {folder}in PATH: build it with \
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
        assert_eq!(called("mpbond top --once"), Some("top"));
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
