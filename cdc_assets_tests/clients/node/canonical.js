// Values in the canonical text that expected.json describes.

const UNITS_PER_SECOND = 1e7;

// A value as text, or null; `column` is the one of expected.json, where there is one.
export function canonical(value, column = {}) {
  if (value === null) {
    return null;
  }
  if (value instanceof Date) {
    return clock(value, column);
  }
  if (Buffer.isBuffer(value)) {
    return `0x${value.toString('hex').toUpperCase()}`;
  }
  switch (typeof value) {
    case 'boolean':
      return value ? '1' : '0';
    case 'number':
      return column.kind === 'decimal' ? value.toFixed(column.scale) : String(value);
    default:
      return String(value);
  }
}

// A Date has milliseconds; what there is below them the driver adds as seconds in nanosecondsDelta.
function clock(value, { kind, digits = 0 }) {
  const [date, time] = value.toISOString().slice(0, -1).split('T');
  const [seconds, milliseconds] = time.split('.');
  const below = Math.round((value.nanosecondsDelta ?? 0) * UNITS_PER_SECOND);
  const fraction = (milliseconds + String(below).padStart(4, '0')).slice(0, digits);
  const text = digits ? `${seconds}.${fraction}` : seconds;
  switch (kind) {
    case 'date':
      return date;
    case 'time':
      return text;
    case 'datetimeoffset': // the driver keeps the instant, not the offset
      return `${date}T${text}Z`;
    default:
      return `${date}T${text}`;
  }
}
