// Colours: from the style sheet where it can know them, else from here; read again when the scheme changes.

/** sRGB from 0 to 1 to OKLab and back: equal steps there look equal. */
const linear = (/** @type {number} */ c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
const encoded = (/** @type {number} */ c) => (c <= 0.0031308 ? 12.92 * c : 1.055 * Math.max(c, 0) ** (1 / 2.4) - 0.055);

/** @param {number[]} rgb 0 to 255 */
function toLab(rgb) {
  const [r, g, b] = rgb.map((c) => linear(c / 255));
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

/** @param {number[]} lab */
function toRgb([L, a, b]) {
  const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (L - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map((c) => Math.round(255 * Math.min(1, Math.max(0, encoded(c)))));
}

/**
 * 256 colours through the stops, in even steps of OKLab.
 * @param {number[][]} stops
 */
function ramp(stops) {
  const labs = stops.map(toLab);
  return Array.from({ length: 256 }, (_, u) => {
    const at = (u / 255) * (labs.length - 1), i = Math.min(Math.floor(at), labs.length - 2);
    return toRgb(labs[i].map((c, axis) => c + (at - i) * (labs[i + 1][axis] - c)));
  });
}

export class Colours {
  paper = "";
  ink = "";
  faint = "";
  line = "";
  accent = "";
  mark = "";
  font = "";
  /** From weight 0 to weight 1, 256 [r, g, b]. @type {number[][]} */
  sequential = [];
  /** From -1 over 0 (at 127.5) to 1. @type {number[][]} */
  diverging = [];
  /** @type {string[]} */
  heads = [];

  constructor() {
    this.probe = document.createElement("i");
    this.probe.hidden = true;
    // Else all colours but the system's would be read as that of text: less and more of a difference would look alike.
    this.probe.style.setProperty("forced-color-adjust", "none");
    document.body.append(this.probe);
    this.read();
  }

  /** Reads the style sheet again. */
  read() {
    const read = (/** @type {string} */ name) => this.rgb(`var(--${name})`);
    const css = (/** @type {string} */ name) => `rgb(${read(name).join(" ")})`;
    this.paper = css("paper");
    this.ink = css("ink");
    this.faint = css("faint");
    this.line = css("line");
    this.accent = css("accent");
    this.mark = css("mark");
    this.font = getComputedStyle(document.body).fontFamily;
    const dark = toLab(read("paper"))[0] < 0.5;
    this.sequential = ramp([read("ramp-0"), read("ramp-1"), read("ramp-2")]);
    this.diverging = ramp([read("minus-2"), read("minus-1"), read("ramp-0"), read("plus-1"), read("plus-2")]);
    this.heads = dark ? HEADS_ON_DARK : HEADS_ON_LIGHT;
  }

  /**
   * A CSS colour as [r, g, b].
   * @param {string} colour
   */
  rgb(colour) {
    this.probe.style.color = colour;
    return (getComputedStyle(this.probe).color.match(/[\d.]+/g) ?? ["0", "0", "0"]).slice(0, 3).map(Number);
  }

  /**
   * The colour of a head; they repeat after 16, so a head's number stands beside it wherever that matters.
   * @param {number} head
   */
  head(head) { return this.heads[head % this.heads.length]; }

  /**
   * CSS of a value from 0 to 1.
   * @param {number} value
   */
  of(value) { return `rgb(${this.sequential[Math.round(255 * Math.min(1, Math.max(0, value)))].join(" ")})`; }

  /**
   * CSS of a value from -1 to 1.
   * @param {number} value
   */
  signed(value) { return `rgb(${this.diverging[Math.round(127.5 + 127.5 * Math.min(1, Math.max(-1, value)))].join(" ")})`; }

  /**
   * Ink that is readable on the colour of a value from 0 to 1: of black and white the one of more contrast, 4.5:1 at least.
   * @param {number} value
   */
  inkOn(value) {
    const [r, g, b] = this.sequential[Math.round(255 * Math.min(1, Math.max(0, value)))].map((c) => linear(c / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
  }
}

// Sixteen for each ground, chosen one after another as far as possible from those before them as seen with normal
// vision, protanopia, deuteranopia and tritanopia, at a contrast of 3:1 with the ground: tests/browser/test_colours.py.
const HEADS_ON_LIGHT = ["#1b63bd", "#d87e1b", "#6c2400", "#2d99f3", "#99515a", "#2d3675", "#a275a2", "#d80000", "#9909fc", "#5a5187", "#901b48", "#75996c", "#3f09cf", "#fc3fe1", "#6c09a2", "#756399"];
const HEADS_ON_DARK = ["#90b4fc", "#995100", "#ea9924", "#5a3ffc", "#fcd8a2", "#ea2d90", "#0090cf", "#75eafc", "#bd7524", "#873fbd", "#abea00", "#bd0987", "#a2b47e", "#eaabbd", "#c66cfc", "#1b7548"];
