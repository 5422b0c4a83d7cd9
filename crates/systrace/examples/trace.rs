//! Prints one analysis of a trace: `trace summary|usage|tlp|functions|idle|perf|tables|report
//! FILE`.
use std::error::Error;
use std::path::Path;

use mpbond_systrace::{
    ClassRules, CpuUsage, DEFAULT_CALL_OVERHEAD, FunctionGroups, FunctionProfile, IdleReport,
    IdleRules, Microarch, ProcessParallelism, Report, ReportOptions, Summary, Trace, TraceBuilder,
    open, read,
};
use serde::Serialize;

fn show(value: &impl Serialize) -> Result<(), Box<dyn Error>> {
    println!("{}", serde_json::to_string_pretty(value)?);
    Ok(())
}

fn load(path: &Path) -> Result<Trace, Box<dyn Error>> {
    let mut builder = TraceBuilder::default();
    read(open(path)?, &mut builder)?;
    Ok(builder.finish())
}

fn run(command: &str, path: &Path) -> Result<(), Box<dyn Error>> {
    match command {
        "summary" => show(&Summary::of(open(path)?)?),
        "usage" => {
            let t = load(path)?;
            show(&CpuUsage::of(&t, &t.runs(), &ClassRules::shipped()))
        }
        "tlp" => {
            let t = load(path)?;
            show(&ProcessParallelism::of(&t, &t.runs()))
        }
        "idle" => {
            let t = load(path)?;
            let mut report = IdleReport::of(&t, &t.runs(), &IdleRules::shipped());
            if let Some(r) = &mut report {
                r.details.truncate(20);
            }
            show(&report)
        }
        "tables" => {
            let report = Report::of(open(path)?, &ReportOptions::default())?;
            for line in report.findings() {
                println!("* {line}");
            }
            for table in report.tables() {
                print!("\n{}", table.text(12));
            }
            Ok(())
        }
        "report" => {
            let report = Report::of(open(path)?, &ReportOptions::default())?;
            print!("{}", report.html(&path.display().to_string()));
            Ok(())
        }
        "functions" => {
            let mut p = FunctionProfile::new(DEFAULT_CALL_OVERHEAD, FunctionGroups::shipped());
            read(open(path)?, &mut p)?;
            p.finish();
            show(&(
                p.functions().iter().take(20).collect::<Vec<_>>(),
                p.services(),
                p.packages(),
            ))
        }
        "perf" => {
            let mut m = Microarch::default();
            read(open(path)?, &mut m)?;
            show(&m.by_process())
        }
        other => Err(format!("no command \"{other}\"").into()),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    #[cfg(feature = "sqlite")]
    if let [command, file, sql] = args.as_slice()
        && command == "query"
    {
        let options = ReportOptions::default();
        let report = Report::of(open(Path::new(file))?, &options)?;
        let database = mpbond_systrace::Database::of(&report, &options.classes)?;
        return show(&database.query(sql)?);
    }
    let [command, file] = args.as_slice() else {
        return Err("usage: trace summary|usage|tlp|functions|idle|perf|tables|report FILE".into());
    };
    run(command, Path::new(file)).map_err(|e| format!("{file}: {e}").into())
}
