function o(n,t,r){return n/t**r}function h(n,t){const r=Math.min(n.length,t.length);for(let e=0;e<r;e++)if(n[e]!==t[e])return n[e]-t[e];return n.length-t.length}export{h as compareIds,o as rank};
