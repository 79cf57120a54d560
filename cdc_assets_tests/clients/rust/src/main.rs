//! Checks of tiberius against a SQL Server: each writes what it saw as a line of JSON.
//! Where the server is comes from the environment, what to run from expected.json.

mod canonical;
mod checks;
mod server;
mod written;

use serde_json::{json, Value};
use server::Outcome;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let orders: Value = serde_json::from_str(&std::fs::read_to_string(server::env("EXPECTED"))?)?;
    for check in checks::NAMES {
        let got = checks::run(check, &orders).await;
        let (ok, got) = match got {
            Ok(got) => (true, got),
            Err(error) => (false, Value::from(error.to_string())),
        };
        println!("{}", json!({"check": check, "ok": ok, "got": got}));
    }
    Ok(())
}
