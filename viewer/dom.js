// Elements without markup: text goes in as text, whatever it holds.

/**
 * An element with attributes and children. An attribute that begins with "on" is a listener, `class` and the rest are
 * attributes; false, null and undefined are left out. Strings among the children become text nodes.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...(Node | string | null | undefined)} children
 * @returns {any}
 */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/**
 * Gives an element this text alone. The one place where a token's text enters the document.
 * @param {HTMLElement} element
 * @param {string} text
 */
export function write(element, text) {
  element.textContent = text;
  return element;
}

/**
 * A drop-down list.
 * @param {string} label
 * @param {[string, string][]} choices value and text of each
 * @param {string} chosen
 * @param {(value: string) => void} choose
 */
export function select(label, choices, chosen, choose) {
  const list = el("select", { onchange: () => choose(list.value) });
  for (const [value, text] of choices) list.append(write(el("option", { value, selected: value === chosen }), text));
  return el("label", { class: "field" }, el("span", {}, label), list);
}

/**
 * A box to tick.
 * @param {string} label
 * @param {boolean} ticked
 * @param {(ticked: boolean) => void} choose
 * @param {string} [title]
 */
export function tick(label, ticked, choose, title) {
  const box = el("input", { type: "checkbox", onchange: () => choose(box.checked) });
  box.checked = ticked;
  return el("label", { class: "tick", title }, box, label);
}

/**
 * @param {string} label
 * @param {() => void} press
 * @param {Record<string, any>} [attributes]
 */
export function button(label, press, attributes = {}) {
  return el("button", { type: "button", onclick: press, ...attributes }, label);
}
