"""The run in a folder: checks whether it can be resumed with these settings, custom parts and tokenizers."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pellucid.config import RECIPE
from pellucid.errors import ConfigError, format_value
from pellucid.model.parts import Parts
from pellucid.run.folder import RunFolder, RunResult
from pellucid.run.lock import check_free
from pellucid.run.repair import needs_repair
from pellucid.run.settings import RunSettings
from pellucid.text.tokenizers import TokenizerPair
from pellucid.weights.folder import format_python_call, is_pellucid_folder, list_custom_tokenizers, read_config

PARTS = "parts"
"""The key, in the origin of a run, of the names of its custom parts."""


@dataclass(frozen=True)
class FolderState:
    """The state of the run in a folder."""

    resumes: bool = False
    """True if it is a run with these settings, which is resumed."""
    result: RunResult | None = None
    """Its result, if it has finished."""
    is_incomplete: bool = False
    """True if the run's script has further replacements to make before the texts are read."""


def find_run(
    folder: RunFolder, settings: RunSettings, replaced: Collection[str], before: FolderState, is_first: bool
) -> FolderState:
    """Returns the state of the run in a folder. Changes nothing.

    Args:
        replaced: the attributes that the script has replaced so far.
        before: the state before the last replacement, which stays until the script has replaced everything.
        is_first: this is rank 0, which locks the folder.

    Raises ConfigError if the folder has a run with other settings, or other contents, or is not writable.
    """
    pending = set() if settings.fresh else {*folder.replaced.get("names", ())} - {*replaced}
    resumes = before.resumes
    if not (pending and replaced):
        resumes = folder.check(settings.recipe, settings.fresh, asked=bool(pending)) and settings.request is None
    if resumes and (result := folder.result) is not None and not needs_repair(folder):
        if is_pellucid_folder(folder.path):  # otherwise an earlier version's, which had no custom parts
            check_parts(folder, settings.parts, read_config(folder.path).get(PARTS, {}))
            if "tokenizers" not in pending:
                check_tokenizer(folder.path, settings.tokenizers)
        changed = folder.find_changed_texts(settings.recipe.data, settings.data_dir, settings.texts)
        return FolderState(resumes, replace(result, changed_texts=changed))
    folder.check_place()
    if is_first:
        check_free(folder.path)
    if resumes:
        check_parts(folder, settings.parts)
    return FolderState(resumes, is_incomplete=resumes and bool(pending))


def check_parts(folder: RunFolder, parts: Parts | None, described: Mapping[str, str] | None = None) -> None:
    """Raises ConfigError if the run in a folder began with other custom parts.

    Args:
        described: the custom parts in the model folder of a finished run, whose checkpoints may be missing.
    """
    before, now = folder.origin.get(PARTS, described), {} if parts is None else parts.names
    if before is None:  # nothing has trained, or an earlier version began the run
        before = {} if folder.origin else now
    for name in sorted({*before, *now}):
        recorded = before.get(name)
        if recorded is None or parts is None or not parts.fits(name, recorded):
            began, has = (f"`{said}`" if said else "the built-in one" for said in (recorded, now.get(name)))
            raise ConfigError(
                f"the {name} of the run in `{folder.path}` was {began}, and now is {has}",
                "choose another `out=`, start over with `fresh=True`, or pass the `parts=` of its start"
                f", {_line_to_write(folder.path, before)}",
            )


def check_tokenizer(folder: Path, tokenizers: TokenizerPair | None) -> None:
    """Raises ConfigError if the model in a folder was saved with a custom tokenizer, and none is given."""
    table = read_config(folder)
    if tokenizers is None and (own := list_custom_tokenizers(table)):
        raise ConfigError(
            f"the run in `{folder}` was started with the custom tokenizer `{'`, `'.join(map(format_value, own))}`, "
            "and none is given",
            "choose another `out=`, start over with `fresh=True`, or pass the `tokenizer=` of its start"
            f", {_line_to_write(folder, table.get(PARTS, {}), own)}",
        )


def _line_to_write(folder: Path, parts: Mapping[str, str], tokenizers: Sequence[str] = ()) -> str:
    """Returns the line of Python that resumes a run with custom parts or a custom tokenizer."""
    return format_python_call("pellucid.train", [folder / RECIPE, folder], parts, tokenizers)
