//! Writes the seed corpora: `seeds DIRECTORY` creates one directory per target in it. `seeds
//! --list` prints the targets and their maximum input lengths.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1) else {
        eprintln!("seeds: usage: seeds DIRECTORY | --list");
        return ExitCode::from(2);
    };
    if folder == "--list" {
        for target in mpbond_fuzz::TARGETS {
            println!("{} {}", target.name, target.most_octets);
        }
        return ExitCode::SUCCESS;
    }
    match write(Path::new(&folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("seeds: {}: {e}", Path::new(&folder).display());
            ExitCode::FAILURE
        }
    }
}

fn write(folder: &Path) -> std::io::Result<()> {
    for (target, name, octets) in mpbond_fuzz::seeds::all() {
        let folder = folder.join(target);
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(name), octets)?;
    }
    Ok(())
}
