//! The checks that write with the driver's own types, and those of its own calls.

use crate::checks::{list, readable, text, text_of};
use crate::server::{administrator, fetch, Outcome, Scratch};
use serde_json::{json, Value};
use tiberius::{ColumnData, Command, IntoSql, Query};

/// What tiberius 0.13.0 writes wrongly is written as text: numbers of 38 digits after the point,
/// which it declares as numeric(39,38), and empty xml, which it ends twice.
const AS_TEXT: [&str; 2] = ["c_numeric_38", "c_xml"];

/// A cell as it was read, to be written.
struct Cell(ColumnData<'static>);

impl<'a> IntoSql<'a> for Cell {
    fn into_sql(self) -> ColumnData<'a> {
        self.0
    }
}

/// What reads a column so that it can be written.
fn writable(column: &Value) -> &str {
    match AS_TEXT.contains(&text(&column["name"])) {
        true => text(&column["text"]),
        false => readable(column),
    }
}

pub async fn types_written(orders: &Value) -> Outcome<Value> {
    let (order, copy) = (&orders["types"], "dbo.rust_types");
    let (columns, table) = (list(&order["columns"]), text(&order["table"]));
    let join = |parts: Vec<&str>| parts.join(", ");
    let marks: Vec<String> = (1..=columns.len() + 1)
        .map(|place| format!("@P{place}"))
        .collect();
    let names = join(columns.iter().map(|column| text(&column["name"])).collect());
    let insert = text(&orders["types_written"]["insert"])
        .replace("{table}", copy)
        .replace("{columns}", &names)
        .replace("{values}", &marks.join(", "));
    let read = join(columns.iter().map(writable).collect());
    let mut connection = administrator().await?;
    let ddl = text(&order["ddl"]).replace(table, copy);
    connection.simple_query(ddl).await?.into_results().await?;
    let query = format!("SELECT id, {read} FROM {table} ORDER BY id");
    let rows = connection
        .simple_query(query)
        .await?
        .into_first_result()
        .await?;
    for row in rows {
        let mut query = Query::new(insert.as_str());
        for (_, data) in row.cells() {
            query.bind(Cell(data.clone()));
        }
        query.execute(&mut connection).await?;
    }
    text_of(&mut connection, order, copy).await
}

pub async fn output_parameters(order: &Value) -> Outcome<Value> {
    let mut connection = administrator().await?;
    let mut command = Command::new("sp_executesql");
    command.bind_param("@stmt", text(&order["sql"]));
    command.bind_param("@params", "@a int, @b int OUTPUT, @s nvarchar(50) OUTPUT");
    command.bind_param("@a", order["in"]["a"].as_i64());
    command.bind_out_param("@b", None::<i32>);
    command.bind_out_param("@s", text(&order["in"]["s"]));
    let result = command
        .exec(&mut connection)
        .await?
        .into_command_result()
        .await?;
    let sum: Option<i32> = result.try_return_value("@b")?;
    let replaced: Option<&str> = result.try_return_value("@s")?;
    Ok(json!({"b": sum.map(|sum| sum.to_string()), "s": replaced}))
}

pub async fn savepoint(orders: &Value) -> Outcome<Value> {
    let mut connection = administrator().await?;
    let scratch = Scratch::create(&mut connection, orders, "savepoint").await?;
    let order = &orders["savepoint"];
    connection.begin_transaction().await?;
    connection
        .execute(scratch.fill(&order["kept"]), &[])
        .await?;
    // Statements: of savepoints the driver has `save_transaction` alone, which gives the length of
    // the name in characters, where the others give bytes.
    connection
        .simple_query("SAVE TRANSACTION here")
        .await?
        .into_results()
        .await?;
    connection
        .execute(scratch.fill(&order["undone"]), &[])
        .await?;
    connection
        .simple_query("ROLLBACK TRANSACTION here")
        .await?
        .into_results()
        .await?;
    connection.commit_transaction().await?;
    Ok(json!(
        fetch(&mut connection, &scratch.fill(&order["read"])).await?
    ))
}
