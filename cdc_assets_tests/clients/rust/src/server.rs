//! Logging in, and running statements.

use crate::canonical::canonical;
use futures_util::TryStreamExt;
use serde_json::{json, Value};
use std::error::Error;
use tiberius::{AuthMethod, Client, Config, EncryptionLevel, Query, QueryItem, QueryStream};
use tokio::net::TcpStream;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};

pub type Outcome<T> = Result<T, Box<dyn Error>>;
pub type Connection = Client<Compat<TcpStream>>;

/// How a connection is encrypted.
#[derive(Clone, Copy, PartialEq)]
pub enum Tls {
    None,
    /// With the CA of the server.
    Verified,
    /// With the machine's own CAs, which do not know the server.
    Strange,
}

/// What the environment says; an unset variable is empty.
pub fn env(name: &str) -> String {
    std::env::var(format!("CLIENT_{name}")).unwrap_or_default()
}

pub async fn connect(user: &str, password: &str, tls: Tls) -> tiberius::Result<Connection> {
    let mut config = Config::new();
    config.host(env("HOST"));
    config.port(env("PORT").parse().unwrap_or(1433));
    config.database(env("DATABASE"));
    config.authentication(AuthMethod::sql_server(user, password));
    config.hostname_in_certificate("localhost");
    config.encryption(match tls {
        Tls::None => EncryptionLevel::NotSupported,
        _ => EncryptionLevel::Required,
    });
    if tls == Tls::Verified {
        config.trust_cert_ca(env("CA_FILE"));
    }
    let tcp = TcpStream::connect(config.get_addr()).await?;
    tcp.set_nodelay(true)?;
    Client::connect(config, tcp.compat_write()).await
}

pub async fn administrator() -> tiberius::Result<Connection> {
    connect(&env("USER"), &env("PASSWORD"), Tls::Verified).await
}

/// Every result set of an answer: its columns' names, and its rows in canonical text.
pub struct Sets {
    pub columns: Vec<Vec<String>>,
    pub rows: Vec<Vec<Vec<Value>>>,
}

/// Read an answer to its end; `digits` are those of each column's fraction, 0 where it has none.
pub async fn read(mut answer: QueryStream<'_>, digits: &[usize]) -> Outcome<Sets> {
    let mut sets = Sets {
        columns: vec![],
        rows: vec![],
    };
    while let Some(item) = answer.try_next().await? {
        match item {
            QueryItem::Metadata(set) => {
                let names = set.columns().iter().map(|column| column.name().to_owned());
                sets.columns.push(names.collect());
                sets.rows.push(vec![]);
            }
            QueryItem::Row(row) => {
                let cells = row.cells().enumerate().map(|(place, (_, data))| {
                    canonical(data, digits.get(place).copied().unwrap_or(0))
                });
                let row: Vec<Value> = cells.collect::<Outcome<_>>()?;
                sets.rows
                    .last_mut()
                    .ok_or("a row before its columns")?
                    .push(row);
            }
        }
    }
    Ok(sets)
}

/// The rows of a batch with one result set.
pub async fn fetch(connection: &mut Connection, text: &str) -> Outcome<Vec<Vec<Value>>> {
    let sets = read(connection.simple_query(text).await?, &[]).await?;
    sets.rows
        .into_iter()
        .next()
        .ok_or_else(|| "no result set".into())
}

/// A statement with {1}, {2} ... and its values from JSON, as the driver takes them.
pub fn bound(text: &str, values: &[Value]) -> Query<'static> {
    let mut text = text.to_owned();
    for place in 1..=values.len() {
        text = text.replace(&format!("{{{place}}}"), &format!("@P{place}"));
    }
    let mut query = Query::new(text);
    for value in values {
        match value {
            Value::Number(number) => query.bind(number.as_i64()),
            other => query.bind(other.as_str().map(str::to_owned)),
        }
    }
    query
}

/// The rows of a statement with parameters.
pub async fn ask(
    connection: &mut Connection,
    text: &str,
    values: &[Value],
) -> Outcome<Vec<Vec<Value>>> {
    let sets = read(bound(text, values).query(connection).await?, &[]).await?;
    Ok(sets.rows.into_iter().next().unwrap_or_default())
}

/// A table for one check: puts its name where a statement has {table}.
pub struct Scratch(String);

impl Scratch {
    pub async fn create(connection: &mut Connection, orders: &Value, name: &str) -> Outcome<Self> {
        let scratch = Scratch(format!("dbo.rust_{name}"));
        let text = scratch.fill(&orders["scratch"]["create"]);
        connection.simple_query(text).await?.into_results().await?;
        Ok(scratch)
    }

    pub fn fill(&self, text: &Value) -> String {
        text.as_str()
            .unwrap_or_default()
            .replace("{table}", &self.0)
    }
}

/// The server's error of a result that has to have one.
pub fn server_error(error: &(dyn Error + 'static)) -> Outcome<Value> {
    match error.downcast_ref::<tiberius::error::Error>() {
        Some(tiberius::error::Error::Server(problem)) => Ok(json!({
            "number": problem.code(),
            "severity": problem.class(),
            "text": problem.message(),
        })),
        _ => Err(format!("no error of the server: {error}").into()),
    }
}
