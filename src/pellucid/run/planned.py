"""The plan that a run with a time budget began with: kept in its folder, so that the same command finds it again."""

import json
from dataclasses import asdict

from pellucid.config import Recipe
from pellucid.errors import ConfigError
from pellucid.files.writing import write_text
from pellucid.planning.budget import Plan
from pellucid.planning.request import Request
from pellucid.run.folder import PLAN, RunFolder


def stored_plan(run: RunFolder, request: Request) -> Recipe | None:
    """The recipe that the run in the folder was planned to, for the same request; None where nothing has trained yet.

    Raises ConfigError where the run has trained for another request, or for none.
    """
    if run.recipe is None:
        return None
    stored = _read(run)
    if stored == request:
        return run.recipe
    if stored is None:
        began = "without a budget"
    else:
        began = f"with `{stored}`" if str(stored) != str(request) else "from another recipe"
    raise ConfigError(
        f"the run in `{run.path}` began {began}, this command says `{request}`",
        "repeat the command that began it, choose another `--out`, or start over with --fresh",
    )


def save_plan(run: RunFolder, plan: Plan) -> None:
    """Writes the plan down, before anything is trained."""
    request = plan.request
    table = {
        "request": {"seconds": request.seconds, "settings": request.settings, "recipe": request.recipe},
        "facts": asdict(plan.facts),
        "tokens_per_second": {name: round(pace.tokens_per_second) for name, pace in plan.paces.items()},
        "tokens": round(plan.tokens),
        "expected_bleu": None if plan.expected_bleu is None else round(plan.expected_bleu, 1),
        "plan": str(plan).splitlines(),
    }
    write_text(run.path / PLAN, json.dumps(table, indent=2) + "\n")


def _read(run: RunFolder) -> Request | None:
    """The request that the run in the folder was planned for; None where it was planned for none."""
    try:
        table = json.loads(run.plan)["request"]
        return Request(table["seconds"], tuple(table["settings"]), table["recipe"])
    except (ValueError, KeyError, TypeError):
        return None
