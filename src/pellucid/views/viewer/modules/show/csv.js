const m=/^[=+\-@\t\r]/;function s(t){if(typeof t=="number")return String(t);if(!t)return"";const n=t;return`"${(m.test(n)?"'"+n:n).replaceAll('"','""')}"`}function c(t){return t.map(n=>n.map(s).join(",")).join(`
`)+`
`}function x({rows:t,columns:n,values:e,corner:o=""},a){const u=a===void 0?t.map((r,i)=>i):[a],f=n.length;return c([[o,...n],...u.map(r=>[t[r]??"",...Array.from({length:f},(i,p)=>e[r*f+p])])])}export{c as csv,x as matrixCsv};
