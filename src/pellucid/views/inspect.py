"""Implements `pellucid inspect`: shows a forward pass or a saved trace as a page, a picture or a trace file."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from pellucid.analysis.align import use_line_words
from pellucid.analysis.alignment import Gold, read_gold
from pellucid.analysis.contributions import LogitAttribution, attribute_against_runner_up, attribute_logits
from pellucid.analysis.evolution import evolution
from pellucid.analysis.lens import logit_lens
from pellucid.analysis.statistics import make_sink_mask, statistics
from pellucid.config import Task
from pellucid.data.lines import format_display_name, read_lines
from pellucid.errors import ConfigError, DataError
from pellucid.files.writing import write_output
from pellucid.streams.source import check_is_text
from pellucid.tasks.task import TextModel, detect_task, open_task
from pellucid.tasks.translator import Translator
from pellucid.terminal import log_line
from pellucid.tracing.trace import Trace, load_trace
from pellucid.training.state import read_checkpoint_weights
from pellucid.views.canvas.text import labels
from pellucid.views.plot import check_suffix
from pellucid.views.view import ONE_VIEW, View, check_view
from pellucid.views.view_options import ViewOptions
from pellucid.weights.tensors import set_parameters

SUFFIXES = (".html", ".svg", ".png", ".trace")
TRACE = ".trace"
EXPLAINING = ("lens", "contributions")
"""The views that require the model, since their data is not in a trace."""
MOST_EXPLAINED = 200
"""The largest number of output tokens for which a page has these views by default."""
OF_TRANSLATORS = ("target", "beam_size", "source_language", "target_language")


@dataclass(frozen=True, kw_only=True, slots=True)
class InspectReading:
    """Holds the inputs of a forward pass and the options for it."""

    text: str | None
    """None: the model is a trace file, which contains the text."""
    target: str | None = None
    second: str | None = None
    beam_size: int | None = None
    source_language: str | None = None
    target_language: str | None = None
    device: str = "auto"
    dtype: str | None = None

    def list_given(self, names: Sequence[str]) -> Iterator[str]:
        """Returns the names of these fields that are set."""
        return (name for name in names if getattr(self, name) is not None)


def read_input_text(text: str) -> str:
    """Returns the text; the first line of standard input for "-".

    Raises DataError if that line is empty, and for a text that is the name of a file.
    """
    if text != "-":
        check_is_text(text, "`-` reads the first line of standard input")
        return text
    line = next(iter(read_lines("-")), None)
    if line is None:
        raise DataError("standard input is empty", "write a line to it")
    return line


@dataclass(frozen=True, slots=True)
class Recorded:
    """Holds a recorded trace, with the model and its output."""

    trace: Trace
    written: str | None = None
    """The translation as text, if a translator generated it."""
    reader: TextModel[Any] | None = None
    """The model that read the text; None for a trace file."""


def record_trace(model: str, reading: InspectReading) -> Recorded:
    """Records a forward pass of a model over a text, or opens a trace file.

    Raises ConfigError for options that the model does not use, CheckpointError for a folder without a model.
    """
    if is_trace_file(model):
        for name in reading.list_given(("text", "second", *OF_TRANSLATORS)):
            raise ConfigError(
                f"{_format_option(name)} has no effect with the trace `{model}`, which has its text", "leave it out"
            )
        return Recorded(load_trace(model))
    if reading.text is None:
        raise ConfigError(f"no text is given for the model `{model}`", "pass a text, or - for standard input")
    folder, checkpoint = _run_and_checkpoint(model)
    task = detect_task(folder)
    refused = () if task.targets == "translations" else OF_TRANSLATORS
    _refuse(model, task, reading, ("second", *refused) if task.family == "decoder" else refused)
    return _record_by_task(task, folder, checkpoint, reading, reading.text)


def _run_and_checkpoint(model: str) -> tuple[str, Path | None]:
    """Returns the run and the checkpoint folder for `run/checkpoints/step-...`; the model's name and None otherwise."""
    place = Path(model)
    if place.parent.name == "checkpoints" and place.name.startswith("step-") and place.is_dir():
        return str(place.parent.parent), place
    return model, None


