// A beacon while it is written: what it would have brought, asked for a moment after the last key. A later question
// makes the earlier one's answer void.

import { timeOf, visible } from "./text.js";

const PAUSE_MS = 400;
const MOST = 100;
const NUMBER = /^-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]{1,3})?$/i;

const form = document.getElementById("beacon");
const state = document.getElementById("backtest-state");
const list = document.getElementById("matches");
const template = document.getElementById("match");
let timer;
let asking;

const words = (text) => text.split(/[\s,]+/).filter(Boolean);
const items = (text) => text.split(/[,\n]/).map((one) => one.trim()).filter(Boolean);

function wanted() {
  const fields = new FormData(form);
  const text = (name) => (fields.get(name) ?? "").trim();
  const all = {
    about: text("about"),
    inboxes: words(text("inboxes")),
    types: items(text("types")),
    kinds: fields.getAll("kinds"),
    require: items(text("require")),
    exclude: items(text("exclude")),
  };
  const body = Object.fromEntries(Object.entries(all).filter(([, value]) => value.length));
  // What is no number goes as it was written: the server says what is wrong with it, as it does when it is placed.
  for (const name of ["min_score", "weight"]) if (text(name)) body[name] = NUMBER.test(text(name)) ? Number(text(name)) : text(name);
  return body;
}

async function ask() {
  asking?.abort();
  const body = wanted();
  if (!Object.keys(body).length) {
    say("Describe an interest to see what matches.");
    list.replaceChildren();
    return;
  }
  asking = new AbortController();
  say("Looking …");
  try {
    const answer = await fetch(form.dataset.test, {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "application/json", "Postroom-Form": document.body.dataset.formToken },
      body: JSON.stringify(body),
      signal: asking.signal,
    });
    const told = await answer.json();
    if (!answer.ok) {
      say(told.error.message);
      list.replaceChildren();
      return;
    }
    show(told.matches);
  } catch (error) {
    if (error.name !== "AbortError") say("The server did not answer.");
  }
}

function say(text) {
  state.textContent = text;
}

function show(matches) {
  const count = matches.length >= MOST ? `The newest ${MOST}` : matches.length === 1 ? "1 message" : `${matches.length} messages`;
  say(matches.length ? `${count}, of those that it may hear of:` : "Nothing that has come lately would have matched.");
  list.replaceChildren(
    ...matches.map((match) => {
      const row = template.content.firstElementChild.cloneNode(true);
      const of = (name) => row.querySelector(`[data-of=${name}]`);
      of("link").href = `/ui/inboxes/${encodeURIComponent(match.inbox)}/messages/${match.seq}`;
      of("where").textContent = `${match.inbox} ${match.seq}`;
      of("score").textContent = match.score.toFixed(2);
      of("terms").textContent = visible(match.matched_terms.join(", "));
      return row;
    }),
  );
}

form.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(ask, PAUSE_MS);
});

/** Offer that the edited beacon goes out when it does now, if it does. */
function keep(end) {
  const part = document.getElementById("keep-end");
  part.hidden = !end;
  part.querySelector("input").checked = Boolean(end);
  if (!end) return;
  const time = document.createElement("time");
  time.dateTime = time.title = end;
  time.dataset.exact = "";
  time.textContent = timeOf(time);
  document.getElementById("ends-at").replaceChildren(time);
}

for (const button of document.querySelectorAll("[data-edit]")) {
  button.addEventListener("click", () => {
    // What the fields cannot hold as it is, the server takes from `was` where a field was left alone.
    const beacon = JSON.parse(button.dataset.edit);
    const set = (name, value) => (document.getElementById(`f-${name}`).value = value ?? "");
    set("was", button.dataset.edit);
    set("about", visible(beacon.about ?? "", true));
    for (const name of ["name", "min_score", "weight", "ttl_seconds", "backfill"]) set(name, beacon[name]);
    for (const name of ["inboxes", "types", "require", "exclude"]) set(name, visible(beacon[name].join(", ")));
    keep(beacon.expires_at);
    form.querySelector("details").open = true;
    for (const box of form.querySelectorAll("[name=kinds]")) box.checked = beacon.kinds.includes(box.value);
    document.getElementById("f-about").focus();
    ask();
  });
}
if (Object.keys(wanted()).length) ask();
