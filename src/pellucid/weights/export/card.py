"""README.md of an exported model: what it is, how it is used there, and what the proof of its conversion said."""

from pellucid.config import ModelConfig
from pellucid.config.tasks import task_of
from pellucid.text.tokenizers import Tokenizers
from pellucid.weights.card import card, kept, parted

LIBRARIES = {"hf": "transformers", "ct2": "ctranslate2", "onnx": "transformers.js"}
"""The name on model hubs of the program that opens a folder."""
KEPT = (
    "language", "license", "license_name", "license_link", "licence", "licence_name", "licence_link", "datasets",
    "tags", "model-index",
)  # fmt: skip
"""A note that is true of a model in every form."""

MARIAN_NOTE = """\
Positions are stored in `model.safetensors`, as `model.encoder.embed_positions.weight` and
`model.decoder.embed_positions.weight`: they are not the ones that MarianMTModel computes. `from_pretrained` reads them,
`save_pretrained` leaves them out. Who trains this model further with transformers and saves it must copy these two
tensors into the new file.
"""
BLANK = "The model has never read a blank line, and makes something up for one: such a line goes around it."

_HF_PAIR = """\
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("FOLDER")
model = AutoModelForSeq2SeqLM.from_pretrained("FOLDER")


def translate(line):
    if not line.strip():
        return ""
    written = model.generate(**tokenizer(line, return_tensors="pt", truncation=True))
    return TOKENIZER.decode(written[0], skip_special_tokens=True)
"""
_HF_CLASSIFIER = """\
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("FOLDER")
model = AutoModelForSequenceClassification.from_pretrained("FOLDER")
with torch.inference_mode():
    best = model(**tokenizer("a text", return_tensors="pt", truncation=True)).logits[0].argmax()
print(model.config.id2label[int(best)])
"""
_HF_DECODER = """\
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("FOLDER")
model = AutoModelForCausalLM.from_pretrained("FOLDER")
written = model.generate(**tokenizer("a text", return_tensors="pt"), max_new_tokens=50)
print(tokenizer.decode(written[0], skip_special_tokens=True))
"""
_HF_ENCODER = """\
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("FOLDER")
model = AutoModel.from_pretrained("FOLDER")
print(model(**tokenizer("a text", return_tensors="pt")).last_hidden_state.shape)
"""
_CT2_PAIR = """\
import ctranslate2
from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file("FOLDER/tokenizer.json")
tokenizer.encode_special_tokens = True  # text that reads </s> is text
translator = ctranslate2.Translator("FOLDER")


def translate(line):
    if not line.strip():
        return ""
    source = tokenizer.encode(line).tokens
    words = translator.translate_batch([source], beam_size=5, max_decoding_length=LONGEST)[0].hypotheses[0]
    return TOKENIZER.decode([TOKENIZER.token_to_id(word) for word in words])
"""
_CT2_DECODER = """\
import ctranslate2
from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file("FOLDER/tokenizer.json")
generator = ctranslate2.Generator("FOLDER")
found = generator.generate_batch([tokenizer.encode("a text").tokens], max_length=50, sampling_topk=1)[0]
print(tokenizer.decode(found.sequences_ids[0]))
"""
_JS_IMPORT = """\
import { CLASS, AutoTokenizer, env } from "@huggingface/transformers";

env.localModelPath = "./"; // the folder is read from beside the page, and from nowhere else
env.allowRemoteModels = false;
const tokenizer = await AutoTokenizer.from_pretrained("FOLDER");
const model = await CLASS.from_pretrained("FOLDER");
"""
_JS_PAIR = """
async function translate(line) {
  if (!line.trim()) return "";
  const written = await model.generate(tokenizer(line, { truncation: true }));
  return TOKENIZER.decode(written.tolist()[0], { skip_special_tokens: true });
}
"""
_JS_CLASSIFIER = """
const { logits } = await model(tokenizer("a text", { truncation: true }));
const scores = logits.tolist()[0];
console.log(model.config.id2label[scores.indexOf(Math.max(...scores))]);
"""
_JS_DECODER = """
const written = await model.generate({ ...tokenizer("a text"), max_new_tokens: 50 });
console.log(tokenizer.decode(written.tolist()[0], { skip_special_tokens: true }));
"""
_JS_ENCODER = """
const { last_hidden_state } = await model(tokenizer("a text"));
console.log(last_hidden_state.dims);
"""


def usage(target: str, config: ModelConfig, joint: bool = True) -> tuple[str, str]:
    """Returns the language of a snippet that runs the model in FOLDER, and the snippet.

    Args:
        target: hf, ct2 or onnx.
        joint: whether one tokenizer is for both sides; else that of the target lies in the folder `target`.
    """
    kind = "classifier" if config.num_classes else config.family
    if target == "hf":
        snippets = {"encoder-decoder": _HF_PAIR, "classifier": _HF_CLASSIFIER, "decoder": _HF_DECODER}
        text, opens = snippets.get(kind, _HF_ENCODER), 'AutoTokenizer.from_pretrained("FOLDER/target")'
    elif target == "ct2":
        text = _CT2_PAIR if kind == "encoder-decoder" else _CT2_DECODER
        text = text.replace("LONGEST", str(min(256, config.max_positions - 1)))
        opens = 'Tokenizer.from_file("FOLDER/target/tokenizer.json")'
    else:
        classes = {
            "encoder-decoder": ("AutoModelForSeq2SeqLM", _JS_PAIR),
            "classifier": ("AutoModelForSequenceClassification", _JS_CLASSIFIER),
            "decoder": ("AutoModelForCausalLM", _JS_DECODER),
            "encoder": ("AutoModel", _JS_ENCODER),
        }
        text = _JS_IMPORT.replace("CLASS", classes[kind][0]) + classes[kind][1]
        opens = 'await AutoTokenizer.from_pretrained("FOLDER/target")'
    if joint:
        return ("js" if target == "onnx" else "py"), text.replace("TOKENIZER", "tokenizer")
    line = next(line for line in text.splitlines() if line.startswith(("tokenizer =", "const tokenizer =")))
    const = "const " if target == "onnx" else ""
    end = ";" if target == "onnx" else ""
    text = text.replace(line, f"{line}\n{const}targetTokenizer = {opens}{end}", 1)
    return ("js" if target == "onnx" else "py"), text.replace("TOKENIZER", "targetTokenizer")


def export_card(
    target: str, config: ModelConfig, *, tokenizers: Tokenizers | None = None, original: str = "", proof: str = ""
) -> str:
    """Returns the card of an exported model; it names no path, host or time.

    Args:
        target: hf, ct2 or onnx.
        original: the card of the model that was exported: it stands below, what its head says of the model above.
        proof: what the comparison of both sides said.
    """
    lines, body = parted(original)
    language, snippet = usage(target, config, tokenizers is None or tokenizers.joint)
    parts = [
        f"# A model for {LIBRARIES[target]}",
        "Converted by Pellucid. FOLDER stands for this one.",
        f"```{language}\n{snippet}```",
    ]
    if config.family == "encoder-decoder":
        parts.append(BLANK)
        if target == "hf" and config.norm == "post" and not config.embedding_norm:
            parts.append(MARIAN_NOTE)
    if proof:
        parts.append(f"## The proof\n\n```\n{proof.strip()}\n```")
    if body.strip():
        parts.append(f"## The original's card\n\n{body.strip()}")
    head = {"library_name": LIBRARIES[target], "pipeline_tag": task_of(config).pipeline_tag}
    return card(head, "\n\n".join(parts), kept(lines, KEPT))
