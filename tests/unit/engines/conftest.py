"""The compiled functions: from the user's cache, or compiled once for all tests and all processes of a run of them."""

from collections.abc import Iterator

import pytest

from pellucid.data.download_cache import ENVIRONMENT
from pellucid.engines.compiled.compiling import Functions, get_functions, has_compiled_before


@pytest.fixture(scope="session")
def functions(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[Functions]:
    """The functions of this machine; without the user's own, from a cache that all workers of pytest share."""
    base = tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch:
        if not has_compiled_before():
            patch.setenv(ENVIRONMENT, str((base if worker_id == "master" else base.parent) / "compiled-cache"))
        yield get_functions()
