// Korean texts, by the English ones: a file for each part of the page.

import { ko as steps } from "./ko/steps.js";
import { ko as translating } from "./ko/translating.js";
import { ko as viewing } from "./ko/viewing.js";

/** @type {Record<string, string>} */
export const ko = { ...viewing, ...translating, ...steps };
