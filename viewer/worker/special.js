// The ids that are no text.

/** @param {any} config */
export function specialIds(config) { return [config.pad_id, config.bos_id, config.eos_id].filter((id) => id !== null); }
