"""Does the job of `pellucid inspect`: shows a pass, or a trace that was kept, as a page, a picture or a trace file."""

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from pellucid.analysis.align import with_line_words
from pellucid.analysis.alignment import Gold, read_gold
from pellucid.analysis.contributions import Contributions, against_likeliest, contributions
from pellucid.analysis.evolution import evolution
from pellucid.analysis.lens import lens
from pellucid.analysis.statistics import sink_columns, statistics
from pellucid.config import Task
from pellucid.data.lines import origin, read_lines
from pellucid.errors import ConfigError, DataError
from pellucid.files.writing import write_output
from pellucid.tasks.task import TextModel, open_task, task_in
from pellucid.tasks.translator import Translator
from pellucid.tracing.trace import Trace, load_trace
from pellucid.training.state import read_weights
from pellucid.views.canvas.text import labels
from pellucid.views.choice import Choice
from pellucid.views.plot import check_suffix
from pellucid.views.view import ONE_VIEW, View, check_view
from pellucid.weights.tensors import set_parameters

SUFFIXES = (".html", ".svg", ".png", ".trace")
TRACE = ".trace"
EXPLAINING = ("lens", "contributions")
"""The views that a model is asked for, since its trace does not tell."""
MOST_EXPLAINED = 200
"""The most tokens written that a page explains unasked."""
OF_TRANSLATORS = ("target", "beam_size", "source_language", "target_language")


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """Says what is read, and how."""

    text: str | None
    """None: the model is a trace file, which holds its own."""
    target: str | None = None
    second: str | None = None
    beam_size: int | None = None
    source_language: str | None = None
    target_language: str | None = None
    device: str = "auto"
    dtype: str | None = None

    def given(self, names: Sequence[str]) -> Iterator[str]:
        """Returns which of these fields are given."""
        return (name for name in names if getattr(self, name) is not None)


def read_text(text: str) -> str:
    """Returns the text; for "-" the first line of standard input. Raises DataError where that is empty."""
    if text != "-":
        return text
    line = next(iter(read_lines("-")), None)
    if line is None:
        raise DataError("standard input is empty: there is no text to look at", "give it a line")
    return line


@dataclass(frozen=True, slots=True)
class Recorded:
    """Holds what was recorded."""

    trace: Trace
    written: str | None = None
    """The translation as text, by a translator that made it."""
    reader: TextModel[Any] | None = None
    """The model that read the text; None of a trace file."""


def record(model: str, reading: Reading) -> Recorded:
    """Records the pass of a model over a text, or opens a trace file.

    Raises ConfigError for options that the model has no use for, CheckpointError for a folder that holds no model.
    """
    if is_trace_file(model):
        for name in reading.given(("text", "second", *OF_TRANSLATORS)):
            raise ConfigError(
                f"{_spelled(name)} means nothing to the trace `{model}`, which holds its text", "leave it out"
            )
        return Recorded(load_trace(model))
    if reading.text is None:
        raise ConfigError(f"there is no text for the model `{model}`", "give one, or - for standard input")
    folder, checkpoint = _run_and_checkpoint(model)
    task = task_in(folder)
    refused = () if task.targets == "translations" else OF_TRANSLATORS
    _refuse(model, task, reading, ("second", *refused) if task.family == "decoder" else refused)
    return _by_task(task, folder, checkpoint, reading, reading.text)


def _run_and_checkpoint(model: str) -> tuple[str, Path | None]:
    """Returns the run of a folder `run/checkpoints/step-...` and that folder; of any other model its name, and None."""
    place = Path(model)
    if place.parent.name == "checkpoints" and place.name.startswith("step-") and place.is_dir():
        return str(place.parent.parent), place
    return model, None


def _at(checkpoint: Path | None, reader: TextModel[Any]) -> TextModel[Any]:
    """Returns the reader, its model with the weights of a checkpoint where one is given."""
    if checkpoint is not None:
        set_parameters(reader.model, read_weights(checkpoint), f"`{checkpoint}`")
    return reader


def _refuse(model: str, task: Task, reading: Reading, names: Sequence[str]) -> None:
    for name in reading.given(names):
        raise ConfigError(f"{_spelled(name)} means nothing to `{model}`, which is for `{task.name}`", "leave it out")


def _by_task(task: Task, model: str, checkpoint: Path | None, reading: Reading, text: str) -> Recorded:
    place = (reading.device, reading.dtype)
    if task.targets != "translations":
        given = text if reading.second is None else (text, reading.second)
        reader = _at(checkpoint, open_task(model, *place))
        return Recorded(reader.trace(given), reader=reader)
    if reading.target is not None and reading.beam_size is not None:
        raise ConfigError("`beam_size=` means nothing where `target=` is given: nothing is searched", "leave one out")
    translator = Translator.load(model, *place, reading.source_language, reading.target_language)
    _refuse(model, task, reading, ("second",))  # now that it is known to be a translator
    _at(checkpoint, translator)
    options: dict[str, Any] = {} if reading.beam_size is None else {"beam_size": reading.beam_size}
    trace = translator.trace(text, reading.target, **options)
    ids = [token.id for token in trace.sequences["out"] if not token.special and token.id is not None]
    return Recorded(trace, reading.target or translator.tokenizers.target.decode(ids), translator)


