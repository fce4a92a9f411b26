"""README.md of an exported model: its description, its use in the other library, and the verification report."""

from pellucid.config.tasks import get_task
from pellucid.weights.card import card, select_entries, split_front_matter
from pellucid.weights.export.calls import ExportedCall

LIBRARIES = {"hf": "transformers", "ct2": "ctranslate2", "onnx": "transformers.js"}
"""The name on model hubs of the library that opens a folder."""
KEPT = (
    "language", "license", "license_name", "license_link", "licence", "licence_name", "licence_link", "datasets",
    "tags", "model-index",
)  # fmt: skip
"""Front matter entries that are true of a model in every format."""

MARIAN_NOTE = """\
Positions are stored in `model.safetensors`, as `model.encoder.embed_positions.weight` and
`model.decoder.embed_positions.weight`: they are not the ones that MarianMTModel computes. `from_pretrained` reads them,
`save_pretrained` leaves them out. Who trains this model further with transformers and saves it must copy these two
tensors into the new file.
"""
BLANK = "The model was not trained on blank lines, so the call returns an empty text for a blank line."
SENTENCES = "Pellucid itself translates a line of several sentences one by one; this call takes the line as it is."
_IN_A_PAGE = """\
In a web page, or in Node, it runs with transformers.js, which searches greedily and takes text that spells a special
token for that token. The proof below is of the Python above.
"""

_JS_IMPORT = """\
import { CLASS, AutoTokenizer, env } from "@huggingface/transformers";

env.localModelPath = "./"; // the folder is next to the page; nothing is downloaded
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


_SHOWN = {
    "translate": 'print(translate("a line"))', "generate": 'print(generate("a text"))',
    "classify": 'print(classify("a line"))', "encode": 'print(encode("a line").shape)',
}  # fmt: skip


def javascript(call: ExportedCall) -> str:
    """Returns a snippet that runs the ONNX graphs in FOLDER with transformers.js; empty if it cannot run them."""
    if call.reading.opens_with != "tokenizers" or len(call.decode.target_prefix) > 1:
        return ""
    name, snippet = {
        "translate": ("AutoModelForSeq2SeqLM", _JS_PAIR),
        "classify": ("AutoModelForSequenceClassification", _JS_CLASSIFIER),
        "generate": ("AutoModelForCausalLM", _JS_DECODER),
        "encode": ("AutoModel", _JS_ENCODER),
    }[call.name]
    text = _JS_IMPORT.replace("CLASS", name) + snippet
    if not call.reading.apart:
        return text.replace("TOKENIZER", "tokenizer")
    line = next(line for line in text.splitlines() if line.startswith("const tokenizer ="))
    target = 'const targetTokenizer = await AutoTokenizer.from_pretrained("FOLDER/target");'
    return text.replace(line, f"{line}\n{target}", 1).replace("TOKENIZER", "targetTokenizer")


def export_card(call: ExportedCall, *, original: str = "", proof: str = "", languages: str = "", tag: str = "") -> str:
    """Returns the card of an exported model; it names no path, host or time.

    Args:
        call: the call that the card shows.
        original: the card of the exported model: its text goes to the end, its front matter entries to the top.
        proof: the report of the comparison of both sides.
        languages: for a multilingual model the languages that the folder translates between, as in "de to fr".
        tag: the first token of a text that names the target language, if the folder has not chosen one.
    """
    lines, body = split_front_matter(original)
    config, target = call.config, call.target
    parts = [
        f"# A model for {LIBRARIES[target]}",
        "Converted by Pellucid. FOLDER is the path of this folder.",
        f"```py\n{call.code()}\n\n{_SHOWN[call.name] if call.reading.opens_with != 'ids' else ''}\n```".replace(
            "\n\n\n```", "```"
        ),
    ]
    if call.reading.opens_with == "ids":
        reason = f" ({call.reading.reason})" if call.reading.reason else ""
        parts.append(f"The folder has no tokenizer{reason}: the function takes ids and returns ids.")
    elif call.reading.reason and call.reading.opens_with == "sentencepiece":
        parts.append(f"There is no tokenizer.json: {call.reading.reason}.")
    if languages:
        parts.append(
            f"It translates from {languages}: the codes of both are written into the tokenizer and into the call. For "
            "another pair convert the model again, with `--src-lang` and `--tgt-lang`."
        )
    if tag:
        parts.append(f"A text begins with the language to write, as in `{tag} a line`.")
    if call.name == "translate":
        parts.append(f"{BLANK} {SENTENCES}")
        if target == "hf" and config.norm == "post" and not config.embedding_norm:
            parts.append(MARIAN_NOTE)
    if target == "onnx" and (snippet := javascript(call)):
        parts.append(f"{_IN_A_PAGE}\n\n```js\n{snippet}```")
    if proof:
        parts.append(f"## The proof\n\n```\n{proof.strip()}\n```")
    if body.strip():
        parts.append(f"## The original's card\n\n{body.strip()}")
    head = {"library_name": LIBRARIES[target], "pipeline_tag": get_task(config).pipeline_tag}
    return card(head, "\n\n".join(parts), select_entries(lines, KEPT))
