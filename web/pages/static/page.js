// What every screen has: colours, shortcuts, lists that are walked by keys, copying, questions before something is
// deleted, filtering a table, and parts that are renewed by themselves.

import { announce, localize } from "./text.js";
import { renew } from "./renew.js";

const CHORD_MS = 1000;

localize(document);

// -- colours -----------------------------------------------------------------------------------------------------
const colours = window.postroomColours;
const colourSwitch = document.querySelector("[data-theme-switch]");
colourSwitch.value = colours.choice();
colourSwitch.addEventListener("change", () => colours.choose(colourSwitch.value));

function nextColours() {
  const order = ["auto", "light", "dark"];
  colourSwitch.value = order[(order.indexOf(colours.choice()) + 1) % order.length];
  colours.choose(colourSwitch.value);
  announce(`Colours: ${colourSwitch.value}`);
}

// -- copying -----------------------------------------------------------------------------------------------------
async function copy(button) {
  const source = button.dataset.copyOf ? document.querySelector(button.dataset.copyOf).textContent : button.dataset.copy;
  let copied = true;
  try {
    await navigator.clipboard.writeText(source);
  } catch {
    copied = copyBySelecting(source); // there is no clipboard for pages without TLS that are not on this machine
  }
  announce(copied ? "Copied" : "Your browser did not let the page copy; select the text and copy it");
  const before = button.firstChild.data;
  if (before === "Copied") return;
  button.firstChild.data = copied ? "Copied" : "Not copied";
  setTimeout(() => (button.firstChild.data = before), 1500);
}

function copyBySelecting(text) {
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  return copied;
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy], [data-copy-of]");
  if (button) copy(button);
  const opener = event.target.closest("[data-open]");
  if (opener) document.getElementById(opener.dataset.open).showModal();
});

// -- questions before something is gone ----------------------------------------------------------------------------
document.addEventListener("submit", (event) => {
  const asked = event.submitter?.dataset.ask ?? event.target.dataset.ask;
  if (!asked) return;
  if (!window.confirm(asked)) {
    event.preventDefault();
    return;
  }
  // The server asks whoever does not say this, with a page between.
  const sure = document.createElement("input");
  sure.type = "hidden";
  sure.name = "sure";
  sure.value = "yes";
  event.target.append(sure);
});

// -- filtering a table ---------------------------------------------------------------------------------------------
for (const input of document.querySelectorAll("[data-narrow]")) {
  const narrow = () => {
    const wanted = input.value.trim().toLowerCase();
    for (const row of document.querySelectorAll(`${input.dataset.narrow} [data-row]`)) {
      row.hidden = !row.textContent.toLowerCase().includes(wanted);
    }
  };
  input.addEventListener("input", narrow);
  document.addEventListener("renewed", narrow);
}

// -- keys ----------------------------------------------------------------------------------------------------------
let chord = "";
let chordTimer;

function typing(target) {
  return target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]");
}

function visibleItems() {
  return [...document.querySelectorAll("[data-item]")].filter((item) => item.offsetParent !== null);
}

function step(by) {
  const items = visibleItems();
  if (!items.length) return false;
  const at = items.indexOf(document.activeElement);
  const next = at < 0 ? (by > 0 ? 0 : items.length - 1) : Math.min(Math.max(at + by, 0), items.length - 1);
  items[next].focus();
  items[next].scrollIntoView({ block: "nearest" });
  return true;
}

function press(keys) {
  const found = [...document.querySelectorAll("[data-key]")].find((one) => one.dataset.key === keys && one.offsetParent !== null);
  if (!found) return false;
  if (found.matches("input, select, textarea")) {
    found.focus();
    found.select?.();
  } else {
    found.click();
  }
  return true;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (document.querySelector("dialog[open]")) return;
  if (typing(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const key = event.key;
  const keys = chord ? `${chord} ${key}` : key;
  chord = "";
  clearTimeout(chordTimer);
  let done = press(keys);
  if (!done && keys === "?") {
    document.getElementById("shortcuts").showModal();
    done = true;
  }
  if (!done && (keys === "j" || keys === "k")) done = step(keys === "j" ? 1 : -1);
  if (!done && keys === "d") {
    nextColours();
    done = true;
  }
  if (!done && keys === "g") {
    chord = "g";
    chordTimer = setTimeout(() => (chord = ""), CHORD_MS);
    done = true;
  }
  if (done) event.preventDefault();
});

// -- parts that are renewed ------------------------------------------------------------------------------------------
for (const part of document.querySelectorAll("[data-refresh]")) renew(part);
