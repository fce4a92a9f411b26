// A few words beside the pointer.

import { el, write } from "../dom.js";

export class Tip {
  text = "";

  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = el("div", { class: "tip", "aria-hidden": "true", hidden: true });
    root.append(this.root);
  }

  /**
   * @param {{clientX: number, clientY: number}} event
   * @param {string[]} lines the first stands out
   */
  show(event, lines) {
    const text = lines.join("\n");
    if (this.text !== text) {
      this.text = text;
      this.root.replaceChildren(...lines.map((line, i) => el(i ? "span" : "b", {}, write(el("bdi"), line))));
    }
    this.root.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = this.root;
    const x = event.clientX + 14 + width > innerWidth - 8 ? event.clientX - 14 - width : event.clientX + 14;
    const y = event.clientY + 16 + height > innerHeight - 8 ? event.clientY - 12 - height : event.clientY + 16;
    this.root.style.transform = `translate(${Math.max(4, x)}px, ${Math.max(4, y)}px)`;
  }

  hide() { this.root.hidden = true; }
}
