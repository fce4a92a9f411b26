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
from pellucid.terminal import log_line, show


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
    """Fit the word probabilities of `translate --json` on held-out text, and store the fit in the model folder.

    The command translates the text and counts a word as right if the reference has it at the same place. It prints the
    calibration error: the difference between the probabilities and the share of right words.

    example: pellucid calibrate run --src valid.de --tgt valid.en
    """
    import sys
    from dataclasses import asdict
    from json import dumps
    from pathlib import Path

    from pellucid.data.lines import read_pairs
    from pellucid.errors import ConfigError
    from pellucid.evaluation.calibration import BINS, hash_weights
    from pellucid.files.writing import check_writable, convert_write_errors
    from pellucid.tasks.fit_calibration import calibrate as fit
    from pellucid.tasks.translator import Translator
    from pellucid.weights.folder import CALIBRATION

    if tgt is not None and ref is not None:
        raise ConfigError("`--ref` and `--tgt` are the same option, and both are given", "leave one out")
    tgt = ref if tgt is None else tgt
    if tgt is None:
        raise ConfigError("the translations are missing: `--tgt FILE`", "name the file of translations")
    prepare_process(threads)
    pairs = list(read_pairs(src, tgt))
    translator = Translator.load(model, device, dtype, src_lang, tgt_lang)
    weights, path = hash_weights(model), Path(model) / CALIBRATION
    check_writable(path)  # before the translation, which takes minutes
    if sys.stderr.isatty():
        log_line(f"translating {len(pairs):,} sentences")
    found = fit(translator, [source for source, _ in pairs], [target for _, target in pairs], weights)
    with convert_write_errors(path):
        found.save(Path(model))
    if json:
        print(dumps(asdict(found)))
        return 0
    show(
        f"{found.words:,} words of {found.lines:,} lines, {found.right:.1%} of them as in the reference\n"
        f"calibration error {found.error:.3f}, before {found.error_before:.3f} ({BINS} bins; each half of the lines "
        f"fitted on the other)\n{path}"
    )
    if found.error > found.error_before:
        log_line(f"note: the calibration error was smaller before; remove {path} to undo the fit")
    return 0
