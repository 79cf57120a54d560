//! The checks of expected.json.

use crate::server::{
    administrator, ask, bound, connect, env, fetch, read, server_error, Connection, Outcome,
    Scratch, Tls,
};
use crate::written;
use serde_json::{json, Value};
use std::time::{Duration, Instant};
use tokio::time::timeout;

pub const NAMES: [&str; 19] = [
    "login_with_verified_tls",
    "login_without_tls",
    "wrong_password",
    "types",
    "text_of_types",
    "parameters",
    "prepared_twice",
    "commit",
    "rollback",
    "errors",
    "cancel",
    "several_result_sets",
    "row_counts",
    "unicode",
    "long_text",
    "nulls",
    "types_written",
    "output_parameters",
    "savepoint",
];

/// tiberius reads money as a 64-bit float, which cannot hold its 19 digits: its text instead.
const AS_TEXT: [&str; 1] = ["c_money"];

pub async fn run(check: &str, orders: &Value) -> Outcome<Value> {
    match check {
        "login_with_verified_tls" => login_with_verified_tls().await,
        "login_without_tls" => login_without_tls().await,
        "wrong_password" => wrong_password(&orders[check]).await,
        "types" => types(&orders["types"]).await,
        "text_of_types" => text_of_types(&orders["types"]).await,
        "parameters" => parameters(&orders[check]).await,
        "prepared_twice" => prepared_twice(&orders[check]).await,
        "commit" | "rollback" => transaction(check, orders).await,
        "errors" => errors(&orders[check]).await,
        "cancel" => cancel(&orders[check]).await,
        "several_result_sets" => several_result_sets(&orders[check]).await,
        "row_counts" => row_counts(orders).await,
        "unicode" => unicode(orders).await,
        "long_text" => long_text(orders).await,
        "nulls" => nulls(orders).await,
        "types_written" => written::types_written(orders).await,
        "output_parameters" => written::output_parameters(&orders[check]).await,
        "savepoint" => written::savepoint(orders).await,
        _ => Err(format!("{check} is unknown").into()),
    }
}

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

async fn login_with_verified_tls() -> Outcome<Value> {
    let rows = fetch(&mut administrator().await?, "SELECT 1").await?;
    let refused = match connect(&env("USER"), &env("PASSWORD"), Tls::Strange).await {
        Err(tiberius::error::Error::Tls(reason)) => reason.contains("certificate verify failed"),
        _ => false,
    };
    Ok(json!({"rows": rows, "refused_without_the_ca": refused}))
}

async fn login_without_tls() -> Outcome<Value> {
    let mut connection = connect(&env("USER"), &env("PASSWORD"), Tls::None).await?;
    Ok(json!({"rows": fetch(&mut connection, "SELECT 1").await?}))
}

async fn wrong_password(order: &Value) -> Outcome<Value> {
    match connect(&env("USER"), text(&order["password"]), Tls::Verified).await {
        Ok(_) => Err("it logged in".into()),
        Err(error) => Ok(json!({"number": server_error(&error)?["number"]})),
    }
}

async fn types(order: &Value) -> Outcome<Value> {
    let (mut names, mut digits) = (vec![], vec![]);
    for column in list(&order["columns"]) {
        names.push(readable(column));
        let count = match text(&column["kind"]) {
            "decimal" => &column["scale"],
            _ => &column["digits"],
        };
        digits.push(count.as_u64().unwrap_or(0) as usize);
    }
    let mut connection = administrator().await?;
    let table = text(&order["table"]);
    let query = format!("SELECT {} FROM {table} ORDER BY id", names.join(", "));
    let sets = read(connection.simple_query(query).await?, &digits).await?;
    let query = format!("SELECT c_rowversion FROM {table} ORDER BY id");
    let versions: Vec<Value> = fetch(&mut connection, &query).await?.concat();
    Ok(json!({"rows": sets.rows[0], "rowversions": versions}))
}

/// What reads a column whole.
pub fn readable(column: &Value) -> &str {
    let name = text(&column["name"]);
    match AS_TEXT.contains(&name) {
        true => text(&column["text"]),
        false => name,
    }
}

async fn text_of_types(order: &Value) -> Outcome<Value> {
    let mut connection = administrator().await?;
    text_of(&mut connection, order, text(&order["table"])).await
}

/// The canonical text of every column of a table like the types' one.
pub async fn text_of(connection: &mut Connection, order: &Value, table: &str) -> Outcome<Value> {
    let columns = list(&order["columns"]).iter();
    let texts: Vec<&str> = columns
        .filter_map(|column| column["text"].as_str())
        .collect();
    let query = format!("SELECT {} FROM {} ORDER BY id", texts.join(", "), table);
    Ok(json!(fetch(connection, &query).await?))
}

async fn parameters(order: &Value) -> Outcome<Value> {
    let mut connection = administrator().await?;
    let rows = ask(&mut connection, text(&order["sql"]), list(&order["values"])).await?;
    Ok(json!(rows[0]))
}

/// tiberius has no prepared statements of its own: it sends sp_executesql each time.
async fn prepared_twice(order: &Value) -> Outcome<Value> {
    let mut connection = administrator().await?;
    let mut runs = vec![];
    for one in list(&order["runs"]) {
        runs.push(ask(&mut connection, text(&order["sql"]), list(&one["values"])).await?);
    }
    Ok(json!(runs))
}

