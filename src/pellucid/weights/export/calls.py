"""The call that runs an exported model: README.md shows it, and the verification of the conversion executes it."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.text.remapped_sentencepiece import RemappedSentencePiece
from pellucid.text.tokenizers import TokenizerPair
from pellucid.weights.export.tokenizer_files import TokenizerFiles, around, find_tokenizer_files, make_id_names

Target = Literal["hf", "ct2", "onnx"]
FOLDER = "FOLDER"
"""The placeholder for the folder in README.md."""

_HF = """\
IMPORTfrom transformers import CLASS, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("FOLDER")
TARGET_TOKENIZERmodel = CLASS.from_pretrained("FOLDER")


"""
_HF_IDS = """\
import torch
from transformers import CLASS

model = CLASS.from_pretrained("FOLDER")


"""
_HF_TRANSLATE = """\
def translate(line, beam_size=BEAM_SIZE):
BLANK    source = TENSORS
    longest = LONGEST
    written = model.generate(**source, num_beams=beam_size, max_new_tokens=longestSTART)[0]
    return TEXT
"""
_HF_GENERATE = """\
def generate(prompt, max_new_tokens=50):
    given = TENSORS
    room = POSITIONS - COUNT
    written = model.generate(**given, max_new_tokens=min(max_new_tokens, room), do_sample=False)[0]
    GENERATED
"""
_HF_CLASSIFY = """\
def classify(line):
    with torch.inference_mode():
        logits = model(**TENSORS).logits[0]
    return {model.config.id2label[i]: float(p) for i, p in enumerate(logits.softmax(-1))}
"""
_HF_ENCODE = """\
def encode(line):
    with torch.inference_mode():
        return model(**TENSORS).last_hidden_state[0].numpy()  # (S, D)
"""
_TOKENIZERS = """\
tokenizer = Tokenizer.from_file("FOLDER/tokenizer.json")
tokenizer.encode_special_tokens = True  # text that reads </s> is text
"""
_TARGET_TOKENIZERS = """\
target_tokenizer = Tokenizer.from_file("FOLDER/target/tokenizer.json")
"""
_CT2 = """\
import ctranslate2
OPENING
ENGINE = ctranslate2.CLASS("FOLDER")


"""
_CT2_TRANSLATE = """\
def translate(line, beam_size=BEAM_SIZE):
BLANK    source = READ
    found = translator.translate_batch(
        [source],
        beam_size=beam_size,
        max_decoding_length=LONGEST,
        OPTIONS
    )
    words = found[0].hypotheses[0]SKIPPED
    return TEXT
"""
_CT2_GENERATE = """\
def generate(prompt, max_new_tokens=50):
    given = READ
    found = generator.generate_batch(
        [given],
        max_length=min(max_new_tokens, POSITIONS - len(given)),
        sampling_topk=1,
        include_prompt_in_result=False,
        OPTIONS
    )
    words = found[0].sequences[0]
    GENERATED
"""
_ONNX = """\
IMPORTimport numpy as np
import onnxruntime
OPENING
GRAPHS


def run(graph, feed):
    names = [output.name for output in graph.get_outputs()]
    return dict(zip(names, graph.run(None, feed)))


"""
_ONNX_TRANSLATE = """\
def translate(line):
BLANK    source = np.array([READ], dtype=np.int64)
    mask = np.ones_like(source)
    states = run(encoder, {"input_ids": source, "attention_mask": mask})["last_hidden_state"]
    feed = {"encoder_hidden_states": states, "encoder_attention_mask": mask}
    given, written = START, []
PAST    while len(written) < LONGEST:
        feed |= {"input_ids": np.array([given]), "use_cache_branch": np.array([len(written) > 0])}
STEP    return TEXT
"""
_ONNX_GENERATE = """\
def generate(prompt, max_new_tokens=50):
    start = given = READ
    feed, written = {}, []
PAST    while len(written) < min(max_new_tokens, POSITIONS - len(start)):
        feed["input_ids"] = np.array([given])
        feed["attention_mask"] = np.ones((1, len(start) + len(written)), dtype=np.int64)
STEP    GENERATED
"""
_PAST = """\
    for past in decoder.get_inputs():
        if past.name.startswith("past_"):
            feed[past.name] = np.zeros((1, past.shape[1], 0, past.shape[3]), dtype=np.float32)
"""
_STEP = """\
        found = run(decoder, feed)
        logits = found.pop("logits")[0, -1]
RULES        best = int(logits.argmax())
        if best in ENDS:
            break
        written.append(best)
        given = [best]
        feed |= {name.replace("present", "past_key_values"): value for name, value in found.items()}
