// What all steps are shown with, by their kind.

import { AROUND } from "./around.js";
import { ATTENDING } from "./attending.js";

/** @typedef {import("../data/trace.js").Token} Token */

/**
 * What a step is shown with.
 * @typedef {Object} Scene
 * @property {import("../shell/app.js").App} app
 * @property {import("./kit.js").Kit} kit
 * @property {import("./walk.js").Step} step
 * @property {any} record what the model told of it
 * @property {any} config
 * @property {Record<string, Token[]>} tokens by sequence
 * @property {number} place the row that is looked at
 * @property {Token} token which stands there
 * @property {number} head
 * @property {number} D d_model
 * @property {Map<string, {shape: number[], data: Float32Array}>} tensors those that the step needs and the page's model has
 * @property {{ids: number[], names: string[], written: number, width: number}} words the likeliest words, or classes, and the one that was written
 * @property {string} outputName the matrix that makes the logits
 * @property {boolean} tied whether it is an embedding, too
 * @property {(record: any, place: number) => Node} triangle a picture of the mask
 */

/**
 * What a step shows.
 * @typedef {Object} Lesson
 * @property {(scene: Scene) => Element} formula
 * @property {(scene: Scene) => string} says
 * @property {(scene: Scene) => (Node | null)[]} shows
 * @property {(scene: Scene) => string[]} [needs] the names of the tensors that it shows numbers of
 */

/** @type {Record<string, Lesson>} */
export const SHOWN = { ...AROUND, ...ATTENDING };
