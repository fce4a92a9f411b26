import{AROUND as o}from"./around.js";import{ATTENDING as r}from"./attending.js";const N={...o,...r};export{N as SHOWN};
