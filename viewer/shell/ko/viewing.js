// Korean texts of the views of attention and the page around them.

/** @type {Record<string, string>} */
export const ko = {
  "point to look, click to add or remove a head, double-click for it alone (, .)": "가리키면 미리 보고, 누르면 더하거나 빼고, 두 번 누르면 그 헤드만 봅니다 (, .)",
  "point to look, click to choose (, .)": "가리키면 미리 보고, 누르면 고릅니다 (, .)",
  "head {head}": "헤드 {head}", head: "헤드", heads: "헤드", Head: "헤드", Heads: "헤드", all: "모두", none: "없음",
};
