// Logging in, and running statements.

import { readFileSync } from 'node:fs';
import { Connection, Request, TYPES } from 'tedious';
import { canonical } from './canonical.js';

export const env = (name) => process.env[`CLIENT_${name}`];
export const administrator = [env('USER'), env('PASSWORD')];
export const reader = [env('READER'), env('READER_PASSWORD')];

// TLS with the server's CA, with the machine's own CAs, which do not know the server, or none.
export const VERIFIED = { encrypt: true, cryptoCredentialsDetails: { ca: readFileSync(env('CA_FILE')) } };
export const STRANGE = { encrypt: true };
export const PLAIN = { encrypt: false };

// Connects; an error has the server's `number` where it came from there.
export function connect([userName, password] = administrator, tls = VERIFIED) {
  const connection = new Connection({
    server: env('HOST'),
    authentication: { type: 'default', options: { userName, password } },
    options: {
      port: Number(env('PORT')),
      database: env('DATABASE'),
      serverName: 'localhost',
      trustServerCertificate: false,
      ...tls,
    },
  });
  return new Promise((resolve, reject) => {
    let number;
    connection.on('errorMessage', (message) => { number ??= message.number; });
    connection.connect((error) => {
      if (error) {
        reject(Object.assign(error, { number }));
      } else {
        resolve(connection);
      }
    });
  });
}

// A statement's request, and what it gives: result sets in canonical text, and a count of rows.
// `columns` are those of expected.json, where a value's kind is not plain from itself.
export function prepare(text, values = [], columns = []) {
  let settle;
  const request = new Request(marked(text), (error, count) => settle(error, count));
  values.forEach((value, place) => {
    request.addParameter(`p${place + 1}`, Number.isInteger(value) ? TYPES.Int : TYPES.NVarChar, value);
  });
  let sets;
  request.on('columnMetadata', (found) => {
    sets.push({ columns: found.map((column) => column.colName), rows: [] });
  });
  request.on('row', (cells) => {
    sets.at(-1).rows.push(cells.map((cell, place) => canonical(cell.value, columns[place])));
  });
  const run = (begin) => new Promise((resolve, reject) => {
    sets = [];
    settle = (error, count) => (error ? reject(error) : resolve({ sets, count }));
    begin(request);
  });
  return { request, run };
}

// Runs a statement: with parameters through sp_executesql, else as a batch.
export function run(connection, text, values = [], columns = []) {
  return prepare(text, values, columns).run((request) => {
    if (values.length) {
      connection.execSql(request);
    } else {
      connection.execSqlBatch(request);
    }
  });
}

// The rows of a statement's one result set.
export async function fetch(connection, text, values = [], columns = []) {
  return (await run(connection, text, values, columns)).sets[0].rows;
}

const marked = (text) => text.replace(/\{(\d)\}/g, '@p$1');

// The driver's calls with a callback, as promises.
export const called = (begin) => new Promise((resolve, reject) => {
  begin((error, value) => (error ? reject(error) : resolve(value)));
});

// A table for one check: puts its name where statements have {table}.
export async function scratch(connection, orders, name) {
  const fill = (text) => text.replaceAll('{table}', `dbo.node_${name}`);
  await run(connection, fill(orders.scratch.create));
  return fill;
}
