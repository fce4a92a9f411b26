"""The exercises, in the order in which they are judged, and the names under which tutorials define them."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from torch import nn

from pellucid.errors import ConfigError, did_you_mean, format_value
from pellucid.judge.attention import judge_attention
from pellucid.judge.calling import normalize_name
from pellucid.judge.conventions import Conventions
from pellucid.judge.findings import Finding
from pellucid.judge.heads import judge_heads
from pellucid.judge.layers import judge_decoder_layer, judge_encoder_layer
from pellucid.judge.loss import judge_loss
from pellucid.judge.masks import judge_causal_mask, judge_padding_mask
from pellucid.judge.norm import judge_norm
from pellucid.judge.positions import judge_positions
from pellucid.judge.schedule import judge_schedule
from pellucid.judge.search import judge_beam, judge_greedy


@dataclass(frozen=True)
class Exercise:
    """A part of the Transformer that can be judged.

    Args:
        name: the name that `check` prints.
        judge: judges an object by conventions of the other parts.
        aliases: other names, in lower case without underscores.
    """

    name: str
    judge: Callable[[Any, Conventions], Finding]
    aliases: tuple[str, ...] = ()


EXERCISES = {each.name: each for each in (
    Exercise("causal_mask", judge_causal_mask, (
        "subsequentmask", "lookaheadmask", "createlookaheadmask", "generatecausalitymask",
        "generatesquaresubsequentmask",
        "makecausalmask", "getsubsequentmask", "createcausalmask", "getattnsubsequentmask", "getattnsubsequencemask",
        "nopeakmask", "makesubsequentmask", "futuremask", "getcausalmask", "generatecausalmask", "causalitymask",
    )),
    Exercise("padding_mask", judge_padding_mask, (
        "createpaddingmask", "generatepaddingmask", "makepadmask", "makepaddingmask", "getpadmask", "getattnpadmask",
        "padmask",
        "makesrcmask", "createpadmask", "getpaddingmask", "createsrcmask", "getsrcmask",
    )),
    Exercise("attention", judge_attention, (
        "scaleddotproductattention", "dotproductattention", "sdpa", "scaleddotattention", "attn", "scaleattention",
        "calculateattention",
    )),
    Exercise("MultiHeadAttention", judge_heads, (
        "multiheadedattention", "multiheadselfattention", "mha", "multiheadattentionlayer", "selfattention",
        "causalselfattention", "multiheadattentionblock", "multiheadattn",
    )),
    Exercise("positional_encoding", judge_positions, (
        "positionalencoding", "sinusoids", "getpositionalencoding", "getsinusoidencodingtable",
        "sinusoidalpositionalencoding",
        "sinusoidalencoding", "positionalembedding", "sinusoidalpositions", "positionencoding", "sinusoidencoding",
    )),
    Exercise("LayerNorm", judge_norm, ("layernormalization", "layernorm", "norm")),
    Exercise("EncoderLayer", judge_encoder_layer, (
        "encoderblock", "transformerencoderlayer", "transformerblock", "transformerencoderblock", "encoderlayers",
    )),
    Exercise("DecoderLayer", judge_decoder_layer, ("decoderblock", "transformerdecoderlayer",
    "transformerdecoderblock")),
    Exercise("loss", judge_loss, (
        "lossfn", "crossentropy", "crossentropyloss", "labelsmoothing", "labelsmoothingloss", "computeloss", "calcloss",
        "smoothedcrossentropy", "calculateloss", "lossfunction", "celoss", "maskedcrossentropy", "maskedloss",
        "getloss",
    )),
    Exercise("learning_rate", judge_schedule, (
        "lr", "rate", "noam", "getlr", "learningratescheduler", "learningrateschedule", "noamlr", "lrschedule",
        "lrrate",
        "noamrate", "customschedule", "transformerschedule", "noamscheduler", "schedule", "getlearningrate",
        "noamschedule",
    )),
    Exercise("greedy", judge_greedy, ("greedydecode", "greedysearch", "greedydecoding", "translategreedy",
    "greedygenerate")),
    Exercise("beam", judge_beam, ("beamsearch", "beamdecode", "beamdecoding", "beamsearchdecode")),
)}  # fmt: skip
"""The exercises by name: masks first, as their meaning decides how an attention must read them."""


def find_exercise(name: str) -> Exercise:
    """Returns the exercise of a name or alias. Raises ConfigError if there is none."""
    if name in EXERCISES:
        return EXERCISES[name]
    plain = normalize_name(name)
    for exercise in EXERCISES.values():
        if plain == normalize_name(exercise.name) or plain in exercise.aliases:
            return exercise
    raise ConfigError(
        f"`{format_value(name)}` is no exercise{did_you_mean(name, EXERCISES)}", f"use one of {', '.join(EXERCISES)}"
    )


def find_parts(namespace: Mapping[str, Any], module: str) -> dict[str, Any]:
    """Returns the parts in a namespace by exercise: under its name, or under an alias if `module` defines them."""
    found: dict[str, Any] = {}
    for exercise in EXERCISES.values():
        plain = normalize_name(exercise.name)
        candidates = [
            (exercise.name != name, plain != normalize_name(name), value) for name, value in namespace.items()
            if _is_part(value) and (name == exercise.name or _is_own(value, module))
            and (normalize_name(name) == plain or normalize_name(name) in exercise.aliases)
        ]  # fmt: skip
        if candidates:
            found[exercise.name] = min(candidates, key=lambda each: each[:2])[2]
    return found


def _is_part(value: Any) -> bool:
    return callable(value) and not isinstance(value, ModuleType)


def _is_own(value: Any, module: str) -> bool:
    owner = (
        type(value).__module__ if isinstance(value, nn.Module) else getattr(inspect.unwrap(value), "__module__", module)
    )
    return owner == module
