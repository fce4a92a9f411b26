// A canvas's context that writes SVG: what paints a picture on a canvas gives the same picture with text as text.

/** @typedef {{matrix: number[], clip: string, style: Record<string, any>}} Saved */

const STYLE = { fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, globalAlpha: 1, font: "10px sans-serif", textAlign: "left", textBaseline: "alphabetic", direction: "ltr", dash: /** @type {number[]} */ ([]) };
const ANCHORS = /** @type {Record<string, string>} */ ({ left: "start", center: "middle", right: "end" });
/** Where the middle of a line of text stands above its foot, in ems, as browsers paint it. */
const MIDDLE = 0.35;

/** What the painters of `viewer/` ask of a context, and no more. */
export class SvgContext {
  /** @type {string[]} */ #parts = [];
  /** @type {string[]} */ #defined = [];
  /** @type {Saved[]} */ #saved = [];
  #matrix = [1, 0, 0, 1, 0, 0];
  #clip = "";
  #path = "";
  /** What text is measured by. */
  #ruler = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));

  constructor() {
    /** @type {any} */
    this.style = { ...STYLE };
    for (const name of Object.keys(STYLE)) Object.defineProperty(this, name, { get: () => this.style[name], set: (value) => { this.style[name] = value; } });
    this.imageSmoothingEnabled = false;
  }

