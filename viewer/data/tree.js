// The tree of a search, laid out: a column a step, in each the hypotheses from the best to the worst.

/**
 * @typedef {Object} Node
 * @property {number} id its place among the search's nodes
 * @property {number | null} parent
 * @property {import("./trace.js").Token} token
 * @property {number} log_prob
 * @property {number} score
 * @property {number} ranked_by
 * @property {"live" | "pruned" | "finished" | "best"} status
 * @property {number} row of "search.cross"
 * @property {number} step how many tokens it has; 0 is the root
 * @property {number} rank its place in its step
 * @property {boolean} chosen whether the search's result continues it, or is it
 */

const ORDER = { best: 0, live: 0, finished: 0, pruned: 1 };

/**
 * @param {{nodes: any[]}} search
 * @param {boolean} pruned whether dropped hypotheses are laid out, too
 * @returns {{nodes: Node[], steps: Node[][]}} all nodes, and those laid out by step and rank
 */
export function layout(search, pruned) {
  /** @type {Node[]} */
  const nodes = [];
  search.nodes.forEach((node, id) => nodes.push({
    ...node, id, step: node.parent === null ? 0 : nodes[node.parent].step + 1, rank: -1, chosen: false, token: { continues: false, ...node.token },
  }));
  for (let at = nodes.find((node) => node.status === "best"); at; at = at.parent === null ? undefined : nodes[at.parent]) at.chosen = true;
  /** @type {Node[][]} */
  const steps = [];
  for (const node of nodes) if (pruned || node.status !== "pruned") (steps[node.step] ??= []).push(node);
  for (const column of steps) {
    column.sort((a, b) => ORDER[a.status] - ORDER[b.status] || b.ranked_by - a.ranked_by || a.id - b.id);
    column.forEach((node, rank) => (node.rank = rank));
  }
  return { nodes, steps };
}

/**
 * A node with all that it continues, the root first.
 * @param {Node[]} nodes
 * @param {Node} node
 */
export function path(nodes, node) {
  const found = [node];
  while (found[0].parent !== null) found.unshift(nodes[found[0].parent]);
  return found;
}
