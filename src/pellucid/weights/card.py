"""Model cards: a README.md with the YAML front matter that model hubs read."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pellucid.config import ModelConfig, Task

CARD = "README.md"
"""The file name of a folder's model card."""
PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./ +-]*[A-Za-z0-9]")
NOT_TEXT = ("yes", "no", "on", "off", "true", "false", "null")
"""Words that YAML does not read as text: Norwegian's code `no` would be false."""


def card(head: Mapping[str, Any], body: str, more: Sequence[str] = ()) -> str:
    """Returns a card: `head` as YAML without empty entries, then the YAML lines `more`, then the Markdown body."""
    filled = {key: value for key, value in head.items() if value not in ("", (), [], None)}
    return "\n".join(["---", *_yaml(filled), *more, "---", "", body.strip()]) + "\n"


def usage(task: Task) -> str:
    """Returns the usage section of a model card: command line, Python, other libraries."""
    return f"""## Use

    {task.command}

```py
import pellucid

print(pellucid.{task.class_name}.load("FOLDER").{task.method}(["..."]))
```

For other programs: `pellucid convert FOLDER NEW --to hf` (transformers), `ct2` (CTranslate2) or `onnx` (a browser)."""


def plain_card(task: Task, model: ModelConfig, languages: Collection[str] = ()) -> str:
    """Returns the card of a model with only its task and its sizes; it names no path, host or time."""
    head = {"library_name": "pellucid", "pipeline_tag": task.pipeline_tag, "language": sorted(languages)}
    rows = {
        "encoder / decoder layers": f"{model.num_encoder_layers} / {model.num_decoder_layers}",
        "d_model, d_ff, heads": f"{model.d_model}, {model.d_ff}, {model.num_heads}",
        "vocabulary": f"{model.src_vocab_size:,} / {model.tgt_vocab_size:,}",
    }
    table = "".join(f"| {name} | {value} |\n" for name, value in rows.items())
    about = usage(task) if task.command else ""
    return card(head, f"# {task.title}\n\n| | |\n| --- | --- |\n{table}\n{about}")


def split_front_matter(text: str) -> tuple[list[str], str]:
    """Returns the lines of a card's front matter and its body; no lines if it has no front matter."""
    match = re.match(r"---\n(.*?)\n---\n(.*)", text, re.DOTALL)
    return (match[1].splitlines(), match[2]) if match else ([], text)


def select_entries(lines: list[str], keys: tuple[str, ...]) -> list[str]:
    """Returns the front matter entries whose keys are in `keys`, with their continuation lines."""
    found, keeps = [], False
    for line in lines:
        if key := re.match(r"([\w-]+):", line):
            keeps = key[1] in keys
        if keeps:
            found.append(line)
    return found


def _yaml(value: Any) -> list[str]:
    """Returns the YAML lines of a table or a list."""
    lines = []
    for key, entry in value.items() if isinstance(value, Mapping) else enumerate(value):
        lead = f"{key}:" if isinstance(value, Mapping) else "-"
        if not isinstance(entry, Mapping | list | tuple):
            lines.append(f"{lead} {_scalar(entry)}")
            continue
        inner = _yaml(entry)
        if lead == "-":
            lines += [f"- {inner[0]}", *(f"  {line}" for line in inner[1:])]
        else:
            lines += [lead, *(f"  {line}" for line in inner)]
    return lines


def _scalar(value: Any) -> str:
    if isinstance(value, str) and PLAIN.fullmatch(value) and value.lower() not in NOT_TEXT:
        return value
    return json.dumps(value, ensure_ascii=False)
