// The checks that write with the driver's own types, and those of its own calls.

import { Request, TYPES } from 'tedious';
import { connected, textOf } from './checks.js';
import { called, fetch, run, scratch } from './server.js';

// How values of a type are written. tedious has no parameters of xml, and its numbers and dates
// cannot hold decimals, smallmoney and offsets: those are read and written as text.
const WRITTEN = {
  bit: TYPES.Bit,
  tinyint: TYPES.TinyInt,
  smallint: TYPES.SmallInt,
  int: TYPES.Int,
  bigint: TYPES.BigInt,
  real: TYPES.Real,
  float: TYPES.Float,
  date: TYPES.Date,
  time: TYPES.Time,
  datetime: TYPES.DateTime,
  smalldatetime: TYPES.SmallDateTime,
  datetime2: TYPES.DateTime2,
  char: TYPES.Char,
  varchar: TYPES.VarChar,
  nchar: TYPES.NChar,
  nvarchar: TYPES.NVarChar,
  text: TYPES.Text,
  ntext: TYPES.NText,
  uniqueidentifier: TYPES.UniqueIdentifier,
  binary: TYPES.VarBinary,
  varbinary: TYPES.VarBinary,
  image: TYPES.Image,
};
const typeOf = (column) => WRITTEN[column.type.split('(')[0]];

// Reads rows as the driver's own values.
function values(connection, text) {
  return new Promise((resolve, reject) => {
    const rows = [];
    const request = new Request(text, (error) => (error ? reject(error) : resolve(rows)));
    request.on('row', (cells) => rows.push(cells.map((cell) => cell.value)));
    connection.execSqlBatch(request);
  });
}

// Writes one row through parameters p0, p1 ...
function write(connection, insert, id, row, columns) {
  return new Promise((resolve, reject) => {
    const request = new Request(insert, (error) => (error ? reject(error) : resolve()));
    request.addParameter('id', TYPES.Int, id);
    columns.forEach((column, place) => {
      const value = row[place];
      if (value instanceof Date) {
        value.nanosecondDelta = value.nanosecondsDelta; // it is read and written by two names
      }
      const type = typeOf(column) ?? TYPES.NVarChar;
      request.addParameter(`p${place}`, type, value, { scale: column.digits });
    });
    connection.execSql(request);
  });
}

export function types_written({ types: { columns, table, ddl }, types_written: { insert } }) {
  const copy = 'dbo.node_types';
  const read = columns.map((column) => (typeOf(column) ? column.name : column.text)).join(', ');
  const statement = insert
    .replace('{table}', copy)
    .replace('{columns}', columns.map((column) => column.name).join(', '))
    .replace('{values}', ['@id', ...columns.map((_, place) => `@p${place}`)].join(', '));
  return connected(async (connection) => {
    await run(connection, ddl.replace(table, copy));
    const rows = await values(connection, `SELECT ${read} FROM ${table} ORDER BY id`);
    for (const [id, row] of rows.entries()) {
      await write(connection, statement, id, row, columns);
    }
    return textOf(connection, columns, copy);
  });
}

export function output_parameters({ output_parameters: { sql, in: given } }) {
  return connected((connection) => new Promise((resolve, reject) => {
    const out = {};
    const request = new Request(sql, (error) => (error ? reject(error) : resolve(out)));
    request.addParameter('a', TYPES.Int, given.a);
    request.addOutputParameter('b', TYPES.Int);
    request.addOutputParameter('s', TYPES.NVarChar, given.s);
    request.on('returnValue', (name, value) => { out[name] = String(value); });
    connection.execSql(request);
  }));
}

export function savepoint(orders) {
  const { kept, undone, read } = orders.savepoint;
  return connected(async (connection) => {
    const fill = await scratch(connection, orders, 'savepoint');
    await called((done) => connection.beginTransaction(done));
    await run(connection, fill(kept));
    await called((done) => connection.saveTransaction(done, 'here'));
    await run(connection, fill(undone));
    await called((done) => connection.rollbackTransaction(done, 'here'));
    await called((done) => connection.commitTransaction(done));
    return fetch(connection, fill(read));
  });
}
