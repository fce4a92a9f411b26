// All views, in the order in which the page offers them.

import { alignment } from "./alignment.js";
import { beam } from "./beam.js";
import { card } from "./card.js";
import { compare } from "./compare.js";
import { evolution } from "./evolution.js";
import { flow } from "./flow.js";
import { heads } from "./heads.js";
import { matrix } from "./matrix.js";
import { model } from "./model.js";
import { neuron } from "./neuron.js";
import { overview } from "./overview.js";
import { translate } from "./translate.js";
import { whatIf } from "./what_if.js";

/**
 * @typedef {Object} View
 * @property {string} name as Python and the address spell it
 * @property {string} title
 * @property {(app: any) => string} [titled] the title where it depends on the page
 * @property {boolean} [alone] whether it needs no trace, and has no cells to walk through
 * @property {(attention: import("../data/attention.js").Attention) => boolean} [shows] which attentions it can show; by default those with weights
 * @property {(app: import("../shell/app.js").App) => string} [variant] what of the state makes it open anew, since its controls differ
 * @property {(app: import("../shell/app.js").App, stage: HTMLElement) => any} open see README.md
 */

/** @type {View[]} */
export const VIEWS = [translate, overview, heads, matrix, model, neuron, beam, alignment, compare, evolution, flow, whatIf, card];