def _load_checkpoint(checkpoint: Path | None, reader: TextModel[Any]) -> TextModel[Any]:
    """Returns the reader, with the weights of a checkpoint if one is given."""
    if checkpoint is not None:
        set_parameters(reader.model, read_checkpoint_weights(checkpoint), f"`{checkpoint}`")
    return reader


def _refuse(model: str, task: Task, reading: InspectReading, names: Sequence[str]) -> None:
    for name in reading.list_given(names):
        raise ConfigError(
            f"{_format_option(name)} has no effect with `{model}`, which is for `{task.name}`", "leave it out"
        )


def _record_by_task(task: Task, model: str, checkpoint: Path | None, reading: InspectReading, text: str) -> Recorded:
    place = (reading.device, reading.dtype)
    if task.targets != "translations":
        given = text if reading.second is None else (text, reading.second)
        reader = _load_checkpoint(checkpoint, open_task(model, *place))
        return Recorded(reader.trace(given), reader=reader)
    if reading.target is not None and reading.beam_size is not None:
        raise ConfigError(
            "`beam_size=` has no effect if `target=` is given: nothing is searched", "leave one of them out"
        )
    translator = Translator.load(model, *place, reading.source_language, reading.target_language)
    _refuse(model, task, reading, ("second",))  # for a translator
    _load_checkpoint(checkpoint, translator)
    options: dict[str, Any] = {} if reading.beam_size is None else {"beam_size": reading.beam_size}
    trace = translator.trace(text, reading.target, **options)
    ids = [token.id for token in trace.sequences["out"] if not token.special and token.id is not None]
    return Recorded(trace, reading.target or translator.tokenizers.target.decode(ids), translator)


def is_trace_file(model: str) -> bool:
    """Returns True if a model's name is the name of a trace file."""
    return Path(model).suffix.lower() == TRACE and not Path(model).is_dir()


def check_request(output: str, view: str | None) -> str:
    """Returns the file extension of the output, before anything is loaded.

    Raises ConfigError for an unknown extension or view, and for a view with a trace file as output.
    """
    if view is not None:
        check_view(view)
    suffix = check_suffix(output, SUFFIXES)
    if suffix == TRACE and view is not None:
        raise ConfigError(f"`view={view}` has no effect: a trace has the data of every view", "leave it out")
    return suffix


