async function n(...t){throw new Error("contributions is not there yet, for "+t.length)}export{n as contributions};
