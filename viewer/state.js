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
      const values = parse(location.hash);
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
    this.waiting = setTimeout(() => this.write(), 200);
    this.changed(keys);
  }

  /** This state's address. */
  get address() {
    const fragment = new URLSearchParams(this.values).toString();
    return location.href.split("#")[0] + (fragment ? "#" + fragment : "");
  }

  write() {
    try {
      history.replaceState(null, "", this.address);
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
