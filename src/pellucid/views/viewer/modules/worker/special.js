function i(d){return[d.pad_id,d.bos_id,d.eos_id].filter(e=>e!==null)}export{i as specialIds};
