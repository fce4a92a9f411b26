const o={};export{o as ko};