def is_trace_file(model: str) -> bool:
    """Tells if a model's name is that of a trace file."""
    return Path(model).suffix.lower() == TRACE and not Path(model).is_dir()


def check_request(output: str, view: str | None) -> str:
    """Returns the ending of the output, before anything is loaded.

    Raises ConfigError for an unknown ending or view, and for a view of a trace file.
    """
    if view is not None:
        check_view(view)
    suffix = check_suffix(output, SUFFIXES)
    if suffix == TRACE and view is not None:
        raise ConfigError(f"a trace holds what every view needs, so `view={view}` means nothing to it", "leave it out")
    return suffix


def inspect_text(
    model: str,
    reading: Reading,
    output: str,
    view: str | None,
    choice: Choice,
    *,
    compare: str | None,
    gold: str | None,
    against: str | None = None,
    all_views: bool,
    one_view: bool,
    with_model: bool = True,
    scale: float,
) -> None:
    """Records, writes what the ending of `output` says, and tells on standard error what was recorded.

    A page has every view while it stays under 8 MB, and the model, too, unless `with_model` is false. Raises
    ConfigError for options that exclude each other or mean nothing to what is written.
    """
    suffix = check_request(output, view)
    name = view or ("compare" if compare is not None else "alignment" if gold is not None else "heads")
    if compare is not None and name != "compare":
        raise ConfigError(f"`compare=` means nothing to the view `{name}`", "leave one out")
    if against is not None and name != "contributions":
        raise ConfigError(f"`against=` means nothing to the view `{name}`", "it belongs to the view contributions")
    if suffix == TRACE:
        beside = {
            "compare=": compare is not None, "gold=": gold is not None, "all_views=": all_views,
            "one_view=": one_view,
        }  # fmt: skip
        for option in (option for option, is_given in beside.items() if is_given):
            raise ConfigError(f"a trace is of one model and one text: `{option}` means nothing to it", "leave it out")
        for option in _chosen(choice):
            raise ConfigError(f"a trace holds all that a view can show: `{option}` means nothing to it", "leave it out")
    for option, is_given in (("all_views=", all_views), ("one_view=", one_view)):
        if is_given and suffix in (".svg", ".png"):
            raise ConfigError(f"`{option}` is of a page, and `{output}` is a picture", "leave it out, or write .html")
    if all_views and one_view:
        raise ConfigError("`all_views=` and `one_view=` exclude each other", "leave one out")
    recorded = record(model, reading)
    if suffix == TRACE:
        recorded.trace.save(output)
    else:
        trace, choice = _with_company(recorded, model, reading, name, choice, compare, gold)
        choice.check(name)
        choice = _explained(recorded, name, choice, against, suffix == ".html" and not one_view)
        shown = View(trace, name, choice)
        if suffix == ".svg":
            shown.svg(output)
        elif suffix == ".png":
            shown.png(output, scale)
        else:
            held = recorded.reader if with_model and reading.second is None else None
            views = [name] if one_view else "all" if all_views else None
            html, has_all = shown.fitting_page(views, held, [reading.text or ""])
            write_output(output, html)
            if not has_all:
                warnings.warn(f"{ONE_VIEW}: `all_views=True` writes them all", stacklevel=2)
    for line in summary(recorded.trace):
        print(line, file=sys.stderr)
    print(f"wrote {output}", file=sys.stderr)


def _chosen(choice: Choice) -> list[str]:
    """Returns the options that say what a view shows, as the command line spells them."""
    spelled = {"special": "special=False", "sink": "sink=False"}
    plain = {f.name: f.default for f in fields(Choice)}
    return [spelled.get(name, f"{name}=") for name, value in plain.items() if getattr(choice, name) != value]


def _with_company(
    recorded: Recorded,
    model: str,
    reading: Reading,
    view: str,
    choice: Choice,
    compare: str | None,
    gold: str | None,
) -> tuple[Trace, Choice]:
    """Returns the trace, and the choice with what the view shows beside it: another trace, gold, checkpoints."""
    trace = recorded.trace
    if compare is not None:
        other = record(compare, _same_text(recorded, compare, reading)).trace
        return trace, replace(choice, other=other, names=(Path(model).name, Path(compare).name))
    if gold is not None:
        links = _gold(gold)
        if reading.text is not None and recorded.written is not None:
            trace = with_line_words(trace, reading.text, recorded.written)
        return trace, replace(choice, gold=links)
    if view == "evolution":
        if reading.text is None:
            raise ConfigError("the view evolution is of a run's checkpoints, not of a trace", "name the run and a text")
        return trace, replace(choice, evolution=evolution(model, reading.text, reading.target, reading.device))
    return trace, choice


