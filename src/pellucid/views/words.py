"""Names the parts of a model in pictures, from `words.json` in English and Korean, which pages contain, too."""

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pellucid.analysis.contributions import LogitComponent


@cache
def words() -> dict[str, tuple[str, str]]:
    """Returns the names by key, in English and in Korean; `{layer}` and the like are placeholders."""
    table = json.loads(files("pellucid.views").joinpath("words.json").read_text(encoding="utf-8"))
    return {key: (english, korean) for key, (english, korean) in table.items()}


def log_line(key: str, **values: object) -> str:
    """Returns a name in English with its placeholders filled; an unknown key is returned unchanged."""
    return words()[key][0].format(**values) if key in words() else key


def name_attention(attention: str, layer: int, head: int | None = None) -> str:
    """Returns the name of an attention in a layer, and of one of its heads: "layer 2, cross-attention, head 0"."""
    key = "layer and part" if head is None else "layer, part and head"
    return log_line(key, layer=layer, part=log_line(attention), head=head)


def name_part(part: "LogitComponent") -> str:
    """Returns the name of a part that contributes to a logit."""
    if part.layer is None:
        return log_line(part.name)
    return name_attention(part.attention or "feed_forward", part.layer, part.head)


def name_stage(stage: str) -> str:
    """Returns the name of a stage of the lens: "layer 0, self-attention" for "layer 0 self_attn"."""
    first, _, rest = stage.partition(" ")
    layer, _, sublayer = rest.partition(" ")
    return name_attention(sublayer, int(layer)) if first == "layer" and layer.isdecimal() else log_line(stage)
