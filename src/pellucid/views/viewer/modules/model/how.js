const e=Object.freeze({});export{e as PLAIN};
