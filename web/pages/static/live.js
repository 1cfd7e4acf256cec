// Owns the live list of an inbox's messages: one event stream, and the rows made of it.
//
// Messages come as fast as they come; the list is drawn a few times a second. What waits to be drawn is bounded
// (backlog.js), and the list has at most KEPT rows, so neither the work nor the memory grows with the traffic. Whatever is
// missing is shown as a gap: by retention on the server (event `gap`), or because it was too much to draw. The list holds
// still while somebody reads it: scrolled down, with the focus in it, with text selected, or when told to.

import { Backlog } from "./backlog.js";
import { announce, bytes, localTime, thousands, visible } from "./text.js";

const KEPT = 200;
const DRAW_MS = 250;
const FEW = 5;
const RETRY_MS = [2_000, 5_000, 15_000, 30_000];

const NEW_LIFE = "This inbox has begun a new life: its messages are numbered from 1 again.";
const FINAL = { 401: "You are signed out.", 404: "This inbox is not here any more.", 409: NEW_LIFE };

const live = document.getElementById("live");
if (live?.dataset.stream) start();

function start() {
  const list = document.getElementById("messages");
  const state = document.getElementById("state");
  const hold = document.getElementById("hold");
  const fresh = document.getElementById("fresh");
  const latest = document.getElementById("latest");
  const older = document.getElementById("older");
  const rowTemplate = document.getElementById("row");
  const gapTemplate = document.getElementById("gap");
  const { slug, verified, since } = live.dataset;
  const backlog = new Backlog(KEPT);

  let latestSeq = Number(live.dataset.latest);
  let cursor; // of the last event, to go on from with a stream of our own making
  let source;
  let failures = 0;
  let held = false;
  let over = false;
  let timer;
  let retryTimer;

  // -- what comes -----------------------------------------------------------------------------------------------
  function soon() {
    if (!timer && !document.hidden) timer = setTimeout(draw, DRAW_MS);
  }

  /**
   * Whether a message is one of those that the list is narrowed to; the server has narrowed it by type already. Times
   * are compared as the texts that they are: the server writes all of them with the same digits.
   */
  function wanted(text) {
    if (!verified && !since) return true;
    const message = JSON.parse(text);
    return (!verified || message.verified === (verified === "true")) && (!since || message.received_at >= since);
  }

  const seqOf = (id) => Number(id.slice(id.lastIndexOf(":") + 1));

  /** Return where the stream goes on. */
  function address() {
    const url = new URL(live.dataset.stream, location.href);
    if (cursor) {
      url.searchParams.set("epoch", cursor.slice(0, cursor.lastIndexOf(":")));
      url.searchParams.set("after", seqOf(cursor));
    }
    return url;
  }

  function connect() {
    clearTimeout(retryTimer);
    source?.close();
    source = new EventSource(address());
    source.onopen = () => {
      failures = 0;
      say("live", "Live");
    };
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) retry();
      else say("lost", "The connection was lost; connecting again …");
    };
    source.addEventListener("message", (event) => {
      cursor = event.lastEventId;
      latestSeq = Math.max(latestSeq, seqOf(cursor));
      if (wanted(event.data)) backlog.message(event.data);
      soon();
    });
    source.addEventListener("gap", (event) => {
      const gap = JSON.parse(event.data);
      cursor = event.lastEventId;
      latestSeq = Math.max(latestSeq, gap.first_seq - 1);
      backlog.gap(gap.after + 1, gap.first_seq - 1);
      soon();
    });
    source.addEventListener("epoch_changed", () => {
      source.close();
      end(NEW_LIFE);
    });
    source.addEventListener("bye", (event) => {
      const { reason } = JSON.parse(event.data);
      source.close();
      if (reason === "shutdown") {
        say("lost", "The server is restarting; connecting again …");
        retry();
        return;
      }
      end(reason === "inbox_deleted" ? "This inbox was deleted." : "You are signed out, or this token does not read this inbox any more.");
    });
  }

  async function retry() {
    if (over) return;
    // An event source does not say why it was refused: ask for the same, and look at the status alone.
    const headers = { Accept: "text/event-stream", "Postroom-Renewal": "1" }; // nobody has asked: see renew.js
    try {
      const answer = await fetch(address(), { method: "HEAD", headers });
      if (answer.status in FINAL) {
        end(FINAL[answer.status]);
        return;
      }
    } catch {
      // the server is not there; it may come back
    }
    say("lost", "The server does not answer with new messages; trying again …");
    clearTimeout(retryTimer);
    retryTimer = setTimeout(connect, RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]);
    failures += 1;
  }

  function end(words) {
    over = true;
    say("lost", words, true);
  }

  function say(kind, text, offerReload = false) {
    state.dataset.state = kind;
    if (state.textContent !== text) state.textContent = text;
    if (offerReload) {
      const link = document.createElement("a");
      link.href = location.pathname + location.search;
      link.textContent = "Load the page again";
      state.append(" ", link);
    }
  }

  // -- what is drawn ----------------------------------------------------------------------------------------------
  function reading() {
    if (held) return true;
    if (list.contains(document.activeElement)) return true;
    if (list.getBoundingClientRect().top < 0) return true;
    const selection = document.getSelection();
    return !selection.isCollapsed && list.contains(selection.anchorNode);
  }

  function draw() {
    timer = undefined;
    latest.textContent = thousands(latestSeq);
    if (reading()) {
      fresh.hidden = backlog.isEmpty;
      fresh.textContent = backlog.messages ? `Show ${thousands(backlog.messages)} new` : "Show what is gone";
      return;
    }
    show();
  }

  function show() {
    fresh.hidden = true;
    const { messages } = backlog;
    const { entries, left, gone } = backlog.take();
    const rows = [];
    if (gone) rows.push(gapOf(goneWords(gone)));
    if (left) rows.push(tooMany(left, entries));
    for (const entry of entries) rows.push(entry.gone ? gapOf(goneWords(entry.gone)) : rowOf(JSON.parse(entry.text)));
    // A colour that fades is a frame of work for each of its steps: not for a crowd.
    if (rows.length <= FEW) for (const row of rows) row.classList.add("new");
    rows.reverse();
    list.prepend(...rows);
    if (list.children.length > KEPT) shorten();
    const isEmpty = list.children.length === 0;
    document.getElementById("nothing").hidden = !isEmpty;
    list.toggleAttribute("data-empty", isEmpty);
    const missing = rows.some((row) => row.matches(".gap")) ? ", and a gap" : "";
    if (rows.length) announce(`${messages === 1 ? "1 new message" : `${thousands(messages)} new messages`}${missing}`);
  }

  /** Take rows away at the end, and let the page of older messages begin with them. */
  function shorten() {
    while (list.children.length > KEPT) list.lastElementChild.remove();
    const last = [...list.children].findLast((row) => row.dataset.seq);
    older.firstElementChild.href = pageBefore(last ? last.dataset.seq : latestSeq + 1);
    older.hidden = false;
  }

  /** Return the address of the messages before one, narrowed as the list is. */
  function pageBefore(seq) {
    const query = new URLSearchParams(location.search);
    query.set("before", seq);
    return `${location.pathname}?${query}`;
  }

  function rowOf(message) {
    const row = rowTemplate.content.firstElementChild.cloneNode(true);
    const of = (name) => row.querySelector(`[data-of=${name}]`);
    row.dataset.seq = message.seq;
    of("link").href = `/ui/inboxes/${encodeURIComponent(slug)}/messages/${message.seq}`;
    of("seq").textContent = message.seq;
    of("time").dateTime = of("time").title = message.received_at;
    of("time").textContent = localTime(message.received_at);
    const [kind, words] = verdictOf(message);
    of("verdict").className = `badge ${kind}`;
    of("verdict").textContent = words;
    of("type").textContent = visible(message.untrusted.event_type ?? "");
    of("what").textContent = visible(whatOf(message));
    of("size").textContent = bytes(message.size);
    return row;
  }

  function gapOf(words) {
    const row = gapTemplate.content.firstElementChild.cloneNode(true);
    row.textContent = words;
    return row;
  }

  function tooMany(count, entries) {
    const messages = count === 1 ? "1 message is" : `${thousands(count)} messages are`;
    const row = gapOf(`${messages} left out here: more came than the list takes at once. `);
    const next = entries.find((entry) => entry.text !== undefined);
    const link = document.createElement("a");
    link.href = pageBefore(next ? JSON.parse(next.text).seq : latestSeq + 1);
    link.textContent = "Look at them";
    row.append(link);
    return row;
  }

  // -- holding still ------------------------------------------------------------------------------------------------
  function setHeld(on) {
    held = on;
    hold.setAttribute("aria-pressed", String(on));
    hold.textContent = on ? "Held" : "Hold";
    if (!on) release();
  }

  function release() {
    if (!document.hidden && !backlog.isEmpty && !timer && !reading()) timer = setTimeout(draw, 0);
  }

  hold.addEventListener("click", () => setHeld(!held));
  fresh.addEventListener("click", () => {
    show();
    window.scrollTo({ top: 0 });
    hold.focus();
  });
  list.addEventListener("focusout", () => setTimeout(release, 0));
  window.addEventListener("scroll", release, { passive: true });
  document.addEventListener("visibilitychange", release);
  window.addEventListener("pagehide", () => {
    clearTimeout(retryTimer);
    source?.close();
  });
  window.addEventListener("pageshow", (event) => {
    if (event.persisted && !over) connect();
  });
  connect();
}

/** Return what a gap of retention's says; `places`: it stands for so many of them. */
function goneWords({ first, last, count, places }) {
  const range = first === last ? `Message ${thousands(first)}` : `Messages ${thousands(first)} to ${thousands(last)}`;
  if (places > 1) return `${range}: ${thousands(count)} of them are gone, in ${places} places: the inbox keeps no more.`;
  return `${range} ${first === last ? "is" : "are"} gone: the inbox keeps no more.`;
}

/** Return kind and words of a verdict, as the server's pages have them. */
function verdictOf(message) {
  if (message.verified === null) return message.sender === null ? ["plain", "unchecked"] : ["plain", "from an agent"];
  return message.verified ? ["good", "verified"] : ["bad", "not verified"];
}

/** Return what a message is about in a line, as the server's pages have it (web/pages/lines.py). */
function whatOf(message) {
  const said = message.untrusted;
  if (message.method) return `${message.method} ${said.path || "/"}${said.query ? `?${said.query}` : ""}`;
  const from = message.sender ?? "the server";
  return said.subject ? `${from}: ${said.subject}` : from;
}