"""
_ONNX_CLASSIFY = """\
def classify(line):
    source = np.array([READ], dtype=np.int64)
    feed = {"input_ids": source, "attention_mask": np.ones_like(source), "token_type_ids": np.zeros_like(source)}
    logits = run(model, {each.name: feed[each.name] for each in model.get_inputs()})["logits"][0]
    chances = np.exp(logits - logits.max())
    return {labels[str(i)]: float(p) for i, p in enumerate(chances / chances.sum())}
"""
_ONNX_ENCODE = """\
def encode(line):
    source = np.array([READ], dtype=np.int64)
    feed = {"input_ids": source, "attention_mask": np.ones_like(source), "token_type_ids": np.zeros_like(source)}
    return run(model, {each.name: feed[each.name] for each in model.get_inputs()})["last_hidden_state"][0]  # (S, D)
"""
_CLASSES = {
    "translate": "AutoModelForSeq2SeqLM", "generate": "AutoModelForCausalLM",
    "classify": "AutoModelForSequenceClassification", "encode": "AutoModel",
}  # fmt: skip
_BODIES = {
    "hf": {"translate": _HF_TRANSLATE, "generate": _HF_GENERATE, "classify": _HF_CLASSIFY, "encode": _HF_ENCODE},
    "ct2": {"translate": _CT2_TRANSLATE, "generate": _CT2_GENERATE},
    "onnx": {
        "translate": _ONNX_TRANSLATE, "generate": _ONNX_GENERATE, "classify": _ONNX_CLASSIFY, "encode": _ONNX_ENCODE,
    },
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ExportedCall:
    """A Python function, text in and text out, that runs an exported model.

    It is `translate(line)`, `generate(prompt)`, `classify(line)`, which returns the probability of each label, or
    `encode(line)`, which returns states (S, D). Without a tokenizer in the folder a text is a list of ids.
    """

    target: Target
    config: ModelConfig
    decode: DecodeConfig
    """Its search options, and the ids around a source and before an output."""
    reading: TokenizerFiles
    """The files that tokenize and detokenize text."""
    tokenizers: TokenizerPair | None = None
    quantized: bool = False
    """True if the graphs for ONNX Runtime have matrices of 8 bits."""

    @property
    def name(self) -> str:
        """Returns the name of the function."""
        if self.config.family == "encoder":
            return "classify" if self.config.num_classes else "encode"
        return "translate" if self.config.family == "encoder-decoder" else "generate"

    @property
    def has_beams(self) -> bool:
        """Returns True if the function takes `beam_size`, with a default above 1."""
        return self.name == "translate" and self.target != "onnx" and self.decode.beam_size > 1

    def bind(self, folder: Path) -> Callable[..., Any]:
        """Returns the function for a folder, by executing the lines that README.md shows.

        The only content of the folder's files in these lines is the names of tokens, as literals.
        """
        names: dict[str, Any] = {}
        exec(compile(self.code(json.dumps(str(folder))[1:-1]), "README.md", "exec"), names)
        function: Callable[..., Any] = names[self.name]
        return function

    def code(self, folder: str = FOLDER) -> str:
        """Returns the lines of Python that define the function."""
        table = getattr(self, f"_{self.target}")()
        heads = {"hf": _HF_IDS if self.reading.opens_with == "ids" else _HF, "ct2": _CT2, "onnx": _ONNX}
        template = heads[self.target] + _BODIES[self.target][self.name]
        for _ in range(2):  # a part may hold the name of another one
            template = _fill(template, table)
        # Last, and in one pass: the names of tokens and the folder may contain text like the name of a part.
        return _fill(template, {"FOLDER": folder} | {name: repr(each) for name, each in self._literals().items()})

    @cached_property
    def _names(self) -> Sequence[str]:
        """The names of the target's ids."""
        return make_id_names(self.tokenizers, "target", self.config.tgt_vocab_size)

    def _literals(self) -> dict[str, Any]:
        """Returns the literals of a call: ids, and for CTranslate2 the names of tokens."""
        decode = self.decode
        ends = [i for i in dict.fromkeys((self.config.eos_id, *decode.end_ids)) if i not in decode.suppress_tokens]
        banned = list(map(list, decode.banned))
        literals: dict[str, Any] = {"SUPPRESSED": self._suppressed, "ENDS": ends, "BANNED": banned}
        if self.target == "ct2":
            names = self._names
            runs = [[i] for i in self._suppressed] + banned
            literals = {"SUPPRESSED": [[names[i] for i in run] for run in runs], "ENDS": [names[i] for i in ends]}
            literals["PREFIX"] = [[names[i] for i in decode.target_prefix]]
        if self.reading.opens_with == "sentencepiece":
            assert self.tokenizers is not None
            before, after = around(self.config, decode)
            if self.target == "ct2":
                source = make_id_names(self.tokenizers, "source", self.config.src_vocab_size)
                literals |= {"BEFORE": [source[i] for i in before], "AFTER": [source[i] for i in after]}
                if decode.add_source_eos and not decode.source_suffix:
                    literals["AFTER"] = []  # the engine adds it
            else:
                literals |= {"BEFORE": list(before), "AFTER": list(after)}
            silent = sorted(_silent(self.tokenizers))
            literals["SILENT"] = [self._names[i] for i in silent] if self.target == "ct2" else silent
        return literals

    @property
    def _suppressed(self) -> list[int]:
        config = self.config
        if config.family == "encoder":
            return []
        special = {config.pad_id, config.bos_id} - {None, config.eos_id, *self.decode.end_ids} | {
            *self.decode.suppress_tokens
        }
        return sorted(i for i in special if i is not None and i < config.tgt_vocab_size)

    def _common(self) -> dict[str, str]:
        with_ids = self.reading.opens_with == "ids"
        blank = "" if with_ids else '    if not line.strip():\n        return ""\n'
        return {"BLANK": blank, "BEAM_SIZE": str(self.decode.beam_size), "POSITIONS": str(self.config.max_positions)}

    def _longest(self, tokens: str, more: int = 0, around_source: int | None = None) -> str:
        """Returns the expression for the most tokens of an output.

        Args:
            tokens: the expression for the source's number of tokens, special tokens included.
            more: the number of tokens that count in addition to the output's own.
        """
        base = self.decode.limit(0) + more
        slope = self.decode.limit(1) - self.decode.limit(0)
        room = self.config.max_positions - 1 - len(self.decode.target_prefix) + more
        if not slope:
            return str(min(base, room))
        rest = base - slope * (self.decode.added if around_source is None else around_source)
        return f"min({slope} * {tokens} {'+' if rest >= 0 else '-'} {abs(rest)}, {room})"

    def _hf(self) -> dict[str, str]:
        prefix, ids = self.decode.target_prefix, self.reading.opens_with == "ids"
        argument = "prompt" if self.name == "generate" else "line"
        tensors = f'tokenizer({argument}, return_tensors="pt", truncation=True)'
        if ids:
            tensors = f'{{"input_ids": torch.tensor([{argument}])}}'
        elif self.name == "generate":
            tensors = f'tokenizer({argument}, return_tensors="pt")'
        count = "len(line)" if ids else "source.input_ids.size(1)"
        start, more, forced = "", 1 + len(prefix), len(prefix)
        if len(prefix) > 1:  # transformers forces one token alone
            start, more = f", decoder_input_ids=torch.tensor([{[self.config.bos_id, *prefix]}])", 1
        side = "target_tokenizer" if self.reading.apart else "tokenizer"
        text = f'" ".join({side}.decode(written, skip_special_tokens=True).splitlines())'
        generated = (
            "before = tokenizer.decode(given.input_ids[0], skip_special_tokens=True)\n"
            "    return prompt + tokenizer.decode(written, skip_special_tokens=True)[len(before) :]"
        )
        if self.decode.end_ids and not ids:  # ids that may not be special tokens to the tokenizer
            last = "written[:-1] if int(written[-1]) in ENDS else written"
            text, generated = (each.replace("written,", f"{last},") for each in (text, generated))
        if ids:
            ends = {self.config.eos_id, self.config.pad_id} - {None}
            text = f"[i for i in written.tolist()[{1 + forced}:] if i not in {sorted(ends)}]"  # type: ignore[type-var]
            generated = "return written.tolist()"
        needs_torch = bool(start) or self.name in ("classify", "encode")
        return self._common() | {
            "IMPORT": "import torch\n" if needs_torch else "", "CLASS": _CLASSES[self.name], "TENSORS": tensors,
            "COUNT": "len(prompt)" if ids else "given.input_ids.size(1)",
            "LONGEST": self._longest(count, more), "START": start, "TEXT": text, "GENERATED": generated,
            "TARGET_TOKENIZER":
                'target_tokenizer = AutoTokenizer.from_pretrained("FOLDER/target")\n' if self.reading.apart else "",
        }  # fmt: skip

    def _make_opening(self) -> tuple[str, str]:
        """Returns the imports and the lines that open the tokenizer, and the standard imports before them."""
        library, apart = self.reading.opens_with, self.reading.apart
        if library == "tokenizers":
            opened = _TOKENIZERS + (_TARGET_TOKENIZERS if apart else "")
            return "", "from tokenizers import Tokenizer\n\n" + opened.rstrip("\n")
        if library == "ids":
            return "", ""
        sides = ("source", "target") if apart else ("tokenizer",)
        lines = [
            f'{name} = SentencePieceProcessor(model_file="FOLDER/{side}.model")'
            for name, side in zip(("pieces", "target_pieces"), sides, strict=False)
        ]
        standard = ""
        if self.target != "ct2" and self._is_numbered():
            standard = "import json\nfrom pathlib import Path\n\n"
            files = ("source", "target") if apart else ("numbers",)
            lines += [
                f'{name} = json.loads(Path("FOLDER/{file}.json").read_text("utf-8"))["ids"]'
                for name, file in zip(("ids", "target_ids"), files, strict=False)
            ]
        return standard, "from sentencepiece import SentencePieceProcessor\n\n" + "\n".join(lines)

    def _is_numbered(self) -> bool:
        return self.tokenizers is not None and isinstance(self.tokenizers.source, RemappedSentencePiece)

    def _ct2(self) -> dict[str, str]:
        decode, library = self.decode, self.reading.opens_with
        side = "target_" if self.reading.apart else ""
        argument = "prompt" if self.name == "generate" else "line"
        if library == "tokenizers":
            read = f"[tokenizer.id_to_token(i) for i in tokenizer.encode({argument}).ids]"
            ids = f"[{side}tokenizer.token_to_id(word) for word in words]"
            if self.tokenizers is not None and self.config.tgt_vocab_size > self.tokenizers.target.size:
                ids = f"[i for word in words if (i := {side}tokenizer.token_to_id(word)) is not None]"
            text = f"{side}tokenizer.decode({ids})"
            before = "tokenizer.decode(tokenizer.encode(prompt).ids)"
            whole = text.replace("in words", "in [*given, *words]")
        elif library == "sentencepiece":
            encoded = f"pieces.encode({argument}, out_type=str)"
            read = f"[*BEFORE, *{encoded}, *AFTER]"
            text = f'{side}pieces.decode([word for word in words if word not in SILENT]).replace("▁", " ").strip()'
            before, whole = f"pieces.decode({encoded})", text.replace("in words", "in [*given, *words]")
        else:
            read, text = f"[str(i) for i in {argument}]", "[int(word) for word in words]"
            before = whole = ""
        if library != "ids":
            text = f'" ".join({text}.splitlines())'
        generated = f"before = {before}\n    return prompt + {whole}[len(before) :]"
        options = [f"length_penalty={decode.length_penalty}"] if decode.length_penalty != 1.0 else []
        if self.name == "translate":
            least = len(decode.target_prefix) + decode.min_length if decode.min_length else 0
            options += [f"min_decoding_length={least}"]
            options += ["target_prefix=PREFIX"] if decode.target_prefix else []
        else:
            options = [f"min_length={decode.min_length}"]
        options += ["suppress_sequences=SUPPRESSED"] if self._suppressed or decode.banned else []
        options += [f"no_repeat_ngram_size={decode.no_repeat_ngram_size}"] if decode.no_repeat_ngram_size else []
        options += ["end_token=ENDS"] if decode.end_ids else []
        added = decode.added - (decode.add_source_eos and not decode.source_suffix)  # which the engine adds
        _, opening = self._make_opening()
        paired = self.name == "translate"
        return self._common() | {
            "OPENING": opening, "ENGINE": "translator" if paired else "generator", "READ": read, "TEXT": text,
            "CLASS": "Translator" if paired else "Generator",
            "LONGEST": self._longest("len(source)", len(decode.target_prefix), added),
            "OPTIONS": "\n        ".join(f"{option}," for option in options),
            "SKIPPED": f"[{len(decode.target_prefix)}:]" if decode.target_prefix else "",
            "GENERATED": "return [*prompt, *map(int, words)]" if library == "ids" else generated,
        }  # fmt: skip

    def _onnx(self) -> dict[str, str]:
        library, side = self.reading.opens_with, "target_" if self.reading.apart else ""
        argument = "prompt" if self.name == "generate" else "line"
        text, before, whole = "written", "", ""
        if library == "tokenizers":
            read, text = f"tokenizer.encode({argument}).ids", f"{side}tokenizer.decode(written)"
            before, whole = "tokenizer.decode(start)", "tokenizer.decode([*start, *written])"
        elif library == "sentencepiece":
            given = f"*pieces.encode({argument})"
            joined = f"{side}pieces.decode([i for i in written if i not in SILENT])"
            if self._is_numbered():
                assert self.tokenizers is not None
                unknown = self.tokenizers.source.unk_id
                given = f"*(ids.get(piece, {unknown}) for piece in pieces.encode({argument}, out_type=str))"
                names = f"{{i: piece for piece, i in {side}ids.items()}}"
                joined = f"{side}pieces.decode([{names}[i] for i in written if i not in SILENT])"
                joined += '.replace("▁", " ").strip()'
            read, text = f"[*BEFORE, {given}, *AFTER]", joined
            whole, before = joined.replace("in written", "in [*start, *written]"), joined.replace("written", "start")
        else:
            read = argument
        generated = f"before = {before}\n    return prompt + {whole}[len(before) :]"
        ending = "_quantized.onnx" if self.quantized else ".onnx"
        graphs = {
            "translate": (("encoder", "encoder_model"), ("decoder", "decoder_model_merged")),
            "generate": (("decoder", "model"),),
        }.get(self.name, (("model", "model"),))
        opened = [f'{name} = onnxruntime.InferenceSession("FOLDER/onnx/{graph}{ending}")' for name, graph in graphs]
        standard, opening = self._make_opening()
        if self.name == "classify":
            standard = "import json\nfrom pathlib import Path\n\n"
            opened.append('labels = json.loads(Path("FOLDER/config.json").read_text("utf-8"))["id2label"]')
        return self._common() | {
            "IMPORT": standard, "OPENING": opening, "GRAPHS": "\n".join(opened), "READ": read,
            "START": str([self.config.bos_id, *self.decode.target_prefix]), "PAST": _PAST, "STEP": _STEP,
            "RULES": self._rules(),
            "LONGEST": self._longest("source.shape[1]"),
            "TEXT": text if library == "ids" else f'" ".join({text}.splitlines())',
            "GENERATED": "return [*start, *written]" if library == "ids" else generated,
        }  # fmt: skip

    def _rules(self) -> str:
        """Returns the lines for ONNX Runtime that mask forbidden tokens in the logits."""
        decode, found = self.decode, ""
        if self._suppressed:
            found += "        logits[SUPPRESSED] = -np.inf\n"
        if decode.min_length:
            found += f"        if len(written) < {decode.min_length}:\n            logits[ENDS] = -np.inf\n"
        if decode.banned or decode.no_repeat_ngram_size:
            begin = "start" if self.name == "generate" else str(list(decode.target_prefix))
            found += f"        whole = [*{begin}, *written]\n"
        if decode.banned:
            found += (
                "        for ids in BANNED:\n"
                "            if len(whole) >= len(ids) - 1 and whole[len(whole) - len(ids) + 1 :] == ids[:-1]:\n"
                "                logits[ids[-1]] = -np.inf\n"
            )
        if size := decode.no_repeat_ngram_size:
            found += (
                f"        for at in range(len(whole) - {size - 1}):\n"
                f"            if whole[at : at + {size - 1}] == whole[len(whole) - {size - 1} :]:\n"
                f"                logits[whole[at + {size - 1}]] = -np.inf\n"
            )
        return found


def _silent(tokenizers: TokenizerPair) -> set[int]:
    """Returns the target's ids that decoding leaves out."""
    target = tokenizers.target
    if isinstance(target, RemappedSentencePiece):
        return {*target.silent}
    return {target.pad_id, target.bos_id, target.eos_id}


def _fill(template: str, table: dict[str, str]) -> str:
    """Returns the template with each uppercase name in the table replaced, all in one pass."""
    return re.sub(r"[A-Z][A-Z_]+", lambda name: table.get(name[0], name[0]), template)


def make_call(
    folder: Path,
    target: Target,
    config: ModelConfig,
    decode: DecodeConfig | None = None,
    tokenizers: TokenizerPair | None = None,
    *,
    quantized: bool = False,
) -> ExportedCall:
    """Returns the call of a folder exported for a library, which opens the folder's files."""
    reading = find_tokenizer_files(folder, tokenizers)
    if target == "hf" and reading.opens_with == "sentencepiece":
        reading = replace(reading, opens_with="ids")
    return ExportedCall(
        target=target, config=config, decode=decode or DecodeConfig(), tokenizers=tokenizers, quantized=quantized,
        reading=reading,
    )  # fmt: skip
