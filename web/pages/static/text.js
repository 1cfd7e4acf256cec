// Text as the page shows it; the same rules as the server's templates have (web/pages/rendering.py). Pure functions.

const REORDERING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/;
// The same as `web/pages/rendering.py` has: what acts, reorders or is not seen, but for what letters are written with.
const ODD = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u034f\u115f\u1160\u3164\uffa0\u{e0000}-\u{e0fff}]|(?![\u200c\u200d\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u{110bd}\u{110cd}])\p{Cf}/gu;
const ODD_BUT_LINES = new RegExp(`(?![\\t\\n])(?:${ODD.source})`, "gu");
const PICTURES = 0x2400;

function shown(character) {
  const code = character.codePointAt(0);
  if (code < 0x20) return String.fromCharCode(PICTURES + code);
  if (code === 0x7f) return "\u2421";
  return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

/** Return text in which nothing acts or hides; `lines` keeps line feeds and tabs. */
export function visible(text, lines = false) {
  return String(text).replace(lines ? ODD_BUT_LINES : ODD, shown);
}

/** Whether text has characters that change the order of what is read. */
export const reorders = (text) => REORDERING.test(text);

/** Return a size for people. */
export function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let size = count;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return unit === 0 ? `${count} B` : `${size.toFixed(1)} ${units[unit]}`;
}

export const thousands = (count) => count.toLocaleString("en");

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const years = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long", hourCycle: "h23" });

/** Return a time in the reader's own zone; the day is left out of today's, the year of this year's. */
export function localTime(text, now = new Date()) {
  const time = new Date(text);
  if (Number.isNaN(time.getTime())) return text;
  if (time.toDateString() === now.toDateString()) return clock.format(time);
  const date = time.getFullYear() === now.getFullYear() ? day.format(time) : years.format(time);
  return `${date} ${clock.format(time)}`;
}

/** Return what a time element says: of one that is marked so, day, time and zone. */
export function timeOf(element) {
  const time = new Date(element.dateTime);
  return "exact" in element.dataset && !Number.isNaN(time.getTime()) ? exact.format(time) : localTime(element.dateTime);
}

/** Write every time below a node in the reader's own zone; its title keeps what the server said. */
export function localize(root) {
  for (const time of root.querySelectorAll("time[datetime]")) time.textContent = timeOf(time);
}

/** Tell people who do not see the page. */
export function announce(text) {
  document.getElementById("announcer").textContent = text;
}
