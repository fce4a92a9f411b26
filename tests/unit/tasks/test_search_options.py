"""The record of a search's options: what does not go together, and that all lists of the options agree."""

import inspect
import pickle
import re
from dataclasses import fields
from typing import Any

import pytest

from pellucid.cli.commands import load_command
from pellucid.cli.search_options import OPTIONS, make_search_options
from pellucid.config import DecodeConfig, SamplingConfig
from pellucid.errors import ConfigError, DecodingError
from pellucid.tasks.search_options import (
    NOT_SAMPLED,
    SAMPLING,
    SETTINGS,
    AnswerOptions,
    LineOptions,
    SampleOptions,
    SearchOptions,
)
from pellucid.tasks.translator import Translator

DEFAULTS = {field.name: field.default for field in fields(SearchOptions)}
VALUES: dict[str, Any] = {
    "search": print, "beam_size": 4, "n_best": 2, "length_penalty": 0.5, "min_length": 0, "no_repeat_ngram_size": 0,
    "prefixes": [""], "terms": [("a", "b")], "constraints": [[]], "beam_groups": 2, "diversity_penalty": 0.0,
    "rerank": "file", "next_token_alternatives": 2, "memory": "file", "temperature": 0.5, "top_k": 0, "top_p": 1.0,
    "epsilon_cutoff": 0.0, "seed": 0,
}  # fmt: skip
"""A value of each option, 0 where that is one."""


@pytest.mark.parametrize("names", [LineOptions, SampleOptions, AnswerOptions])
def test_the_type_checker_knows_the_types_of_the_record(names: Any) -> None:
    types = {field.name: field.type for field in fields(SearchOptions)}
    listed = {name: getattr(kind, "__forward_arg__", kind) for name, kind in names.__annotations__.items()}
    assert listed == {name: types[name] for name in listed}


def test_the_type_checker_knows_all_options() -> None:
    flat = {"sample", *SAMPLING}  # of `sample` and of the command line
    assert {*AnswerOptions.__annotations__} == {*DEFAULTS} - flat
    assert {*SampleOptions.__annotations__} == {*SAMPLING, "mbr"} | {
        "source_language", "target_language", "batch_tokens", "segment", "confidence", "keep", "protect",
        "min_confidence", "below",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("method", "positional", "names"),
    [
        (Translator.translate, ["self", "sources"], LineOptions),
        (Translator.sample, ["self", "sources", "config", "max_length"], SampleOptions),
    ],
)
def test_help_shows_each_option_with_its_default_and_its_description(
    method: Any, positional: list[str], names: Any
) -> None:
    parameters = inspect.signature(method).parameters
    own = {name: parameters[name] for name in parameters if name not in positional}
    assert [*parameters] == [*positional, *own]
    assert {name: one.default for name, one in own.items()} == {name: DEFAULTS[name] for name in names.__annotations__}
    assert {one.kind for one in own.values()} == {inspect.Parameter.KEYWORD_ONLY}
    described = re.findall(
        r"^            (\w+): \S", inspect.cleandoc(method.__doc__).replace("\n    ", "\n" + " " * 12), re.M
    )
    assert {*own} <= {*described}
    assert "options" not in described
    assert max(map(len, method.__doc__.splitlines())) <= 120


@pytest.mark.parametrize("call", ["translate", "sample"])
def test_a_call_refuses_the_options_of_others(finished_run: Any, call: str) -> None:
    method = getattr(Translator.load(finished_run, "cpu"), call)
    for name in ("sampling", "prefixed", "beem_size"):
        with pytest.raises(
            TypeError, match=rf"^Translator\.{call}\(\) got an unexpected keyword argument '{name}'"
        ) as e:
            method(["a"], **{name: None})
    assert str(e.value).endswith("did you mean `beam_size`?") == (call == "translate")


def test_the_command_has_each_option_that_declares_its_help() -> None:
    """Options that are files or languages, or that no command has, are the only ones without a help text."""
    assert {*DEFAULTS} - {*OPTIONS} == {
        "search", "source_language", "target_language", "max_source_length", "decode", "confidence", "prefixes",
        "terms", "constraints", "sampling", "prefixed", "termed",
    }  # fmt: skip
    assert {*OPTIONS} <= {*inspect.signature(load_command("translate")).parameters}


def test_a_command_leaves_out_what_it_was_not_given() -> None:
    nothing = {name: one.default for name, one in inspect.signature(load_command("translate")).parameters.items()}
    unset = {name: nothing[name] for name in OPTIONS}
    assert make_search_options(unset).non_defaults == {}
    found = make_search_options(unset | {"min_length": 0, "keep": ("a", "b"), "max_length": 3}, prefixed=True)
    assert found.non_defaults == {"min_length": 0, "keep": ("a", "b"), "max_length": 3, "prefixed": True}
    with pytest.raises(TypeError, match=r"^no option of a search: decode$"):
        make_search_options({"decode": None})