  save() { this.#saved.push({ matrix: this.#matrix, clip: this.#clip, style: { ...this.style } }); }

  restore() {
    const saved = this.#saved.pop();
    if (saved) [this.#matrix, this.#clip, this.style] = [saved.matrix, saved.clip, saved.style];
  }

  /** @param {number} x @param {number} y */
  translate(x, y) { this.#turn(1, 0, 0, 1, x, y); }
  /** @param {number} x @param {number} y */
  scale(x, y) { this.#turn(x, 0, 0, y, 0, 0); }
  /** @param {number} angle */
  rotate(angle) { this.#turn(Math.cos(angle), Math.sin(angle), -Math.sin(angle), Math.cos(angle), 0, 0); }

  /** @param {...number} by */
  #turn(...by) {
    const [a, b, c, d, e, f] = this.#matrix, [g, h, i, j, k, l] = by;
    this.#matrix = [a * g + c * h, b * g + d * h, a * i + c * j, b * i + d * j, a * k + c * l + e, b * k + d * l + f];
  }

  /** @param {number[]} dash */
  setLineDash(dash) { this.style.dash = dash; }

  /** @param {string} text */
  measureText(text) {
    this.#ruler.font = this.style.font;
    return this.#ruler.measureText(text);
  }

  beginPath() { this.#path = ""; }
  /** @param {number} x @param {number} y */
  moveTo(x, y) { this.#path += `M${short(x)} ${short(y)}`; }
  /** @param {number} x @param {number} y */
  lineTo(x, y) { this.#path += `${this.#path ? "L" : "M"}${short(x)} ${short(y)}`; }
  /** @param {...number} points */
  bezierCurveTo(...points) { this.#path += `C${points.map(short).join(" ")}`; }
  /** @param {number} x @param {number} y @param {number} width @param {number} height */
  rect(x, y, width, height) { this.#path += `M${short(x)} ${short(y)}h${short(width)}v${short(height)}h${short(-width)}z`; }
  /** @param {number} x @param {number} y @param {number} width @param {number} height */
  roundRect(x, y, width, height) { this.rect(x, y, width, height); }
  /** A whole circle. @param {number} x @param {number} y @param {number} radius */
  arc(x, y, radius) {
    const r = short(radius);
    this.#path += `M${short(x - radius)} ${short(y)}a${r} ${r} 0 1 0 ${short(2 * radius)} 0a${r} ${r} 0 1 0 ${short(-2 * radius)} 0z`;
  }

  fill() { this.#add("path", { d: this.#path, fill: this.style.fillStyle }); }
  stroke() { this.#add("path", { d: this.#path, fill: "none", ...this.#line() }); }

  clip() {
    const id = `c${this.#defined.length}`;
    this.#defined.push(`<clipPath id="${id}"><path d="${this.#path}" transform="matrix(${this.#matrix.map(short).join(" ")})"/></clipPath>`);
    this.#clip = id;
  }

  /** @param {number} x @param {number} y @param {number} width @param {number} height */
  fillRect(x, y, width, height) { this.#add("rect", { x, y, width: Math.max(0, width), height: Math.max(0, height), fill: this.style.fillStyle }); }
  /** @param {number} x @param {number} y @param {number} width @param {number} height */
  strokeRect(x, y, width, height) { this.#add("rect", { x, y, width: Math.max(0, width), height: Math.max(0, height), fill: "none", ...this.#line() }); }

  /** @param {string} text @param {number} x @param {number} y */
  fillText(text, x, y) {
    const { font, textAlign, textBaseline, direction, fillStyle } = this.style, [, weight, size, family] = /^(?:(\d+|bold) )?([\d.]+)px (.*)$/.exec(font) ?? ["", "", "10", "sans-serif"];
    // With text that runs to the left, its start is at the right.
    const anchor = direction === "rtl" && textAlign !== "center" ? (textAlign === "right" ? "start" : "end") : ANCHORS[textAlign] ?? "start";
    this.#add("text", { x, y: textBaseline === "middle" ? y + MIDDLE * Number(size) : y, fill: fillStyle, "font-family": family, "font-size": size, "font-weight": weight || null, "text-anchor": anchor, direction: direction === "rtl" ? "rtl" : null }, escaped(text));
  }

  /** Another canvas, or a part of it. @param {HTMLCanvasElement} from @param {...number} places as of a canvas's context */
  drawImage(from, ...places) {
    const [cropX, cropY, cropWidth, cropHeight] = places.length === 8 ? places : [0, 0, from.width, from.height], [x, y, width = from.width, height = from.height] = places.slice(-4).length === 4 ? places.slice(-4) : places;
    const part = document.createElement("canvas");
    part.width = Math.max(1, cropWidth);
    part.height = Math.max(1, cropHeight);
    /** @type {CanvasRenderingContext2D} */ (part.getContext("2d")).drawImage(from, cropX, cropY, cropWidth, cropHeight, 0, 0, cropWidth, cropHeight);
    this.#add("image", { x, y, width, height, href: part.toDataURL(), preserveAspectRatio: "none", "image-rendering": "pixelated" });
  }

  /** @param {HTMLCanvasElement} tile */
  createPattern(tile) {
    const id = `p${this.#defined.length}`, { width, height } = tile;
    this.#defined.push(`<pattern id="${id}" width="${width}" height="${height}" patternUnits="userSpaceOnUse"><image width="${width}" height="${height}" href="${tile.toDataURL()}"/></pattern>`);
    return { id, setTransform() {} };
  }

  #line() {
    const { strokeStyle, lineWidth, dash } = this.style;
    return { stroke: strokeStyle, "stroke-width": lineWidth, "stroke-dasharray": dash.length ? dash.map(short).join(" ") : null };
  }

  /** @param {string} tag @param {Record<string, any>} attributes @param {string} [inside] */
  #add(tag, attributes, inside = "") {
    const { globalAlpha } = this.style, still = this.#matrix.join() === "1,0,0,1,0,0";
    const all = { ...attributes, opacity: globalAlpha === 1 ? null : globalAlpha, transform: still ? null : `matrix(${this.#matrix.map(short).join(" ")})` };
    const written = Object.entries(all).filter(([, value]) => value !== null && value !== undefined).map(([name, value]) => `${name}="${escaped(typeof value === "number" ? short(value) : value.id ? `url(#${value.id})` : String(value))}"`);
    const element = `<${tag} ${written.join(" ")}>${inside}</${tag}>`;
    // A clip stands around its element, whose transform it does not share.
    this.#parts.push(this.#clip ? `<g clip-path="url(#${this.#clip})">${element}</g>` : element);
  }

  /** The whole document. @param {number} width @param {number} height @param {string} title */
  text(width, height, title) {
    return `<svg xmlns="${NAMESPACE}" width="${Math.ceil(width)}" height="${Math.ceil(height)}" viewBox="0 0 ${Math.ceil(width)} ${Math.ceil(height)}" role="img"><title>${escaped(title)}</title><defs>${this.#defined.join("")}</defs>${this.#parts.join("\n")}</svg>\n`;
  }
}

// The namespace as the browser knows it, so that no address stands in the source.
const NAMESPACE = new DOMParser().parseFromString("<svg></svg>", "text/html").querySelector("svg")?.namespaceURI;

/** @param {number} value */
const short = (value) => String(Math.round(value * 100) / 100);

/** Text as XML takes it, without what XML has no character for. @param {string} text */
function escaped(text) {
  return text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd")
    .replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
