//! Runs the analyses on a file: `trace summary FILE`.
use std::error::Error;
use std::path::Path;

use mpbond_systrace::{Summary, open};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [command, file] = args.as_slice() else {
        return Err("usage: trace summary FILE".into());
    };
    let path = Path::new(file);
    match command.as_str() {
        "summary" => {
            let summary = Summary::of(open(path)?).map_err(|e| format!("{file}: {e}"))?;
            println!("{}", serde_json::to_string_pretty(&summary)?);
        }
        other => return Err(format!("no command \"{other}\"").into()),
    }
    Ok(())
}