def test_settings_and_sampling_name_fields() -> None:
    assert {*SETTINGS} <= {field.name for field in fields(DecodeConfig)}
    assert {*SAMPLING, *NOT_SAMPLED} == {*VALUES}
    assert {*VALUES} <= {*DEFAULTS}


@pytest.mark.parametrize("name", NOT_SAMPLED)
@pytest.mark.parametrize(
    ("sampled", "reason"),
    [
        ({"sample": True}, "sample=True"),
        ({"sampling": SamplingConfig()}, "sampling="),
        ({"sample": True, "mbr": 4}, "mbr="),
    ],
)
def test_sampling_takes_no_option_of_a_search(name: str, sampled: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=f"^`{name}=` cannot be combined with `{reason}`$") as error:
        SearchOptions(**sampled, **{name: VALUES[name]})
    assert error.value.hint == f"leave `{name}=` out"


@pytest.mark.parametrize(("name", "option"), [("prefixed", "prefixes"), ("termed", "constraints")])
def test_pairs_go_by_the_option_that_they_are_of(name: str, option: str) -> None:
    with pytest.raises(ConfigError, match=f"^`{option}=` cannot be combined with `sample=True`$"):
        SearchOptions(sample=True, **{name: True})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"^`prefixes=` and `constraints=` cannot be combined$"):
        SearchOptions(prefixed=True, termed=True)


@pytest.mark.parametrize("name", SAMPLING)
def test_options_of_sampling_need_it(name: str) -> None:
    with pytest.raises(ConfigError, match=f"^`{name}=` requires `sample=True`$"):
        SearchOptions(**{name: VALUES[name]})


def test_options_of_sampling_win_over_the_object() -> None:
    options = SearchOptions(sampling=SamplingConfig(top_k=3, seed=5), seed=0, temperature=0.5)
    assert options.sampling == SamplingConfig(top_k=3, seed=0, temperature=0.5)
    assert SearchOptions(mbr=2).sampling == SamplingConfig()
    assert SearchOptions(beam_size=1).sampling is None
    with pytest.raises(DecodingError, match="`top_p` "):
        SearchOptions(sample=True, top_p=2.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"search": print, "beam_groups": 2}, "`search=` is a custom search, which has no `beam_groups=`"),
        ({"search": print, "diversity_penalty": 1.0}, "`search=` is a custom search, which has no `beam_groups=`"),
        ({"diversity_penalty": 0.0}, "`diversity_penalty=` requires `beam_groups=`"),
        ({"next_token_alternatives": 0}, "`next_token_alternatives=0` must be a whole number from 1 to 1,024"),
        ({"next_token_alternatives": True}, "`next_token_alternatives=True` must be a whole number from 1 to 1,024"),
        (
            {"next_token_alternatives": 2, "n_best": 1},
            "`n_best=` selects one translation, and `next_token_alternatives=2` returns several",
        ),
        ({"next_token_alternatives": 2, "rerank": "x"}, "`rerank=` selects one translation"),
        ({"mbr": 1}, "`mbr=1` must be from 2 to 1,024 samples"),
    ],
)
def test_what_does_not_go_together(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        SearchOptions(**options)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    "options", [{}, {"beam_size": 4, "terms": [("a", "b")]}, {"sample": True, "seed": 4, "max_length": None}]
)
def test_what_is_given_makes_an_equal_record_in_another_process(options: dict[str, Any]) -> None:
    record = SearchOptions(**options)
    assert SearchOptions(**record.non_defaults).non_defaults == record.non_defaults
    assert pickle.loads(pickle.dumps(record)) == record
    assert SearchOptions(**record.non_defaults).sampling == record.sampling


def test_settings_of_a_call_win_over_the_models() -> None:
    own = DecodeConfig(beam_size=3, max_length=7, length_penalty=0.2)
    assert SearchOptions().settings(own) == own
    found = SearchOptions(beam_size=2, max_length=None).settings(own)
    assert found == DecodeConfig(beam_size=2, max_length=None, length_penalty=0.2)
    assert SearchOptions(decode=DecodeConfig(beam_size=9), n_best=9).settings(own) == DecodeConfig(
        beam_size=9, n_best=9
    )
    widened = SearchOptions(n_best=6).settings(own, candidates=8)
    assert (widened.beam_size, widened.n_best) == (8, 6)
    with pytest.raises(ConfigError, match="`beam_size=4` is smaller than the 8 best that are reranked"):
        SearchOptions(beam_size=4).settings(own, candidates=8)


def test_options_that_another_process_received_have_the_same_record() -> None:
    """A copy of a default equals it, but is another object: the record of a folder would be of another command."""
    for options in (SearchOptions(), SearchOptions(max_length=9), SearchOptions(keep=("a",), beam_size=3)):
        assert pickle.loads(pickle.dumps(options)).non_defaults == options.non_defaults
    assert pickle.loads(pickle.dumps(SearchOptions())).non_defaults == {}
