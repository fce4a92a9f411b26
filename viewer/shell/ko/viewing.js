// Korean texts of the views of attention and the page around them.

/** @type {Record<string, string>} */
export const ko = {};
