//! The programs that probe: `mpbond probe`, and a Java program with its runtime's own classes.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::super::tap::Method;
use super::case::{Case, Program};

const JAVA: &str = include_str!("../Probe.java");
/// Port of the server.
pub(super) const HTTP_PORT: u16 = 80;
/// Echo, the port of the paper's Inet ping, on which nothing listens.
const CLOSED_PORT: u16 = 7;
/// Address of host 2 of the chain.
const HOST: &str = "100.64.78.3";

/// A probe as its program measured it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Answer {
    /// d_u, µs.
    pub(super) d_u_us: f64,
    /// t_u outgoing and incoming, in ns since the Unix epoch, if the program's clock gives it.
    pub(super) unix_ns: Option<(u64, u64)>,
    /// Δd_u by the kernel's timestamps, in µs, if the program asks for them.
    pub(super) by_stamps_us: Option<f64>,
}

/// The command line of a case.
pub(super) fn command(
    case: &Case,
    probes: u32,
    own: &str,
    folder: &Path,
) -> Result<Vec<String>, String> {
    let port = match case.method {
        Method::Rst => CLOSED_PORT,
        _ => HTTP_PORT,
    };
    let target = match case.method {
        Method::Icmp => HOST.to_owned(),
        _ => format!("{HOST}:{port}"),
    };
    let interval = case.interval.as_millis().to_string();
    let probes = probes.to_string();
    let mut native: Vec<String> = [own, "probe", &target, "--method", case.method.name()]
        .into_iter()
        .chain(["--count", &probes, "--interval"])
        .map(str::to_owned)
        .collect();
    native.extend([format!("{interval}ms"), "--json".to_owned()]);
    for (option, value) in [
        ("--warm-up", &case.warm_up),
        ("--background", &case.background),
    ] {
        if let Some(value) = value {
            native.extend([option.to_owned(), value.clone()]);
        }
    }
    if case.program == Program::Native {
        return Ok(native);
    }
    compile(folder)?;
    let mut java: Vec<String> = Vec::new();
    if case.program == Program::Java {
        // With the privilege for raw sockets, isReachable would send ICMP; an app has no such
        // privilege.
        let may_not = ["setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw"];
        java.extend(may_not.map(str::to_owned));
    }
    java.push("java".to_owned());
    java.extend(case.java_options.iter().cloned());
    java.extend(["-cp".to_owned(), folder.display().to_string()]);
    java.push("Probe".to_owned());
    if case.program == Program::JavaNative {
        java.push("exec".to_owned());
        java.extend(native);
        return Ok(java);
    }
    let port = port.to_string();
    let (method, clock) = (case.method.name(), case.clock.name());
    let connection = case.connection.name();
    let arguments = [method, HOST, &port, &probes, &interval, clock, connection];
    java.extend(arguments.map(str::to_owned));
    Ok(java)
}

/// Compiles the Java program into `folder`, unless it is there. Run from source, `java` would
/// compile it each time, under the options that are measured.
fn compile(folder: &Path) -> Result<(), String> {
    if folder.join("Probe.class").exists() {
        return Ok(());
    }
    let file = folder.join("Probe.java");
    std::fs::write(&file, JAVA).map_err(|e| e.to_string())?;
    let output = Command::new("java")
        .args(["-m", "jdk.compiler/com.sun.tools.javac.Main", "-d"])
        .arg(folder)
        .arg(&file)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("java: {e}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let why = said.lines().next().unwrap_or("it has no compiler");
        return Err(format!("java: {why}"));
    }
    Ok(())
}

/// The output of the Java program; `None` for a lost probe.
pub(super) fn java_answers(text: &str, unix: bool) -> Vec<Option<Answer>> {
    let answer = |line: &str| {
        let (out, came) = line.split_once(' ')?;
        let (out, came): (i64, i64) = (out.parse().ok()?, came.trim().parse().ok()?);
        let both = u64::try_from(out).ok().zip(u64::try_from(came).ok());
        Some(Answer {
            d_u_us: came.checked_sub(out)? as f64 / 1e3,
            unix_ns: both.filter(|_| unix),
            by_stamps_us: None,
        })
    };
    text.lines().map(answer).collect()
}

/// The output of `mpbond probe --json`; `None` for a lost probe.
pub(super) fn native_answers(text: &str) -> Vec<Option<Answer>> {
    let lines = text
        .lines()
        .filter_map(|l| serde_json::from_str::<Value>(l).ok())
        .filter(|l| l.get("seq").is_some());
    let us = |l: &Value, of: &str| l.get(of)?.as_f64();
    let answer = |line: Value| {
        let d_u_us = us(&line, "d_u_us")?;
        let user = line.pointer("/stamps/user");
        let ns = |of: &str| user?.get(of)?.as_u64();
        Some(Answer {
            d_u_us,
            unix_ns: ns("out_ns").zip(ns("in_ns")),
            by_stamps_us: us(&line, "d_k_us").map(|d_k_us| d_u_us - d_k_us),
        })
    };
    lines.map(answer).collect()
}

/// Whether a Java runtime is installed.
pub(super) fn has_java() -> bool {
    let asked = Command::new("java")
        .arg("-version")
        .stderr(Stdio::null())
        .status();
    asked.is_ok_and(|s| s.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(d_u_us: f64, unix_ns: Option<(u64, u64)>, stamps: Option<f64>) -> Option<Answer> {
        Some(Answer {
            d_u_us,
            unix_ns,
            by_stamps_us: stamps,
        })
    }

    #[test]
    fn what_programs_print_is_read() {
        let text = "100000 350000\nlost\n-5000 5000\nx y\n";
        let unix = Some((100_000, 350_000));
        let expected = [
            answer(250.0, unix, None),
            None,
            answer(10.0, None, None),
            None,
        ];
        assert_eq!(java_answers(text, true), expected);
        assert_eq!(java_answers(text, false)[0], answer(250.0, None, None));
        let native = "{\"seq\":0,\"d_u_us\":12.5,\"d_k_us\":10.0,\"stamps\":{\"user\":\
                      {\"out_ns\":7,\
                      \"in_ns\":9}}}\n{\"seq\":1,\"d_u_us\":null}\n{\"summary\":{}}\n";
        let expected = [answer(12.5, Some((7, 9)), Some(2.5)), None];
        assert_eq!(native_answers(native), expected);
    }
}