def _explained(recorded: Recorded, view: str, choice: Choice, against: str | None, others: bool) -> Choice:
    """Returns the choice with what the model tells beyond the trace: what layers would write, what parts add to words.

    It is found out for the view that needs it, and with `others` for a page that offers those views, as far as the
    model can tell and the text is not long. Raises ConfigError where there is a trace alone.
    """
    reader, trace = recorded.reader, recorded.trace
    if reader is None:
        if view in EXPLAINING:
            raise ConfigError(f"the view {view} asks the model, not a trace of it", "name the model and a text")
        return choice
    unasked = others and choice.evolution is None and _tells(trace)
    if view == "lens" or unasked:
        choice = _or_without(view == "lens", lambda: replace(choice, lens=lens(reader, trace)), choice)
    if view == "contributions" or unasked:
        plain, asked = choice, view == "contributions"
        row = choice.row if asked else None
        choice = _or_without(asked, lambda: replace(plain, contributions=_by_row(reader, trace, row, against)), choice)
    return choice


def _by_row(
    reader: TextModel[Any], trace: Trace, row: int | None, against: str | None
) -> Contributions | Sequence[Contributions]:
    """Returns the contributions to each row, or to one where a word is given that it is compared with.

    To the one that is asked for where a long text has more rows than are shown.
    """
    if against is not None:
        return contributions(reader, trace, row=row, against=against)
    found = against_likeliest(reader, trace)
    return found if row is None or row in range(len(found)) else against_likeliest(reader, trace, row=row)


def _tells(trace: Trace) -> bool:
    """Tells if a model said something in a pass, and not too much to be explained unasked."""
    return trace.classes is not None or 0 < len(trace.predictions or ()) <= MOST_EXPLAINED


def _or_without(asked: bool, explained: Callable[[], Choice], choice: Choice) -> Choice:
    """Returns the choice with what is found out; without, where the model cannot tell and nobody has asked."""
    try:
        return explained()
    except DataError:
        if asked:
            raise
        return choice


def _same_text(recorded: Recorded, model: str, reading: Reading) -> Reading:
    """Returns the reading for another model; a translator's target is what the first one wrote."""
    if is_trace_file(model):
        return Reading(text=None)
    if recorded.written is None:
        return reading
    if (task := task_in(_run_and_checkpoint(model)[0])).targets != "translations":
        raise ConfigError(
            f"a translator cannot be compared with `{model}`, which is for `{task.name}`", "name another translator"
        )
    return replace(reading, target=recorded.written, beam_size=None)


def _gold(path: str) -> Gold:
    """Reads the first line of a file of alignments, or a text that is an alignment itself."""
    lines = read_lines(path) if path == "-" or Path(path).is_file() else [path]
    found = next(read_gold(lines), None)
    if found is None:
        raise DataError(f"{origin(path)} is empty: there is no gold alignment", "write links as in `0-0 1-2`")
    return found


def summary(trace: Trace) -> Iterator[str]:
    """Tells what was recorded: texts, sizes, faithfulness, and the heads that stand out."""
    # A decoder alone has no "src": it read "tgt", and its "out" is the same moved on by a place.
    shown = {"src": "read", "out": "wrote"} if "src" in trace.sequences else {"tgt": "read"}
    for name, did in shown.items():
        if name in trace.sequences:
            tokens = trace.sequences[name]
            yield f"{did} {len(tokens)} tokens: {' '.join(labels(tokens))}"
    for attention in trace.attentions.values():
        layers, heads = f"{attention.num_layers} layers", f"{attention.num_heads} heads"
        rows, columns = attention.size
        line = f"{attention.name}: {layers} x {heads}, {rows} x {columns} tokens"
        yield line if attention.name.startswith("search") else f"{line}; {_standing_out(trace, attention.name)}"
    if trace.search is not None:
        nodes = trace.search.nodes
        ends = sum(node.status in ("finished", "best") for node in nodes)
        yield f"search: beam {trace.search.beam_size}, {len(nodes):,} hypotheses weighed, {ends} kept to their end"
    if trace.is_recorded:
        yield f"faithfulness: {trace.faithfulness:.1e}, the largest difference from what the model computed with"


def _standing_out(trace: Trace, name: str) -> str:
    """Names the head nearest to the diagonal, and the one with most weight on the sink."""
    attention = trace[name]
    found = statistics(attention, sink_columns(trace.sequences[attention.keys]))
    words = []
    for statistic, what in (("diagonality", "most diagonal"), ("sink", "most on the sink")):
        place = int(found[statistic].argmax())
        layer, head = divmod(place, attention.num_heads)
        words.append(f"{what} layer {layer} head {head} ({found[statistic][layer, head]:.2f})")
    return ", ".join(words)


def _spelled(name: str) -> str:
    if name == "text":
        return "a text"
    return f"`{name}=`"
