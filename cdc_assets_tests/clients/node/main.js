// Checks of tedious against a SQL Server: each writes what it saw as a line of JSON.
// Where the server is comes from the environment, what to run from expected.json.

import { readFileSync } from 'node:fs';
import * as common from './checks.js';
import { env } from './server.js';
import * as own from './written.js';

const checks = { ...common, ...own };
const orders = JSON.parse(readFileSync(env('EXPECTED'), 'utf8'));
for (const check of [...orders.checks, ...orders.stack_checks]) {
  let line;
  try {
    line = { check, ok: true, got: await checks[check](orders) };
  } catch (error) {
    line = { check, ok: false, got: String(error.stack) };
  }
  console.log(JSON.stringify(line));
}
