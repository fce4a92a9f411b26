"""Greedy translation with ONNX Runtime: no torch, no Pellucid.

    pip install onnxruntime tokenizers numpy
    pellucid convert RUN FOLDER --to onnx
    python translate_onnx.py FOLDER < lines > translations

FOLDER holds the graphs in onnx/, the tokenizer in tokenizer.json (that of a target with a vocabulary of its own in
target/), and what generation begins with, leaves out and ends with in generation_config.json.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import tokenizers


def outputs(session: onnxruntime.InferenceSession, feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What a graph gives, by name."""
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, feed), strict=True))


class Translator:
    """A folder that `pellucid convert --to onnx` wrote, with --quantization int8 or without."""

    def __init__(self, folder: Path) -> None:
        self.encoder, self.decoder = (
            onnxruntime.InferenceSession(str(next((folder / "onnx").glob(f"{part}*.onnx"))))
            for part in ("encoder_model", "decoder_model_merged")
        )
        self.source = self.target = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        if (folder / "target").is_dir():
            self.target = tokenizers.Tokenizer.from_file(str(folder / "target" / "tokenizer.json"))
        self.source.encode_special_tokens = True  # text that reads </s> is text
        self.settings = json.loads((folder / "generation_config.json").read_text(encoding="utf-8"))
        self.longest = json.loads((folder / "config.json").read_text(encoding="utf-8"))["max_position_embeddings"]

    def translate(self, line: str) -> str:
        """The most probable token at each step, until the end token. What the model has no positions for is cut off."""
        if not line.strip():
            return ""  # the model has never seen such a line, and would make something up
        ids = np.array([self.source.encode(line).ids[: self.longest]], dtype=np.int64)
        mask = np.ones_like(ids)
        memory = outputs(self.encoder, {"input_ids": ids, "attention_mask": mask})["last_hidden_state"]
        feed = {"encoder_hidden_states": memory, "encoder_attention_mask": mask}
        for past in self.decoder.get_inputs():
            if past.name.startswith("past_"):
                feed[past.name] = np.zeros((1, past.shape[1], 0, past.shape[3]), dtype=np.float32)
        forced = self.settings.get("forced_bos_token_id")
        tokens = [self.settings["decoder_start_token_id"], *([] if forced is None else [forced])]
        given, new = len(tokens), tokens
        while len(tokens) < self.settings["max_length"] - 1:
            feed["input_ids"] = np.array([new], dtype=np.int64)
            feed["use_cache_branch"] = np.array([len(new) < len(tokens)])
            found = outputs(self.decoder, feed)
            logits = found.pop("logits")[0, -1]
            logits[self.settings.get("suppress_tokens", [])] = -np.inf
            best = int(logits.argmax())
            if best == self.settings["eos_token_id"]:
                break
            tokens, new = [*tokens, best], [best]
            feed |= {name.replace("present", "past_key_values"): tensor for name, tensor in found.items()}
        return self.target.decode(tokens[given:])


if __name__ == "__main__":
    translator = Translator(Path(sys.argv[1]))
    for line in sys.stdin:
        print(translator.translate(line.rstrip("\n")))
