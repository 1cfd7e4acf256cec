// A message's own screen: its body as a tree, and the command that sends it to a server of the reader's.

import { bytes } from "./text.js";
import { draw } from "./tree.js";

const AT_ONCE_BYTES = 1024 * 1024;

const place = document.getElementById("json");
if (place) {
  const size = Number(place.dataset.size);
  if (size <= AT_ONCE_BYTES) load();
  else offer(size);
}

async function load() {
  try {
    const answer = await fetch(place.dataset.raw);
    if (!answer.ok) throw new Error(String(answer.status));
    const text = new TextDecoder("utf-8").decode(await answer.arrayBuffer());
    draw(place, text);
  } catch {
    place.textContent = "The body could not be read. It is still there to download, if the inbox keeps it.";
  }
}

function offer(size) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = `Show ${bytes(size)} as a tree`;
  button.addEventListener("click", () => {
    place.textContent = "Reading…";
    load();
  });
  place.replaceChildren(button);
}

const to = document.getElementById("to");
const command = document.getElementById("forward");
to?.addEventListener("input", () => {
  // In single quotes for the shell, in which only a single quote means anything.
  const quoted = /^[\w./:@%+=,~-]+$/.test(to.value) ? to.value : `'${to.value.replaceAll("'", "'\\''")}'`;
  command.textContent = command.dataset.before + quoted + command.dataset.after;
});