def inspect_text(
    model: str,
    reading: InspectReading,
    output: str,
    view: str | None,
    choice: ViewOptions,
    *,
    compare: str | None,
    gold: str | None,
    foil: str | None = None,
    all_views: bool,
    one_view: bool,
    with_model: bool = True,
    scale: float,
) -> None:
    """Records a trace, writes the format that the extension of `output` selects, and prints a summary on standard
    error.

    A page has every view while it is smaller than 8 MB, and the model, too, unless `with_model` is false. Raises
    ConfigError for options that exclude each other or have no effect on the output.
    """
    suffix = check_request(output, view)
    name = view or ("compare" if compare is not None else "alignment" if gold is not None else "heads")
    if compare is not None and name != "compare":
        raise ConfigError(f"`compare=` has no effect with the view `{name}`", "leave one of them out")
    if foil is not None and name != "contributions":
        raise ConfigError(f"`foil=` has no effect with the view `{name}`", "it belongs to the view contributions")
    if suffix == TRACE:
        other_options = {
            "compare=": compare is not None, "gold=": gold is not None, "all_views=": all_views,
            "one_view=": one_view,
        }  # fmt: skip
        for option in (option for option, is_given in other_options.items() if is_given):
            raise ConfigError(f"`{option}` has no effect: a trace is of one model and one text", "leave it out")
        for option in _list_chosen(choice):
            raise ConfigError(f"`{option}` has no effect: a trace has all data of a view", "leave it out")
    for option, is_given in (("all_views=", all_views), ("one_view=", one_view)):
        if is_given and suffix in (".svg", ".png"):
            raise ConfigError(f"`{option}` is for a page, and `{output}` is a picture", "leave it out, or write .html")
    if all_views and one_view:
        raise ConfigError("`all_views=` and `one_view=` cannot be combined", "leave one of them out")
    recorded = record_trace(model, reading)
    if suffix == TRACE:
        recorded.trace.save(output)
    else:
        trace, choice = _add_company(recorded, model, reading, name, choice, compare, gold)
        choice.check(name)
        choice = _add_explanations(recorded, name, choice, foil, suffix == ".html" and not one_view)
        shown = View(trace, name, choice)
        if suffix == ".svg":
            shown.svg(output)
        elif suffix == ".png":
            shown.png(output, scale)
        else:
            held = recorded.reader if with_model and reading.second is None else None
            views = [name] if one_view else "all" if all_views else None
            html, has_all = shown.make_fitting_page(views, held, [reading.text or ""])
            write_output(output, html)
            if not has_all:
                warnings.warn(f"{ONE_VIEW}: `all_views=True` writes all of them", stacklevel=2)
    for line in summary(recorded.trace):
        log_line(line)
    log_line(f"wrote {output}")


def _list_chosen(choice: ViewOptions) -> list[str]:
    """Returns the view options that are set, as the command line spells them."""
    spelled = {"special": "special=False", "sink": "sink=False"}
    plain = {f.name: f.default for f in fields(ViewOptions)}
    return [spelled.get(name, f"{name}=") for name, value in plain.items() if getattr(choice, name) != value]


def _add_company(
    recorded: Recorded,
    model: str,
    reading: InspectReading,
    view: str,
    choice: ViewOptions,
    compare: str | None,
    gold: str | None,
) -> tuple[Trace, ViewOptions]:
    """Returns the trace, and the options with the data of the view: another trace, gold links, checkpoints."""
    trace = recorded.trace
    if compare is not None:
        other = record_trace(compare, _same_text(recorded, compare, reading)).trace
        return trace, replace(choice, other=other, names=(Path(model).name, Path(compare).name))
    if gold is not None:
        links = _gold(gold)
        if reading.text is not None and recorded.written is not None:
            trace = use_line_words(trace, reading.text, recorded.written)
        return trace, replace(choice, gold=links)
    if view == "evolution":
        if reading.text is None:
            raise ConfigError(
                "the view evolution requires the checkpoints of a run, not a trace", "name the run and a text"
            )
        return trace, replace(choice, evolution=evolution(model, reading.text, reading.target, reading.device))
    return trace, choice


def _add_explanations(
    recorded: Recorded, view: str, choice: ViewOptions, foil: str | None, others: bool
) -> ViewOptions:
    """Returns the options with data that only the model can compute: layer predictions, contributions to tokens.

    It is computed for the view that requires it. With `others` it is also computed for a page that offers those views,
    if the model supports it and the text is not long. Raises ConfigError if only a trace is given.
    """
    reader, trace = recorded.reader, recorded.trace
    if reader is None:
        if view in EXPLAINING:
            raise ConfigError(f"the view {view} requires the model, not a trace", "name the model and a text")
        return choice
    unasked = others and choice.evolution is None and _tells(trace)
    if view == "lens" or unasked:
        choice = _or_without(view == "lens", lambda: replace(choice, lens=logit_lens(reader, trace)), choice)
    if view == "contributions" or unasked:
        plain, asked = choice, view == "contributions"
        row = choice.row if asked else None
        choice = _or_without(
            asked, lambda: replace(plain, contributions=_attribute_rows(reader, trace, row, foil)), choice
        )
    return choice


