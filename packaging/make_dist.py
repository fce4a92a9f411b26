"""Builds and checks the distributions: sdist, wheel, and an SBOM of what the wheel requires.

make dist
"""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST_BYTES = 5_000_000
"""The largest size of the wheel."""


def list_requirements(names: list[str]) -> dict[str, str]:
    """Returns the installed versions of distributions and of all that they require, without extras."""
    found: dict[str, str] = {}
    while names:
        name = _normalize(names.pop())
        if name in found:
            continue
        try:
            installed = distribution(name)
        except PackageNotFoundError:  # of another system
            continue
        found[name] = installed.version.partition("+")[0]
        names += [each for each in installed.requires or [] if "extra ==" not in each]
    return dict(sorted(found.items()))


def check_wheel(wheel: Path) -> list[str]:
    """Returns the faults of a wheel: missing and needless files, and its size."""
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        f"pellucid/{path.relative_to(ROOT / 'src' / 'pellucid').as_posix()}"
        for path in (ROOT / "src" / "pellucid").rglob("*") if path.is_file() and "__pycache__" not in path.parts
    }  # fmt: skip
    packaged = {name for name in names if name.startswith("pellucid/")}
    others = {name.partition("/")[2] for name in names - packaged}
    faults = [f"the wheel lacks {name}" for name in sorted(wanted - packaged)]
    faults += [f"the wheel has {name}, which is no file of the package" for name in sorted(packaged - wanted)]
    for name in ("licenses/LICENSE", "licenses/NOTICE", "data/share/man/man1/pellucid.1"):
        if name not in others:
            faults.append(f"the wheel lacks {name}")
    if wheel.stat().st_size > MOST_BYTES:
        faults.append(f"the wheel has {wheel.stat().st_size:,} bytes; the limit is {MOST_BYTES:,}")
    return faults


def main() -> int:
    """Builds into `dist/`, and returns 1 if anything is wrong."""
    out = ROOT / "dist"
    for stale in (out, ROOT / "build"):
        shutil.rmtree(stale, ignore_errors=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    _run("build", "--no-isolation", "--outdir", str(out), str(ROOT))
    wheel, sdist = next(out.glob("*.whl")), next(out.glob("*.tar.gz"))
    _run("twine", "check", "--strict", str(wheel), str(sdist))
    pins = [f"{name}=={version}" for name, version in list_requirements(list(project["dependencies"])).items()]
    listed = out / "requirements.txt"
    listed.write_text("\n".join(pins) + "\n", encoding="ascii")
    bom = out / f"{wheel.name.split('-py3')[0]}.cdx.json"
    _run("cyclonedx_py", "requirements", "--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible",
         "--output-file", str(bom), str(listed))  # fmt: skip
    listed.unlink()
    faults = check_wheel(wheel)
    for fault in faults:
        print(f"error: {fault}", file=sys.stderr)
    for path in sorted(out.iterdir()):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes")
    return 1 if faults else 0


def _run(module: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", module, *arguments], check=True, cwd=ROOT, stdin=subprocess.DEVNULL)


def _normalize(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement.strip())[0]).lower()


if __name__ == "__main__":
    sys.exit(main())
