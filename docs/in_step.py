"""Remembers which English each Korean page was read against, section by section.

python docs/in_step.py            lists the sections whose English has changed since
python docs/in_step.py PAGE...    says that these Korean pages are in step again
"""

import hashlib
import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FINGERPRINTS = ROOT / "docs" / "ko" / "in-step.json"


def pairs() -> dict[Path, Path]:
    """The English page of each Korean one."""
    korean = ROOT / "docs" / "ko"
    pages = {page: ROOT / "docs" / page.relative_to(korean) for page in sorted(korean.rglob("*.md"))}
    return {ROOT / "README.ko.md": ROOT / "README.md"} | pages


def sections(text: str) -> dict[str, str]:
    """The text below each heading, the heading included; sections of one name together."""
    found = {"": ""}
    heading, fenced = "", False
    for line in text.splitlines(keepends=True):
        fenced ^= line.startswith("```")
        if line.startswith("#") and not fenced:
            heading = line.strip()
        found[heading] = found.get(heading, "") + line
    return {name: part for name, part in found.items() if part.strip()}


def fingerprints(text: str) -> dict[str, str]:
    """A hash of each section's words; where lines break does not matter."""
    return {
        heading: hashlib.sha256(" ".join(part.split()).encode()).hexdigest()[:12]
        for heading, part in sections(text).items()
    }


def changed(read: dict[str, str], now: dict[str, str]) -> list[str]:
    """The headings of the sections that were changed, added or removed, in the page's order."""
    return [heading for heading in now | read if read.get(heading) != now.get(heading)]


def out_of_step(korean: Path, english: Path) -> list[str]:
    """A message for each section of a page whose English is not the one that the Korean was read against."""
    names = [page.relative_to(ROOT).as_posix() for page in (korean, english)]
    read = json.loads(FINGERPRINTS.read_text(encoding="utf-8")).get(names[0], {}) if FINGERPRINTS.exists() else {}
    return [
        f"{names[1]}: `{heading}` has changed. Bring {names[0]} in step, then run: python docs/in_step.py {names[0]}"
        for heading in changed(read, fingerprints(english.read_text(encoding="utf-8")))
    ]


def take_as_read(pages: list[Path]) -> None:
    """Remembers the English of these Korean pages as it stands, and forgets pages that are gone."""
    known = {korean.relative_to(ROOT).as_posix(): english for korean, english in pairs().items()}
    read = json.loads(FINGERPRINTS.read_text(encoding="utf-8")) if FINGERPRINTS.exists() else {}
    for name in (page.relative_to(ROOT).as_posix() for page in pages):
        read[name] = fingerprints(known[name].read_text(encoding="utf-8"))
    kept = {name: read[name] for name in sorted(read) if name in known}
    FINGERPRINTS.write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def main(names: list[str]) -> int:
    """Lists what is out of step, or takes pages as read. Returns the exit status."""
    known = pairs()
    if not names:
        messages = [message for korean, english in known.items() for message in out_of_step(korean, english)]
        print("\n".join(messages) or "all Korean pages are in step")
        return int(bool(messages))
    pages = [Path(name).resolve() for name in names]
    if unknown := [name for name, page in zip(names, pages, strict=True) if page not in known]:
        print(f"error: no Korean page with an English one: {', '.join(unknown)}", file=sys.stderr)
        return 2
    take_as_read(pages)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