def _attribute_rows(
    reader: TextModel[Any], trace: Trace, row: int | None, foil: str | None
) -> LogitAttribution | Sequence[LogitAttribution]:
    """Returns the contributions to each row, or to a single row if a word to compare with is given.

    In a long text, a requested row beyond the rows that are shown is returned alone.
    """
    if foil is not None:
        return attribute_logits(reader, trace, row=row, foil=foil)
    found = attribute_against_runner_up(reader, trace)
    return found if row is None or row in range(len(found)) else attribute_against_runner_up(reader, trace, row=row)


def _tells(trace: Trace) -> bool:
    """Returns True if a model had an output in the pass that is short enough to be explained by default."""
    return trace.classes is not None or 0 < len(trace.predictions or ()) <= MOST_EXPLAINED


def _or_without(asked: bool, explained: Callable[[], ViewOptions], choice: ViewOptions) -> ViewOptions:
    """Returns the options with the explanation; without it if not requested and not supported by the model."""
    try:
        return explained()
    except DataError:
        if asked:
            raise
        return choice


def _same_text(recorded: Recorded, model: str, reading: InspectReading) -> InspectReading:
    """Returns the reading for another model; a translator's target is the output of the first one."""
    if is_trace_file(model):
        return InspectReading(text=None)
    if recorded.written is None:
        return reading
    if (task := detect_task(_run_and_checkpoint(model)[0])).targets != "translations":
        raise ConfigError(
            f"a translator cannot be compared with `{model}`, which is for `{task.name}`", "name another translator"
        )
    return replace(reading, target=recorded.written, beam_size=None)


def _gold(path: str) -> Gold:
    """Reads the first line of a file of alignments, or parses a text that is an alignment."""
    lines = read_lines(path) if path == "-" or Path(path).is_file() else [path]
    found = next(read_gold(lines), None)
    if found is None:
        raise DataError(f"{format_display_name(path)} is empty: it has no gold alignment", "write links like `0-0 1-2`")
    return found


def summary(trace: Trace) -> Iterator[str]:
    """Yields the summary of a trace: texts, sizes, faithfulness, and notable heads."""
    # A decoder-only model has no "src": it reads "tgt", and its "out" is "tgt" shifted by one position.
    shown = {"src": "read", "out": "wrote"} if "src" in trace.sequences else {"tgt": "read"}
    for name, did in shown.items():
        if name in trace.sequences:
            tokens = trace.sequences[name]
            yield f"{did} {len(tokens)} tokens: {' '.join(labels(tokens))}"
    for attention in trace.attentions.values():
        layers, heads = f"{attention.num_layers} layers", f"{attention.num_heads} heads"
        rows, columns = attention.size
        line = f"{attention.name}: {layers} x {heads}, {rows} x {columns} tokens"
        yield (
            line if attention.name.startswith("search") else f"{line}; {_describe_notable_heads(trace, attention.name)}"
        )
    if trace.search is not None:
        nodes = trace.search.nodes
        ends = sum(node.status in ("finished", "best") for node in nodes)
        yield f"search: beam {trace.search.beam_size}, {len(nodes):,} hypotheses considered, {ends} finished"
    if trace.is_recorded:
        yield f"faithfulness: {trace.faithfulness:.1e}, the largest difference from the attention of the model"


def _describe_notable_heads(trace: Trace, name: str) -> str:
    """Describes the head nearest to the diagonal, and the head with most weight on the sink."""
    attention = trace[name]
    found = statistics(attention, make_sink_mask(trace.sequences[attention.keys]))
    words = []
    for statistic, what in (("diagonality", "most diagonal"), ("sink", "most on the sink")):
        place = int(found[statistic].argmax())
        layer, head = divmod(place, attention.num_heads)
        words.append(f"{what} layer {layer} head {head} ({found[statistic][layer, head]:.2f})")
    return ", ".join(words)


def _format_option(name: str) -> str:
    if name == "text":
        return "a text"
    return f"`{name}=`"
