// What a view is. A page names those that it has, and carries no other: see README.md, "How a view is written".

/**
 * @typedef {Object} View
 * @property {string} name as Python and the address spell it
 * @property {string} title
 * @property {string} [group] the group of its tab, if `shell/tabs.js` does not name the view; by default "Look"
 * @property {Record<string, string>} [korean] its texts in Korean, by the English ones
 * @property {(attention: import("../data/attention.js").Attention) => boolean} [shows] which attentions it can show; by default those with weights
 * @property {(app: import("../shell/app.js").App) => string} [variant] what of the state makes it open anew, since its controls differ
 * @property {boolean} [steady] it stays open when the page's model has computed another trace: what is typed in it stays
 * @property {(app: any) => string} [titled] its title, where that depends on the page
 * @property {(app: any) => void} [begin] called once, when the page is there
 * @property {boolean} [alone] it needs no attention, and has no cells to walk through
 * @property {(app: import("../shell/app.js").App, stage: HTMLElement) => any} open see README.md
 */

export {};
