async function n(...e){throw new Error("lens is not there yet, for "+e.length)}export{n as lens};
