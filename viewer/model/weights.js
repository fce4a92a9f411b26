// Hands out a model's tensors by name, each in the shape that its place needs.

import { Refusal, shown } from "./refusal.js";

/** @typedef {import("./tensors.js").Tensor} Tensor */

/** The tensors of a model, or of one of its modules. */
export class Weights {
  /** @type {Map<string, Tensor>} */
  #tensors;
  /** @type {Set<string>} */
  #taken;

  /**
   * @param {Map<string, Tensor>} tensors
   * @param {string} place the module's name in the state dict; "" for the whole model
   * @param {Set<string>} [taken]
   */
  constructor(tensors, place = "", taken = new Set()) {
    this.#tensors = tensors;
    this.place = place;
    this.#taken = taken;
  }

  /**
   * Those of a module within this one.
   * @param {string} name
   */
  within(name) {
    return new Weights(this.#tensors, this.#whole(name), this.#taken);
  }

  /**
   * The numbers of the tensor `name`, which must have this shape.
   * @param {string} name
   * @param {number[]} shape
   */
  take(name, ...shape) {
    const whole = this.#whole(name);
    const found = this.#tensors.get(whole);
    if (!found) throw new Refusal("The model's weights lack `{name}`.", { name: whole });
    if (found.shape.length !== shape.length || found.shape.some((size, i) => size !== shape[i])) {
      throw new Refusal("The weights `{name}` have shape ({found}), the model's have ({needed}).",
        { name: whole, found: shown(found.shape.join(", ")), needed: shape.join(", ") });
    }
    this.#taken.add(whole);
    return found.data;
  }

  /** Refuses weights of which the model knows nothing: they and its description are not of one model. */
  checkAllTaken() {
    const left = [...this.#tensors.keys()].find((name) => !this.#taken.has(name));
    if (left !== undefined) throw new Refusal("The weights `{name}` are no part of the model that the page describes.", { name: shown(left) });
  }

  /** @param {string} name */
  #whole(name) {
    return this.place ? `${this.place}.${name}` : name;
  }
}
