// Random numbers from a seed: xoshiro128** (Blackman and Vigna 2018). Equal seeds give equal numbers in every browser;
// they are not those of numpy, so what is drawn here is another text than Python draws from the same seed.

export class Random {
  /**
   * @param {number} seed
   * @param {number} place of a text: each has numbers of its own
   */
  constructor(seed, place) {
    this.state = new Uint32Array(4);
    let mixed = 0;
    for (const number of [seed, Math.floor(seed / 2 ** 32), place, Math.floor(place / 2 ** 32)]) mixed = spread(mixed ^ number);
    for (let i = 0; i < 4; i++) this.state[i] = mixed = spread(mixed);
  }

  /** A whole number of 32 bits. */
  next() {
    const s = this.state, found = Math.imul(turned(Math.imul(s[1], 5), 7), 9) >>> 0, shifted = s[1] << 9;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = turned(s[3], 11);
    return found;
  }

  /** A number above 0 and below 1. */
  uniform() { return ((this.next() >>> 6) * 2 ** 26 + (this.next() >>> 6) + 0.5) / 2 ** 52; }

  /** A number from the exponential distribution of mean 1. */
  exponential() { return -Math.log(this.uniform()); }
}

/** @param {number} x @param {number} by */
function turned(x, by) { return (x << by) | (x >>> (32 - by)); }

/** A step of SplitMix32, by which near seeds become far ones. @param {number} x */
function spread(x) {
  x = (x + 0x9e3779b9) | 0;
  x = Math.imul(x ^ (x >>> 16), 0x21f0aaad);
  x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
  return (x ^ (x >>> 15)) | 0;
}
