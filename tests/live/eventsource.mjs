// Listens with the `eventsource` package, which follows the WHATWG's standard, and prints one JSON line per event.
// node eventsource.mjs URL TOKEN
import { EventSource } from "eventsource";

const [url, token] = process.argv.slice(2);
const source = new EventSource(url, {
  fetch: (input, init) =>
    fetch(input, { ...init, headers: { ...init.headers, Authorization: `Bearer ${token}` } }),
});
const print = (event) => console.log(JSON.stringify(event));
source.onopen = () => print({ type: "open" });
source.onerror = (error) => print({ type: "error", code: error.code ?? null, closed: source.readyState === 2 });
for (const type of ["message", "gap", "epoch_changed", "bye"]) {
  source.addEventListener(type, ({ data, lastEventId }) => print({ type, lastEventId, data: JSON.parse(data) }));
}
