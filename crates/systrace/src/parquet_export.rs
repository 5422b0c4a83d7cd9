//! Export of a trace's tables as Apache Parquet, for column-oriented tools. The source is the
//! database of [`crate::query`], so that tables and columns have the same names in both.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use rusqlite::types::ValueRef;

use crate::query::Database;

/// Rows of a row group; bounds the memory used beside the database.
const GROUP_ROWS: usize = 1 << 18;

/// Values of one column, with definition level 1 for each value and 0 for each null.
enum Values {
    Int(Vec<i64>),
    Real(Vec<f64>),
    Text(Vec<ByteArray>),
}

struct Column {
    name: String,
    values: Values,
    there: Vec<i16>,
}

impl Column {
    /// Creates a column by the type declared in the schema.
    fn new(name: String, declared: &str) -> Self {
        let values = match declared {
            "INTEGER" => Values::Int(Vec::new()),
            "REAL" => Values::Real(Vec::new()),
            _ => Values::Text(Vec::new()),
        };
        Self {
            name,
            values,
            there: Vec::new(),
        }
    }

    fn field(&self) -> Result<Arc<Type>, ParquetError> {
        let (physical, logical) = match self.values {
            Values::Int(_) => (Physical::INT64, None),
            Values::Real(_) => (Physical::DOUBLE, None),
            Values::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let builder = Type::primitive_type_builder(&self.name, physical);
        let builder = builder.with_repetition(Repetition::OPTIONAL);
        builder.with_logical_type(logical).build().map(Arc::new)
    }

    fn push(&mut self, value: ValueRef<'_>) {
        let there = match (&mut self.values, value) {
            (Values::Int(list), ValueRef::Integer(n)) => {
                list.push(n);
                1
            }
            (Values::Real(list), ValueRef::Real(x)) => {
                list.push(x);
                1
            }
            (Values::Text(list), ValueRef::Text(t)) => {
                list.push(ByteArray::from(t.to_vec()));
                1
            }
            _ => 0,
        };
        self.there.push(there);
    }

    fn clear(&mut self) {
        self.there.clear();
        match &mut self.values {
            Values::Int(list) => list.clear(),
            Values::Real(list) => list.clear(),
            Values::Text(list) => list.clear(),
        }
    }
}

impl Database {
    /// Writes every non-empty table as Parquet and returns the names of these tables. `open`
    /// creates the output of a table, by its name.
    ///
    /// # Errors
    /// One line with the table and the cause.
    pub fn parquet<W: Write + Send>(
        &self,
        mut open: impl FnMut(&str) -> std::io::Result<W>,
    ) -> Result<Vec<String>, String> {
        let names =
            self.query("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")?;
        let names = names.rows.iter().filter_map(|row| row.first()?.as_str());
        let mut written = Vec::new();
        for name in names {
            let wrong = |e: &dyn std::fmt::Display| format!("table {name}: {e}");
            let any = self.query(&format!("SELECT 1 FROM \"{name}\" LIMIT 1"))?;
            if any.rows.is_empty() {
                continue;
            }
            let out = open(name).map_err(|e| wrong(&e))?;
            self.table(name, out).map_err(|e| wrong(&e))?;
            written.push(name.to_owned());
        }
        Ok(written)
    }

    fn table<W: Write + Send>(&self, name: &str, out: W) -> Result<(), ParquetError> {
        let sql = |e: rusqlite::Error| ParquetError::General(e.to_string());
        // Table names come from our own schema.
        let select = format!("SELECT * FROM \"{name}\"");
        let mut statement = self.connection().prepare(&select).map_err(sql)?;
        let mut columns: Vec<Column> = statement
            .columns()
            .map(|c| Column::new(c.name().to_owned(), c.decl_type().unwrap_or("TEXT")))
            .collect();
        let fields: Result<Vec<_>, _> = columns.iter().map(Column::field).collect();
        let schema = Type::group_type_builder("row")
            .with_fields(fields?)
            .build()?;
        let properties = Arc::new(WriterProperties::builder().build());
        let mut writer = SerializedFileWriter::new(out, Arc::new(schema), properties)?;
        let mut rows = statement.query([]).map_err(sql)?;
        let mut held = 0;
        loop {
            let row = rows.next().map_err(sql)?;
            if let Some(row) = row {
                for (i, column) in columns.iter_mut().enumerate() {
                    column.push(row.get_ref(i).map_err(sql)?);
                }
                held += 1;
            }
            if held == GROUP_ROWS || (row.is_none() && held > 0) {
                group(&mut writer, &mut columns)?;
                held = 0;
            }
            if row.is_none() {
                break;
            }
        }
        writer.close().map(|_| ())
    }
}

/// Writes the buffered values as a row group and clears the buffers.
fn group<W: Write + Send>(
    writer: &mut SerializedFileWriter<W>,
    columns: &mut [Column],
) -> Result<(), ParquetError> {
    let mut group = writer.next_row_group()?;
    for column in columns {
        let Some(mut out) = group.next_column()? else {
            return Err(ParquetError::General(
                "more columns than the schema has".into(),
            ));
        };
        let there = Some(column.there.as_slice());
        match &column.values {
            Values::Int(list) => out.typed::<Int64Type>().write_batch(list, there, None)?,
            Values::Real(list) => out.typed::<DoubleType>().write_batch(list, there, None)?,
            Values::Text(list) => out
                .typed::<ByteArrayType>()
                .write_batch(list, there, None)?,
        };
        out.close()?;
        column.clear();
    }
    group.close().map(|_| ())
}

#[cfg(test)]
mod tests {
    use std::io::Seek;

    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    use crate::{ClassRules, Database, Report, ReportOptions};

    /// Files are read back with the library's own reader: rows, values and a null.
    #[test]
    fn parquet_files_can_be_read_back() {
        let text = "\
 a-1 [000] d..2 100.000000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 \
    prev_state=R ==> next_comm=a next_pid=1 next_prio=120
 a-1 [000] d..2 100.250000: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> \
    next_comm=swapper/0 next_pid=0 next_prio=120
";
        let report = Report::of(text.as_bytes(), &ReportOptions::default()).unwrap();
        let database = Database::of(&report, &ClassRules::shipped()).unwrap();
        let mut files = std::collections::BTreeMap::new();
        let written = database
            .parquet(|name| {
                let file = tempfile::tempfile()?;
                files.insert(name.to_owned(), file.try_clone()?);
                Ok(file)
            })
            .unwrap();
        assert_eq!(written, ["run", "switch", "task"]);
        let mut file = files.remove("switch").unwrap();
        file.rewind().unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let rows: Vec<_> = reader
            .get_row_iter(None)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[1].get_long(0).unwrap(), 100_250_000_000);
        assert_eq!(rows[1].get_long(2).unwrap(), 1);
        assert_eq!(rows[1].get_string(4).unwrap(), "S");
        let wrong = database.parquet(|_| Err::<Vec<u8>, _>(std::io::Error::other("full")));
        assert_eq!(wrong.unwrap_err(), "table run: full");
    }
}
