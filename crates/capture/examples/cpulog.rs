//! Logs the processor: `cpulog OUT SECONDS INTERVAL_MS [TRANSFERRING PROCESS…]`.
//!
//! Prints its own share of the processor at the end.

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mpbond_capture::CPU_LOG_HEADER;
use mpbond_capture::cpu_sampling::{CpuSampler, Parts, Process, parse_process, parse_stat};

fn read(path: &str, into: &mut String) -> bool {
    into.clear();
    File::open(path).is_ok_and(|mut file| file.read_to_string(into).is_ok())
}

/// Processes of the moment; one that ends while it is read is left out.
fn processes(buffer: &mut String, found: &mut Vec<Process>) -> std::io::Result<()> {
    found.clear();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().filter(|n| n.parse::<u32>().is_ok()) else {
            continue;
        };
        if read(&format!("/proc/{pid}/stat"), buffer) {
            found.extend(parse_process(buffer));
        }
    }
    Ok(())
}

fn mhz(core: u16) -> Option<f64> {
    let path = format!("/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq");
    let khz: f64 = fs::read_to_string(path).ok()?.trim().parse().ok()?;
    Some(khz / 1e3)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [out, seconds, interval, transfer @ ..] = arguments.as_slice() else {
        return Err("usage: cpulog OUT SECONDS INTERVAL_MS [TRANSFERRING PROCESS…]".into());
    };
    let seconds = Duration::from_secs_f64(seconds.parse()?);
    let interval = Duration::from_millis(interval.parse::<u64>()?.max(10));
    let mut sampler = CpuSampler::new(Parts {
        transfer: transfer.to_vec(),
        driver: Parts::common_drivers(),
        logger: vec!["tcpdump".to_owned()],
        own_pid: std::process::id(),
    });
    if mhz(0).is_none() {
        eprintln!("no cpufreq on this system: frequencies stay empty and count as the highest");
    }
    let mut file = BufWriter::new(File::create(out)?);
    writeln!(file, "{CPU_LOG_HEADER}")?;
    let (mut buffer, mut stat, mut lines) = (String::new(), String::new(), String::new());
    let mut found = Vec::new();
    let start = Instant::now();
    let mut due = start;
    while start.elapsed() <= seconds {
        if !read("/proc/stat", &mut stat) {
            return Err("/proc/stat cannot be read".into());
        }
        processes(&mut buffer, &mut found)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
        lines.clear();
        sampler.sample(now, &parse_stat(&stat), mhz, &found, &mut lines);
        file.write_all(lines.as_bytes())?;
        due += interval;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    file.flush()?;
    if read("/proc/self/schedstat", &mut buffer)
        && let Some(ns) = buffer.split(' ').next().and_then(|n| n.parse::<f64>().ok())
    {
        let share = ns / 1e9 / start.elapsed().as_secs_f64() * 100.0;
        println!(
            "own share of one core: {share:.2} % with {} processes",
            found.len()
        );
    }
    Ok(())
}
