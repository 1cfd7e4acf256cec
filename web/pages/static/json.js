// JSON as text with the places of its values: read as it is written, so that large numbers, duplicate members and
// spellings survive. Pure functions. Nothing is built but what is asked for: a value's members are found by one pass
// over its text, without recursion, so neither size nor depth can exhaust anything but patience.

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN = new Set([0x5b, 0x7b]);
const CLOSE = new Set([0x5d, 0x7d]);

const isBlank = (code) => code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;

/** Return the end of the string that begins at `at`. */
function stringEnd(text, at) {
  for (let i = at + 1; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === BACKSLASH) i += 1;
    else if (code === QUOTE) return i + 1;
  }
  return text.length;
}

function skipBlanks(text, at, end) {
  while (at < end && isBlank(text.charCodeAt(at))) at += 1;
  return at;
}

/** Return the end of the value that begins at `at`. */
function valueEnd(text, at, end) {
  let depth = 0;
  for (let i = at; i < end; ) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) {
      i = stringEnd(text, i);
      if (depth === 0) return i;
      continue;
    }
    if (OPEN.has(code)) depth += 1;
    else if (CLOSE.has(code)) {
      if (depth === 0) return i;
      depth -= 1;
      if (depth === 0) return i + 1;
    } else if (depth === 0 && (code === COMMA || code === COLON || isBlank(code))) return i;
    i += 1;
  }
  return end;
}

/** Return the whole document as a value: {start, end}. */
export function root(text) {
  const start = skipBlanks(text, 0, text.length);
  let end = text.length;
  while (end > start && isBlank(text.charCodeAt(end - 1))) end -= 1;
  return { start, end };
}

/** Return what a value is: object, array, string, number or word. */
export function kindOf(text, value) {
  const first = text[value.start];
  if (first === "{") return "object";
  if (first === "[") return "array";
  if (first === '"') return "string";
  return "-0123456789".includes(first) ? "number" : "word";
}

/** Give the members of an object or array in their order: {key, start, end}; `key` is the text of the name, with its
 * quotes, or undefined. */
export function* members(text, value) {
  const isObject = text[value.start] === "{";
  const end = value.end - 1;
  let at = skipBlanks(text, value.start + 1, end);
  while (at < end) {
    let key;
    if (isObject) {
      const keyEnd = stringEnd(text, at);
      key = text.slice(at, keyEnd);
      at = skipBlanks(text, keyEnd, end);
      at = skipBlanks(text, at + 1, end); // the colon
    }
    const stop = Math.max(valueEnd(text, at, end), at + 1);
    yield { key, start: at, end: stop };
    at = skipBlanks(text, stop, end);
    at = skipBlanks(text, at + 1, end); // the comma
  }
}

/** Return the beginning of a string's text as it reads: escapes undone where that is possible. */
export function reads(text) {
  try {
    return JSON.stringify(JSON.parse(text)).replaceAll("\\/", "/");
  } catch {
    return text;
  }
}
