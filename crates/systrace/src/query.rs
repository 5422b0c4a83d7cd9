//! The trace as an SQLite database.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, params};
use serde::Serialize;

use crate::idle::IdleReport;
use crate::report::Report;
use crate::tasks::{ClassRules, TaskClass};
use crate::trace::{BinderKind, Trace};

/// SQL schema of the database. Times are ns on the trace clock.
pub const SCHEMA: &str = include_str!("../data/schema.sql");

/// A trace as an SQLite database in memory, for SQL queries.
#[derive(Debug)]
pub struct Database {
    connection: Connection,
}

/// Result of a query.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QueryResult {
    /// Column names.
    pub columns: Vec<String>,
    /// Rows of numbers, texts and nulls.
    pub rows: Vec<Vec<serde_json::Value>>,
}

impl Database {
    /// Creates the database and fills the tables of [`SCHEMA`].
    ///
    /// # Errors
    /// SQLite's message, for example when memory runs out.
    pub fn of(report: &Report, rules: &ClassRules) -> Result<Self, String> {
        let mut connection = Connection::open_in_memory().map_err(text)?;
        connection.execute_batch(SCHEMA).map_err(text)?;
        let transaction = connection.transaction().map_err(text)?;
        events(&transaction, &report.trace).map_err(text)?;
        tasks(&transaction, &report.trace, rules).map_err(text)?;
        {
            let mut insert = transaction
                .prepare("INSERT INTO run VALUES (?,?,?,?,?)")
                .map_err(text)?;
            for r in &report.runs {
                let state = r.state.letter().to_string();
                insert
                    .execute(params![r.start as i64, r.end as i64, r.cpu, r.task, state])
                    .map_err(text)?;
            }
        }
        if let Some(idle) = &report.idle {
            episodes(&transaction, idle).map_err(text)?;
        }
        if let Some(f) = &report.functions {
            let mut insert = transaction
                .prepare("INSERT INTO function VALUES (?,?,?,?)")
                .map_err(text)?;
            for f in &f.functions {
                let (inclusive, own) = (f.inclusive_us as i64, f.exclusive_us as i64);
                insert
                    .execute(params![f.name, f.calls as i64, inclusive, own])
                    .map_err(text)?;
            }
        }
        profiles(&transaction, report).map_err(text)?;
        transaction.commit().map_err(text)?;
        // Queries are read-only, so that a mistyped statement cannot alter later results.
        connection
            .pragma_update(None, "query_only", true)
            .map_err(text)?;
        Ok(Self { connection })
    }

    #[cfg(feature = "parquet")]
    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Runs one SELECT statement.
    ///
    /// # Errors
    /// SQLite's message.
    pub fn query(&self, sql: &str) -> Result<QueryResult, String> {
        let mut statement = self.connection.prepare(sql).map_err(text)?;
        let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let mut rows = Vec::new();
        let mut found = statement.query([]).map_err(text)?;
        while let Some(row) = found.next().map_err(text)? {
            let mut cells = Vec::with_capacity(columns.len());
            for i in 0..columns.len() {
                cells.push(match row.get_ref(i).map_err(text)? {
                    ValueRef::Null => serde_json::Value::Null,
                    ValueRef::Integer(n) => n.into(),
                    ValueRef::Real(x) => x.into(),
                    ValueRef::Text(t) | ValueRef::Blob(t) => String::from_utf8_lossy(t).into(),
                });
            }
            rows.push(cells);
        }
        Ok(QueryResult { columns, rows })
    }

    /// Writes the database to a new file.
    ///
    /// # Errors
    /// SQLite's message, for example when the file exists and is not an empty database.
    pub fn save(&self, path: &std::path::Path) -> Result<(), String> {
        let path = path.to_str().ok_or("file name is not valid UTF-8")?;
        // SQLite counts VACUUM INTO as a write.
        let writable = |yes: bool| self.connection.pragma_update(None, "query_only", !yes);
        writable(true).map_err(text)?;
        let saved = self.connection.execute("VACUUM INTO ?", [path]);
        writable(false).map_err(text)?;
        saved.map(|_| ()).map_err(text)
    }
}

fn text(e: rusqlite::Error) -> String {
    e.to_string()
}