async fn transaction(end: &str, orders: &Value) -> Outcome<Value> {
    let mut connection = administrator().await?;
    let scratch = Scratch::create(&mut connection, orders, end).await?;
    let order = &orders["transactions"];
    connection.begin_transaction().await?;
    for statement in list(&order["statements"]) {
        connection.execute(scratch.fill(statement), &[]).await?;
    }
    let read = scratch.fill(&order["read"]);
    let inside = fetch(&mut connection, &read).await?;
    match end {
        "commit" => connection.commit_transaction().await?,
        _ => connection.rollback_transaction().await?,
    }
    let after = fetch(&mut administrator().await?, &read).await?;
    Ok(json!({"inside": inside, "after": after}))
}

async fn errors(order: &Value) -> Outcome<Value> {
    let mut administrator = administrator().await?;
    let mut reader = connect(&env("READER"), &env("READER_PASSWORD"), Tls::Verified).await?;
    let mut seen = vec![];
    for case in list(&order["cases"]) {
        let connection = match text(&case["login"]) {
            "reader" => &mut reader,
            _ => &mut administrator,
        };
        let Err(error) = fetch(connection, text(&case["sql"])).await else {
            return Err(format!("{} gave no error", case["name"]).into());
        };
        let mut one = server_error(error.as_ref())?;
        one["name"] = case["name"].clone();
        one["then"] = json!(fetch(connection, text(&order["then"]["sql"])).await?);
        seen.push(one);
    }
    Ok(json!(seen))
}

async fn cancel(order: &Value) -> Outcome<Value> {
    let mut connection = administrator().await?;
    let limit = Duration::from_secs_f64(order["after_seconds"].as_f64().unwrap_or_default());
    let mut seen = vec![];
    for statement in list(&order["statements"]) {
        let began = Instant::now();
        let answer = async { read(connection.simple_query(text(statement)).await?, &[]).await };
        let cancelled = timeout(limit, answer).await.is_err();
        // Leaving the future ends the waiting here; this is what ends the work there.
        connection.cancel_query().await?;
        let seconds = began.elapsed().as_secs_f64();
        let then = fetch(&mut connection, text(&order["then"]["sql"])).await?;
        seen.push(json!({"cancelled": cancelled, "seconds": seconds, "then": then}));
    }
    Ok(json!(seen))
}

async fn several_result_sets(order: &Value) -> Outcome<Value> {
    let mut connection = administrator().await?;
    let sets = read(connection.simple_query(text(&order["sql"])).await?, &[]).await?;
    Ok(json!({"sets": sets.rows, "columns": sets.columns}))
}

async fn row_counts(orders: &Value) -> Outcome<Value> {
    let mut connection = administrator().await?;
    let scratch = Scratch::create(&mut connection, orders, "row_counts").await?;
    let mut counts = vec![];
    for case in list(&orders["row_counts"]) {
        counts.push(
            connection
                .execute(scratch.fill(&case["sql"]), &[])
                .await?
                .total(),
        );
    }
    Ok(json!(counts))
}

async fn unicode(orders: &Value) -> Outcome<Value> {
    let mut connection = administrator().await?;
    let scratch = Scratch::create(&mut connection, orders, "unicode").await?;
    let order = &orders["unicode"];
    let (insert, read) = (scratch.fill(&order["insert"]), scratch.fill(&order["read"]));
    let mut seen = vec![];
    for (id, case) in list(&order["texts"]).iter().enumerate() {
        let written = [json!(id), case["text"].clone()];
        bound(&insert, &written).execute(&mut connection).await?;
        let row = ask(&mut connection, &read, &written[..1]).await?.concat();
        let quoted = text(&case["text"]).replace('\'', "''");
        let literal = text(&order["literal"]).replace("{text}", &quoted);
        let literal = fetch(&mut connection, &literal).await?.concat();
        seen.push(json!({"read": row, "literal": literal[0]}));
    }
    Ok(json!(seen))
}

async fn long_text(orders: &Value) -> Outcome<Value> {
    let mut connection = administrator().await?;
    let scratch = Scratch::create(&mut connection, orders, "long_text").await?;
    let order = &orders["long_text"];
    let (insert, read) = (scratch.fill(&order["insert"]), scratch.fill(&order["read"]));
    let mut seen = vec![];
    for (id, count) in list(&order["characters"]).iter().enumerate() {
        // Each character of the unit is one UTF-16 code unit.
        let count = count.as_u64().unwrap_or_default() as usize;
        let long: String = text(&order["unit"]).chars().cycle().take(count).collect();
        bound(&insert, &[json!(id), json!(long)])
            .execute(&mut connection)
            .await?;
        seen.push(ask(&mut connection, &read, &[json!(id)]).await?.concat());
    }
    Ok(json!(seen))
}

async fn nulls(orders: &Value) -> Outcome<Value> {
    let mut connection = administrator().await?;
    let scratch = Scratch::create(&mut connection, orders, "nulls").await?;
    let order = &orders["nulls"];
    let insert = scratch.fill(&order["insert"]);
    bound(&insert, list(&order["values"]))
        .execute(&mut connection)
        .await?;
    Ok(json!(
        fetch(&mut connection, &scratch.fill(&order["read"])).await?[0]
    ))
}
