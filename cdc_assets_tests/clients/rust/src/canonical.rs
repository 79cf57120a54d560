//! Values in the canonical text that expected.json describes.

use crate::server::Outcome;
use chrono::{DateTime, FixedOffset, NaiveDate, NaiveDateTime, NaiveTime, SubsecRound};
use serde_json::Value;
use tiberius::numeric::Numeric;
use tiberius::{ColumnData, FromSql};

const MONEY_DIGITS: usize = 4;

/// A cell as text, or null; `digits` are those of a fraction of seconds or of money.
pub fn canonical(data: &ColumnData<'static>, digits: usize) -> Outcome<Value> {
    let text = match data {
        ColumnData::Bit(value) => value.map(|value| u8::from(value).to_string()),
        ColumnData::U8(value) => value.map(|value| value.to_string()),
        ColumnData::I16(value) => value.map(|value| value.to_string()),
        ColumnData::I32(value) => value.map(|value| value.to_string()),
        ColumnData::I64(value) => value.map(|value| value.to_string()),
        ColumnData::F32(value) => value.map(|value| value.to_string()),
        // The driver gives money as a float too; only there digits are asked for.
        ColumnData::F64(value) => value.map(|value| match digits {
            MONEY_DIGITS => format!("{value:.MONEY_DIGITS$}"),
            _ => value.to_string(),
        }),
        ColumnData::String(value) => value.as_ref().map(|value| value.to_string()),
        ColumnData::Xml(value) => value.as_ref().map(|value| value.to_string()),
        ColumnData::Guid(value) => value.map(|value| value.to_string().to_uppercase()),
        ColumnData::Binary(value) => value.as_ref().map(|bytes| {
            let digits = bytes.iter().map(|byte| format!("{byte:02X}"));
            format!("0x{}", digits.collect::<String>())
        }),
        ColumnData::Numeric(value) => value.map(decimal),
        ColumnData::Date(_) => NaiveDate::from_sql(data)?.map(|date| date.to_string()),
        ColumnData::Time(_) => NaiveTime::from_sql(data)?
            .map(|time| cut(&time.format("%H:%M:%S%.9f").to_string(), digits)),
        ColumnData::DateTime(_) | ColumnData::SmallDateTime(_) | ColumnData::DateTime2(_) => {
            let moment = NaiveDateTime::from_sql(data)?;
            moment.map(|moment| clock(moment, digits))
        }
        ColumnData::DateTimeOffset(_) => {
            let moment = DateTime::<FixedOffset>::from_sql(data)?;
            moment.map(|m| format!("{}{}", clock(m.naive_local(), digits), m.format("%:z")))
        }
    };
    Ok(text.map_or(Value::Null, Value::from))
}

/// datetime counts 1/300 s, so three digits are rounded; more are exact.
fn clock(moment: NaiveDateTime, digits: usize) -> String {
    let moment = if digits == 3 {
        moment.round_subsecs(3)
    } else {
        moment
    };
    cut(&moment.format("%Y-%m-%dT%H:%M:%S%.9f").to_string(), digits)
}

/// A clock's text with nine digits, cut to fewer, or to none with their point.
fn cut(text: &str, digits: usize) -> String {
    let removed = if digits == 0 { 10 } else { 9 - digits };
    text[..text.len() - removed].to_owned()
}

fn decimal(number: Numeric) -> String {
    let scale = usize::from(number.scale());
    let digits = format!(
        "{:0>width$}",
        number.value().unsigned_abs(),
        width = scale + 1
    );
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let sign = if number.value() < 0 { "-" } else { "" };
    let point = if scale > 0 { "." } else { "" };
    format!("{sign}{whole}{point}{fraction}")
}
