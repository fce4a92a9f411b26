// All views, in the order in which the page offers them.

import { alignment } from "./alignment.js";
import { beam } from "./beam.js";
import { compare } from "./compare.js";
import { evolution } from "./evolution.js";
import { flow } from "./flow.js";
import { heads } from "./heads.js";
import { matrix } from "./matrix.js";
import { model } from "./model.js";
import { neuron } from "./neuron.js";
import { text } from "./text.js";

/**
 * @typedef {Object} View
 * @property {string} name as Python and the address spell it
 * @property {string} title
 * @property {(attention: import("../data/attention.js").Attention) => boolean} [shows] which attentions it can show; by default those with weights
 * @property {(app: import("../shell/app.js").App) => string} [variant] what of the state makes it open anew, since its controls differ
 * @property {boolean} [steady] it stays open when the page's model has computed another trace: what is typed in it stays
 * @property {boolean} [live] it needs a model in the page
 * @property {(app: import("../shell/app.js").App, stage: HTMLElement) => any} open see README.md
 */

/** @type {View[]} */
export const VIEWS = [heads, matrix, model, neuron, beam, alignment, compare, evolution, flow, text];
