// The checks of expected.json.

import {
  PLAIN, STRANGE, administrator, called, connect, fetch, prepare, reader, run, scratch,
} from './server.js';

// tedious reads decimals and money as 64-bit floats, which cannot hold these: their text instead.
const AS_TEXT = new Set(['c_decimal', 'c_decimal_38', 'c_numeric_38', 'c_money']);

// Runs a check on a connection of its own.
export async function connected(work, ...login) {
  const connection = await connect(...login);
  try {
    return await work(connection);
  } finally {
    connection.close();
  }
}

async function refusal(work) {
  try {
    await work();
  } catch (error) {
    return error instanceof AggregateError ? error.errors[0] : error;
  }
  throw new Error('it was not refused');
}

export async function login_with_verified_tls() {
  const rows = await connected((connection) => fetch(connection, 'SELECT 1'));
  const error = await refusal(() => connect(administrator, STRANGE));
  return { rows, refused_without_the_ca: /unable to (get local issuer|verify)/.test(error.message) };
}

export async function login_without_tls() {
  return { rows: await connected((connection) => fetch(connection, 'SELECT 1'), administrator, PLAIN) };
}

export async function wrong_password(orders) {
  const login = [administrator[0], orders.wrong_password.password];
  return { number: (await refusal(() => connect(login))).number };
}

export function types({ types: { columns, table } }) {
  const names = columns.map((column) => (AS_TEXT.has(column.name) ? column.text : column.name));
  return connected(async (connection) => {
    const query = `SELECT ${names.join(', ')} FROM ${table} ORDER BY id`;
    const rows = await fetch(connection, query, [], columns);
    const versions = await fetch(connection, `SELECT c_rowversion FROM ${table} ORDER BY id`);
    return { rows, rowversions: versions.flat() };
  });
}

export function text_of_types({ types: { columns, table } }) {
  return connected((connection) => textOf(connection, columns, table));
}

export function textOf(connection, columns, table) {
  const texts = columns.flatMap((column) => column.text ?? []);
  return fetch(connection, `SELECT ${texts.join(', ')} FROM ${table} ORDER BY id`);
}

export function parameters({ parameters: { sql, values, kinds, scale } }) {
  const columns = kinds.map((kind) => ({ kind, scale }));
  return connected(async (connection) => (await fetch(connection, sql, values, columns))[0]);
}

export function prepared_twice({ prepared_twice: { sql, runs } }) {
  return connected(async (connection) => {
    const statement = prepare(sql, runs[0].values);
    await new Promise((resolve, reject) => {
      statement.request.once('prepared', resolve).once('error', reject);
      connection.prepare(statement.request);
    });
    const seen = [];
    for (const { values } of runs) {
      const named = Object.fromEntries(values.map((value, place) => [`p${place + 1}`, value]));
      const { sets } = await statement.run((request) => connection.execute(request, named));
      seen.push(sets[0].rows);
    }
    await statement.run((request) => connection.unprepare(request));
    return seen;
  });
}

async function transaction(orders, name, end) {
  const { statements, read } = orders.transactions;
  return connected(async (connection) => {
    const fill = await scratch(connection, orders, name);
    await called((done) => connection.beginTransaction(done));
    for (const statement of statements) {
      await run(connection, fill(statement));
    }
    const inside = await fetch(connection, fill(read));
    await called((done) => end(connection, done));
    const after = await connected((other) => fetch(other, fill(read)));
    return { inside, after };
  });
}

export function commit(orders) {
  return transaction(orders, 'commit', (connection, done) => connection.commitTransaction(done));
}

export function rollback(orders) {
  return transaction(orders, 'rollback', (connection, done) => connection.rollbackTransaction(done));
}

export function errors({ errors: { cases, then } }) {
  const check = (login) => async ({ name, sql }) => {
    const error = await refusal(() => run(login, sql));
    const { number, class: severity, message: text } = error;
    return { name, number, severity, text, then: await fetch(login, then.sql) };
  };
  return connected((first) => connected(async (second) => {
    const seen = [];
    for (const one of cases) {
      seen.push(await check(one.login === 'reader' ? second : first)(one));
    }
    return seen;
  }, reader));
}

export function cancel({ cancel: { statements, after_seconds: limit, then } }) {
  return connected(async (connection) => {
    const seen = [];
    for (const text of statements) {
      const began = performance.now();
      const statement = prepare(text);
      const error = await refusal(() => statement.run((request) => {
        connection.execSqlBatch(request);
        setTimeout(() => request.cancel(), limit * 1000);
      }));
      const seconds = (performance.now() - began) / 1000;
      const rows = await fetch(connection, then.sql);
      seen.push({ cancelled: error.code === 'ECANCEL', seconds, then: rows });
    }
    return seen;
  });
}

export function several_result_sets({ several_result_sets: { sql } }) {
  return connected(async (connection) => {
    const { sets } = await run(connection, sql);
    return { sets: sets.map((set) => set.rows), columns: sets.map((set) => set.columns) };
  });
}

export function row_counts(orders) {
  return connected(async (connection) => {
    const fill = await scratch(connection, orders, 'row_counts');
    const counts = [];
    for (const { sql } of orders.row_counts) {
      counts.push((await run(connection, fill(sql))).count);
    }
    return counts;
  });
}

// Writes a text through a parameter and reads it back.
async function written(connection, insert, read, id, text) {
  await run(connection, insert, [id, text]);
  return (await fetch(connection, read, [id]))[0];
}

export function unicode(orders) {
  const { insert, read, literal, texts } = orders.unicode;
  return connected(async (connection) => {
    const fill = await scratch(connection, orders, 'unicode');
    const seen = [];
    for (const [id, { text }] of texts.entries()) {
      const row = await written(connection, fill(insert), fill(read), id, text);
      const query = literal.replace('{text}', () => text.replaceAll("'", "''"));
      seen.push({ read: row, literal: (await fetch(connection, query))[0][0] });
    }
    return seen;
  });
}

export function long_text(orders) {
  const { unit, characters, insert, read } = orders.long_text;
  return connected(async (connection) => {
    const fill = await scratch(connection, orders, 'long_text');
    const seen = [];
    for (const [id, count] of characters.entries()) {
      const text = unit.repeat(count).slice(0, count);
      seen.push(await written(connection, fill(insert), fill(read), id, text));
    }
    return seen;
  });
}

export function nulls(orders) {
  const { insert, values, read } = orders.nulls;
  return connected(async (connection) => {
    const fill = await scratch(connection, orders, 'nulls');
    await run(connection, fill(insert), values);
    return (await fetch(connection, fill(read)))[0];
  });
}
