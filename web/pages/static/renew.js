// Owns the parts of a page that are renewed by themselves (`data-refresh` seconds): the same page is fetched again, and
// what differs is changed in place, so that focus, selection and scrolling stay. The browser parses the answer as a
// document of its own, in which nothing runs; no text is turned into markup here.
//
// A tab that nobody looks at asks nothing. A server that does not answer is asked less and less often.

import { announce, timeOf } from "./text.js";

const SLOWEST_SECONDS = 30;

function fetchDocument(url) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("GET", url);
    request.responseType = "document";
    request.setRequestHeader("Accept", "text/html");
    request.setRequestHeader("Postroom-Renewal", "1"); // nobody has asked: no sign that the session is in use
    request.timeout = 15_000;
    request.onload = () => (request.status === 200 && request.response ? resolve(request.response) : reject(request.status));
    request.onerror = request.ontimeout = () => reject(0);
    request.send();
  });
}

/** Renew a part for as long as the page is open. It is found again by its id. */
export function renew(part) {
  const every = Number(part.dataset.refresh);
  let wait = every;
  let timer;

  async function once() {
    if (document.hidden) return; // visibilitychange goes on
    try {
      const fresh = (await fetchDocument(location.href)).getElementById(part.id);
      if (fresh) {
        become(part, fresh);
        document.dispatchEvent(new CustomEvent("renewed"));
      }
      if (wait !== every) announce("The server answers again");
      wait = every;
    } catch (status) {
      if (status === 401) {
        location.reload();
        return;
      }
      wait = Math.min(wait * 2, SLOWEST_SECONDS);
    }
    timer = setTimeout(once, wait * 1000);
  }

  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) {
      clearTimeout(timer);
      once();
    }
  });
  timer = setTimeout(once, wait * 1000);
}

/** Make one element like another one, changing as little as possible. */
function become(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || old.id !== fresh.id) {
    old.replaceWith(document.importNode(fresh, true));
    return;
  }
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) return;
  if (old.nodeName === "TIME") {
    const text = timeOf(fresh);
    if (old.textContent !== text) old.textContent = text;
    attributes(old, fresh);
    return;
  }
  // What somebody is writing or has chosen is theirs.
  if (old.matches("input, select, textarea, form")) return;
  if (old.dataset.count !== undefined && old.textContent !== fresh.textContent) old.classList.add("changed");
  attributes(old, fresh);
  children(old, fresh);
}

function attributes(old, fresh) {
  for (const { name, value } of fresh.attributes) {
    if (name !== "class" && name !== "hidden" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (fresh.className && !old.matches(".changed")) old.className = fresh.className;
}

function children(old, fresh) {
  const wanted = [...fresh.childNodes];
  const byId = new Map([...old.children].filter((one) => one.id).map((one) => [one.id, one]));
  wanted.forEach((child, at) => {
    const same = child.id ? byId.get(child.id) : undefined;
    const here = old.childNodes[at];
    if (same) {
      if (same !== here) old.insertBefore(same, here ?? null);
      become(same, child);
    } else if (!here) {
      const made = document.importNode(child, true);
      old.append(made);
    } else if (here.id && child.id !== here.id) {
      old.insertBefore(document.importNode(child, true), here);
    } else {
      become(here, child);
    }
  });
  while (old.childNodes.length > wanted.length) old.lastChild.remove();
}
