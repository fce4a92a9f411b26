"""`pellucid calibrate`."""

from typing import Annotated

import tyro

from pellucid.cli.options import (
    Device,
    Dtype,
    Model,
    SourceLanguage,
    TargetLanguage,
    Threads,
    flag,
    optional,
    prepare_process,
)


def calibrate(
    model: Model,
    /,
    *,
    src: Annotated[str, tyro.conf.arg(metavar="FILE", help="source sentences that the model was not trained on")],
    tgt: Annotated[str | None, optional("FILE", "their translations, line by line", "none")] = None,
    ref: Annotated[str | None, optional("FILE", "the same as --tgt", "none")] = None,
    json: Annotated[bool, flag("print one JSON object")] = False,
    src_lang: SourceLanguage = None,
    tgt_lang: TargetLanguage = None,
    device: Device = "auto",
    dtype: Dtype = None,
    threads: Threads = None,
) -> int:
    """Fit the probabilities of words that `translate --json` prints on held-out text, and keep that in the model's
    folder. It translates the text, takes a word for right where the reference has it at its place, and says how far
    probability and share of right words are apart.

    example: pellucid calibrate run --src valid.de --tgt valid.en
    """
    import sys
    from dataclasses import asdict
    from json import dumps
    from pathlib import Path

    from pellucid.data.lines import read_pairs
    from pellucid.errors import ConfigError
    from pellucid.evaluation.calibration import BINS, weights_of
    from pellucid.files.writing import refusals_in_words, writable
    from pellucid.tasks.calibrating import calibrate as fit
    from pellucid.tasks.translator import Translator
    from pellucid.weights.folder import CALIBRATION

    if tgt is not None and ref is not None:
        raise ConfigError("`--ref` is the same as `--tgt`, and both are given", "leave one out")
    tgt = ref if tgt is None else tgt
    if tgt is None:
        raise ConfigError("the translations are not given: `--tgt FILE`", "name their file")
    prepare_process(threads)
    pairs = list(read_pairs(src, tgt))
    translator = Translator.load(model, device, dtype, src_lang, tgt_lang)
    weights, path = weights_of(model), Path(model) / CALIBRATION
    writable(path)  # before it translates for minutes
    if sys.stderr.isatty():
        print(f"translating {len(pairs):,} sentences", file=sys.stderr)
    found = fit(translator, [source for source, _ in pairs], [target for _, target in pairs], weights)
    with refusals_in_words(path):
        found.save(Path(model))
    if json:
        print(dumps(asdict(found)))
        return 0
    print(
        f"{found.words:,} words of {found.lines:,} lines, {found.right:.1%} of them as in the reference\n"
        f"calibration error {found.error:.3f}, before {found.error_before:.3f} ({BINS} bins; each half of the lines "
        f"by the other)\n{path}"
    )
    if found.error > found.error_before:
        print(f"note: the probabilities were nearer before; without {path} they are as they were", file=sys.stderr)
    return 0
