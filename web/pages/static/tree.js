// Draws JSON as a tree that folds. Elements are made when somebody opens them, a portion at a time; all text goes in as
// text.

import { kindOf, members, reads, root } from "./json.js";
import { bytes, thousands, visible } from "./text.js";

const PORTION = 100;
const OPEN_BYTES = 20_000;
const LONG_STRING = 2_000;

/** Fill an element with the tree of a JSON text. */
export function draw(place, text) {
  place.replaceChildren(nodeOf(text, root(text), undefined, 0));
}

function span(kind, text) {
  const made = document.createElement("span");
  made.className = kind;
  made.textContent = text;
  return made;
}

function nodeOf(text, value, key, depth) {
  const kind = kindOf(text, value);
  if (kind === "object" || kind === "array") return folder(text, value, key, kind, depth);
  const leaf = document.createElement("div");
  leaf.className = "leaf";
  if (key !== undefined) leaf.append(keyOf(key), ": ");
  leaf.append(...scalar(text.slice(value.start, value.end), kind));
  return leaf;
}

function keyOf(key) {
  const made = document.createElement("bdi");
  made.className = "key";
  made.textContent = visible(key.length > LONG_STRING ? `${key.slice(0, LONG_STRING)}…` : reads(key));
  return made;
}

function scalar(written, kind) {
  if (kind !== "string" || written.length <= LONG_STRING) {
    const made = document.createElement("bdi");
    made.className = kind;
    made.textContent = visible(kind === "string" ? reads(written) : written);
    return [made];
  }
  const made = document.createElement("bdi");
  made.className = kind;
  made.textContent = visible(written.slice(0, LONG_STRING));
  const more = button(`… ${bytes(written.length - LONG_STRING)} more`, () => {
    made.textContent = visible(reads(written));
    more.remove();
  });
  return [made, more];
}

function folder(text, value, key, kind, depth) {
  const [open, close] = kind === "object" ? "{}" : "[]";
  const all = members(text, value);
  const first = all.next();
  if (first.done) {
    const leaf = document.createElement("div");
    leaf.className = "leaf";
    if (key !== undefined) leaf.append(keyOf(key), ": ");
    leaf.append(open + close);
    return leaf;
  }
  const details = document.createElement("details");
  const summary = document.createElement("summary");
  if (key !== undefined) summary.append(keyOf(key), ": ");
  const size = value.end - value.start;
  summary.append(open, span("dim", ` ${bytes(size)} `), close);
  details.append(summary);
  let filled = false;
  const fill = () => {
    if (filled) return;
    filled = true;
    const kids = document.createElement("div");
    kids.className = "kids";
    details.append(kids);
    portion(kids, text, all, first, kind, depth, 0);
  };
  // What opens by itself is small: opening all of a large document would make as many elements as it has values.
  if (depth === 0 || (size <= OPEN_BYTES && depth < 4)) {
    fill();
    details.open = true;
  }
  details.addEventListener("toggle", () => details.open && fill());
  return details;
}

function portion(kids, text, all, first, kind, depth, count) {
  let next = first ?? all.next();
  const end = count + PORTION;
  while (!next.done && count < end) {
    kids.append(nodeOf(text, next.value, next.value.key, depth + 1));
    count += 1;
    next = all.next();
  }
  if (next.done) return;
  const more = button(`Show more after the first ${thousands(count)}`, () => {
    more.remove();
    portion(kids, text, all, next, kind, depth, count);
  });
  kids.append(more);
}

function button(words, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = "small";
  made.textContent = words;
  made.addEventListener("click", act);
  return made;
}
