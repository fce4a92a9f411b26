async function n(...o){throw new Error("occlusion is not there yet, for "+o.length)}export{n as occlusion};
