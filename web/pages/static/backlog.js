// Owns what has come to a live list and is not drawn yet, in bounds: the newest of it, and of all before that a summary
// which still says how many messages were let go of and which numbers are gone. Pure: no page, no clock.

export class Backlog {
  #room; // rows that one drawing may take
  #entries = []; // the oldest first: {text} of a message, or {gone} of those that the inbox keeps no more
  #left = 0; // messages that came before the first entry and were let go of
  #gone; // what was missing among those, all places together
  #messages = 0;

  constructor(room) {
    this.#room = room;
  }

  /** How many messages came since the last drawing, listed or not. */
  get messages() {
    return this.#messages;
  }

  get isEmpty() {
    return this.#entries.length === 0 && this.#left === 0 && !this.#gone;
  }

  /** Take a message: its text, as it came. */
  message(text) {
    this.#messages += 1;
    this.#add({ text });
  }

  /** Take a gap: the messages `first` to `last` are gone. */
  gap(first, last) {
    this.#add({ gone: { first, last, count: last - first + 1, places: 1 } });
  }

  /**
   * Give away everything: `entries`, the oldest first, and what is missing before them: `left` messages for which there
   * was no room, and `gone`, as an entry has it. All of it together is as many rows as there is room for, at most.
   */
  take() {
    const room = () => this.#room - (this.#left ? 1 : 0) - (this.#gone ? 1 : 0);
    while (this.#entries.length > room()) this.#shorten(room()); // what is let go of may need a row of its own
    const taken = { entries: this.#entries, left: this.#left, gone: this.#gone };
    this.#entries = [];
    this.#left = 0;
    this.#gone = undefined;
    this.#messages = 0;
    return taken;
  }

  #add(entry) {
    this.#entries.push(entry);
    if (this.#entries.length > 2 * this.#room) this.#shorten(this.#room);
  }

  #shorten(most) {
    for (const entry of this.#entries.splice(0, Math.max(0, this.#entries.length - most))) {
      if (entry.gone) this.#gone = together(this.#gone, entry.gone);
      else this.#left += 1;
    }
  }
}

function together(before, next) {
  if (!before) return next;
  return { first: before.first, last: next.last, count: before.count + next.count, places: before.places + next.places };
}