fn events(c: &Connection, t: &Trace) -> rusqlite::Result<()> {
    macro_rules! fill {
        ($table:literal, $marks:literal, $list:expr, |$r:ident| $($value:expr),+) => {{
            let mut insert = c.prepare(concat!("INSERT INTO ", $table, " VALUES (", $marks, ")"))?;
            for $r in &$list {
                insert.execute(params![$($value),+])?;
            }
        }};
    }
    fill!(
        "switch",
        "?,?,?,?,?",
        t.switches,
        |r| r.ns as i64,
        r.cpu,
        r.prev,
        r.next,
        r.state.letter().to_string()
    );
    fill!(
        "wake",
        "?,?,?,?",
        t.wakes,
        |r| r.ns as i64,
        r.cpu,
        r.waker,
        r.task
    );
    fill!(
        "blocked",
        "?,?,?,?",
        t.blocked,
        |r| r.ns as i64,
        r.task,
        r.io_wait,
        t.strings.get(r.caller)
    );
    fill!(
        "slice",
        "?,?,?,?,?",
        t.slices,
        |r| r.start as i64,
        r.end as i64,
        r.tid,
        r.depth,
        t.strings.get(r.name)
    );
    fill!(
        "async_slice",
        "?,?,?,?",
        t.async_slices,
        |r| r.start as i64,
        r.end as i64,
        r.process,
        t.strings.get(r.name)
    );
    fill!(
        "counter",
        "?,?,?",
        t.counters,
        |r| r.ns as i64,
        t.strings.get(r.name),
        r.value
    );
    fill!(
        "block",
        "?,?,?,?",
        t.block,
        |r| r.ns as i64,
        r.issue,
        r.device as i64,
        r.sector as i64
    );
    fill!(
        "frequency",
        "?,?,?",
        t.frequencies,
        |r| r.ns as i64,
        r.cpu,
        r.khz
    );
    fill!(
        "power",
        "?,?,?",
        t.power,
        |r| r.ns as i64,
        r.begins,
        t.strings.get(r.action)
    );
    fill!(
        "irq",
        "?,?,?,?,?,?",
        t.irqs,
        |r| r.ns as i64,
        r.cpu,
        r.hard,
        r.enter,
        r.number,
        t.strings.get(r.handler)
    );
    fill!(
        "timer",
        "?,?,?",
        t.timers,
        |r| r.ns as i64,
        r.cpu,
        t.strings.get(r.function)
    );
    fill!(
        "net",
        "?,?,?,?,?,?",
        t.net,
        |r| r.ns as i64,
        r.cpu,
        r.tid,
        format!("{:?}", r.point),
        r.skb as i64,
        r.len
    );
    let mut insert = c.prepare("INSERT INTO binder VALUES (?,?,?,?,?)")?;
    for b in &t.binder {
        let (kind, to) = match b.kind {
            BinderKind::Request { process, one_way } => {
                (if one_way { "one-way" } else { "request" }, Some(process))
            }
            BinderKind::Reply { to } => ("reply", Some(to)),
            BinderKind::Received => ("received", None),
        };
        insert.execute(params![b.ns as i64, b.tid, b.id as i64, kind, to])?;
    }
    Ok(())
}

fn tasks(c: &Connection, t: &Trace, rules: &ClassRules) -> rusqlite::Result<()> {
    let mut insert = c.prepare("INSERT INTO task VALUES (?,?,?,?,?)")?;
    for (tid, task) in t.tasks.iter() {
        let class = match t.tasks.class(tid, rules) {
            TaskClass::Kernel => "kernel",
            TaskClass::Daemon => "daemon",
            TaskClass::App => "app",
            TaskClass::Unknown => "unknown",
        };
        let process = t.tasks.process(tid);
        let name = t.tasks.process_name(process);
        insert.execute(params![tid, task.name, process, name, class])?;
    }
    Ok(())
}

fn profiles(c: &Connection, report: &Report) -> rusqlite::Result<()> {
    let mut insert = c.prepare("INSERT INTO sampled_function VALUES (?,?,?,?,?)")?;
    for f in report.sampled.iter().flat_map(|s| &s.functions) {
        insert.execute(params![
            f.name,
            f.exclusive_samples as i64,
            f.exclusive_percent,
            f.inclusive_samples as i64,
            f.inclusive_percent
        ])?;
    }
    Ok(())
}

fn episodes(c: &Connection, idle: &IdleReport) -> rusqlite::Result<()> {
    let mut insert = c.prepare("INSERT INTO idle_episode VALUES (?,?,?)")?;
    for e in &idle.details {
        insert.execute(params![e.start_ns as i64, e.end_ns as i64, e.cause])?;
    }
    let mut insert = c.prepare("INSERT INTO idle_finding VALUES (?,?,?,?,?,?,?,?)")?;
    for f in &idle.findings {
        insert.execute(params![
            f.start_ns as i64,
            f.end_ns as i64,
            f.cause,
            f.thread,
            f.server,
            f.function,
            f.idle_ms,
            f.text
        ])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::ReportOptions;

    const TRACE: &str = "\
 a-1 [000] d..2 100.000000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 \
    prev_state=R ==> next_comm=a next_pid=1 next_prio=120
 a-1 [000] d..2 100.250000: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> \
    next_comm=swapper/0 next_pid=0 next_prio=120
 a-1 [000] d..2 101.000000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 \
    prev_state=R ==> next_comm=b next_pid=2 next_prio=120
";

    #[test]
    fn queries_have_results() {
        let report = Report::of(TRACE.as_bytes(), &ReportOptions::default()).unwrap();
        let db = Database::of(&report, &ClassRules::shipped()).unwrap();
        let a = db
            .query(
                "SELECT t.name, sum(r.end - r.start) / 1000000 AS ms FROM run r JOIN task t ON \
            t.tid = r.task GROUP BY t.name",
            )
            .unwrap();
        assert_eq!(a.columns, ["name", "ms"]);
        assert_eq!(a.rows, vec![vec![serde_json::json!("a"), 250.into()]]);
        assert!(db.query("SELECT nonsense").is_err());
        assert!(db.query("DELETE FROM run").is_err());
        let n = db.query("SELECT count(*) FROM switch").unwrap();
        assert_eq!(n.rows[0][0], 3);
        let idle = db
            .query("SELECT sum(end - start) FROM idle_episode")
            .unwrap();
        assert_eq!(idle.rows[0][0], 750_000_000);
    }
}
