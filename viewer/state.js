// What is chosen, in the address: any state can be linked to, sent and tested.

/** @typedef {Record<string, string>} Values */

export class State {
  /**
   * @param {Values} defaults what the page opens with; the address holds what differs
   * @param {(changed: Set<string>) => void} changed
   */
  constructor(defaults, changed) {
    this.defaults = defaults;
    this.changed = changed;
    /** @type {Values} */
    this.values = parse(location.hash);
    addEventListener("hashchange", () => {
      clearTimeout(this.waiting); // what was to be noted would replace the entry that one has gone to
      const values = parse(location.hash);
      // What is typed is no place to go back to: an entry of this page's own keeps the text that there is now.
      if (history.state?.own) {
        if (this.values.text === undefined) delete values.text;
        else values.text = this.values.text;
      }
      const keys = new Set([...Object.keys(values), ...Object.keys(this.values)].filter((key) => values[key] !== this.values[key]));
      this.values = values;
      if (keys.size) changed(keys);
    });
  }

  /** @param {string} key */
  get(key) { return this.values[key] ?? this.defaults[key] ?? ""; }

  /** @param {string} key */
  number(key) { return Number.parseInt(this.get(key), 10) || 0; }

  /** @param {string} key */
  flag(key) { return this.get(key) === "1"; }

  /**
   * @param {Record<string, string | number | boolean>} patch
   */
  set(patch) {
    const before = this.get("view");
    if ("view" in patch && String(patch.view) !== before) this.#leave();
    /** @type {Set<string>} */
    const keys = new Set();
    for (const [key, given] of Object.entries(patch)) {
      const value = given === true ? "1" : given === false ? "" : String(given);
      if (this.get(key) === value) continue;
      keys.add(key);
      if ((this.defaults[key] ?? "") === value) delete this.values[key];
      else this.values[key] = value;
    }
    if (!keys.size) return;
    // Browsers refuse an address that changes too often.
    clearTimeout(this.waiting);
    if (this.get("view") !== before) this.write(true);
    else this.waiting = setTimeout(() => this.write(), 200);
    this.changed(keys);
  }

  /** This state's address. */
  get address() {
    const fragment = new URLSearchParams(this.values).toString();
    return location.href.split("#")[0] + (fragment ? "#" + fragment : "");
  }

  /** Brings the address up to date before another view takes its place in the history. */
  #leave() {
    clearTimeout(this.waiting);
    this.write();
  }

  /** @param {boolean} [another] whether the browser's Back leads back from it */
  write(another = false) {
    try {
      if (another) history.pushState({ own: true }, "", this.address);
      else history.replaceState({ own: true }, "", this.address);
    } catch {
      // A frame without an origin of its own may be refused an address.
    }
  }
}

/**
 * @param {string} hash
 * @returns {Values}
 */
function parse(hash) {
  return Object.fromEntries(new URLSearchParams(hash.slice(1)));
}
