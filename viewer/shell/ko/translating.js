// Korean texts of the views in which one writes, and asks what if.

/** @type {Record<string, string>} */
export const ko = {};
