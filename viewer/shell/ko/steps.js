// Korean texts of the walk through the equations, and the views of what a model wanted to say.

/** @type {Record<string, string>} */
export const ko = {};
