"""Claim: a minute's budget trains for any script, and the model reads a text however it is typed.

    python benchmarks/scripts.py > scripts.json        (--budget 30s --corpora korean: a trial)

The corpora are made here, from a seed: phrase books of made-up languages, since in a minute little more can be learned.
Each sentence is one of some phrases, with another order of words on the other side, and a name or a number of its own.
Chinese and Japanese have more than 3,500 characters, each of which some name is written in; the Korean one has Hangul
syllables and numbers, and so has the one of which each second sentence is written decomposed; of the mixed one each
sentence has three scripts, digits and an emoji; of the cased one a third comes in capitals, and a third
in title case.

For each: the plan; how large a part of the pieces single characters are, by side; and chrF on sentences held out, of
the model after the budget, of a copy of the source, and of the one output that would score best if it were written
each time. Then the same sentences with their spaces and composition changed: the translations must be equal.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from report import circumstances, positive, print_json, refusals_in_words
from sacrebleu.metrics.chrf import CHRF

from pellucid.tasks.translator import Translator
from pellucid.text.subwords import SentencePieceTokenizer
from pellucid.text.tokenizer import Tokenizer

Pair = tuple[str, str]
HELD_OUT, CONSTANTS = 200, 100
LEXICON, PHRASES = 400, 60
CONSONANTS, VOWELS = "bdfgklmnprstvz", "aeiou"
CORPORA = ("chinese", "japanese", "korean", "korean decomposed", "cased", "mixed")
SPELLINGS: dict[str, Callable[[str], str]] = {
    "NFD": lambda line: unicodedata.normalize("NFD", line),
    "no-break spaces": lambda line: line.replace(" ", "\xa0"),
    "thin spaces": lambda line: line.replace(" ", "\u2009"),
    "double spaces": lambda line: line.replace(" ", "  "),
    "tabs": lambda line: line.replace(" ", "\t"),
    "edge spaces": lambda line: f"\u3000 {line} ",
    "zero-width joiners": lambda line: "\u200d".join(line) if line.isascii() else f"\u200b{line}\ufeff",
}


def corpus(name: str, pairs: int) -> list[Pair]:
    """So many pairs of a corpus, and those held out before them; all different sources."""
    random = Random(f"scripts/{name}")
    word = WORDS[name]
    lexicon = [(word(random), latin_word(random)) for _ in range(LEXICON)]
    phrases = [random.choices(lexicon, k=random.randint(3, 8)) for _ in range(PHRASES)]
    found: dict[str, str] = {}
    while len(found) < pairs + HELD_OUT:
        source, target = SENTENCES[name](random.choice(phrases), len(found), random)
        found.setdefault(source, target)
    return list(found.items())


def ideograph(number: int) -> str:
    """One of 3,600 Chinese characters."""
    return chr(0x4E00 + 5 * (number % 3600))


def syllable(random: Random) -> str:
    return chr(0xAC00 + 28 * random.randrange(399) + random.choice((0, 0, 1, 4, 8, 16, 17, 21)))


def latin_word(random: Random) -> str:
    return "".join(random.choice(CONSONANTS) + random.choice(VOWELS) for _ in range(random.randint(1, 3)))


def chinese_word(random: Random) -> str:
    return "".join(ideograph(int(3600 * random.random() ** 3)) for _ in range(random.randint(1, 2)))


def japanese_word(random: Random) -> str:
    kana = "".join(chr(0x3042 + random.randrange(80)) for _ in range(random.randint(0, 2)))
    return chinese_word(random) + kana


def korean_word(random: Random) -> str:
    return "".join(syllable(random) for _ in range(random.randint(1, 3)))


def accented_word(random: Random) -> str:
    return "".join(random.choice(CONSONANTS) + random.choice("äöüéè" + VOWELS) for _ in range(random.randint(1, 3)))


def mixed_word(random: Random) -> str:
    return random.choice((korean_word, accented_word, japanese_word))(random)


def without_spaces(words: list[Pair], number: int, random: Random) -> Pair:
    """A name in a character of its own, then the words; the other side has the verb second."""
    name = ideograph(number)
    target = [words[-1][1], *(word for _, word in words[:-1])]
    return f"{name}{''.join(word for word, _ in words)}。", f"{pinyin(ord(name))} {' '.join(target)}."


def with_spaces(words: list[Pair], number: int, random: Random) -> Pair:
    count = random.randrange(10, 2000)
    target = [words[-1][1], *(word for _, word in words[:-1])]
    return f"{' '.join(word for word, _ in words)} {count}.", f"{target[0]} {count} {' '.join(target[1:])}."


def half_decomposed(words: list[Pair], number: int, random: Random) -> Pair:
    source, target = with_spaces(words, number, random)
    return (unicodedata.normalize("NFD", source) if number % 2 else source), target


def in_capitals(words: list[Pair], number: int, random: Random) -> Pair:
    case = random.choice((str.lower, str.upper, str.title))
    return with_spaces([(case(source), target) for source, target in words], number, random)


def with_emoji(words: list[Pair], number: int, random: Random) -> Pair:
    source, target = with_spaces(words, number, random)
    emoji = random.choice(("👍🏽", "👨\u200d👩\u200d👧", "❤\ufe0f", ""))
    return f"{source} {emoji}".strip(), f"{target} {emoji}".strip()


def pinyin(code: int) -> str:
    """A syllable for a character."""
    return f"{CONSONANTS[code % 14]}{VOWELS[code // 14 % 5]}{CONSONANTS[code // 70 % 14]}".title()


WORDS: dict[str, Callable[[Random], str]] = {
    "chinese": chinese_word, "japanese": japanese_word, "korean": korean_word, "korean decomposed": korean_word,
    "cased": accented_word, "mixed": mixed_word,
}  # fmt: skip
SENTENCES: dict[str, Callable[[list[Pair], int, Random], Pair]] = {
    "chinese": without_spaces, "japanese": without_spaces, "korean": with_spaces, "korean decomposed": half_decomposed,
    "cased": in_capitals, "mixed": with_emoji,
}  # fmt: skip


def measure(name: str, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """What a budget makes of a corpus."""
    pairs = corpus(name, options.pairs)
    held_out, training = pairs[:HELD_OUT], pairs[HELD_OUT:]
    for side, suffix in enumerate(("src", "tgt")):
        (folder / f"train.{suffix}").write_text("".join(f"{pair[side]}\n" for pair in training), encoding="utf-8")
    run = folder / "run"
    command = ["train", "--src", folder / "train.src", "--tgt", folder / "train.tgt", "--out", run]
    command += ["--budget", options.budget, *(["--set", f"train.steps={options.steps}"] if options.steps else [])]
    plan = pellucid(*command, "--dry-run")
    told = pellucid(*command)
    translator = Translator.load(run)
    sources, references = [source for source, _ in held_out], [target for _, target in held_out]
    translated = [found.text for found in translator.translate(sources, beam_size=1)]
    tokenizers = translator.tokenizers
    assert tokenizers is not None
    outputs = {"model": translated, "copy": sources, "constant": best_constant(training, references)}
    return {
        "characters in the training text": len(set("".join(source + target for source, target in training))),
        "plan": [line.strip() for line in plan.splitlines() if line.startswith("  ")],
        "told": [line.strip() for line in told.splitlines() if "of their own" in line or line.startswith("vocabulary")],
        "joint": tokenizers.joint,
        "sizes": [tokenizers.source.size, tokenizers.target.size],
        "characters": [single_characters(side) for side in (tokenizers.source, tokenizers.target)],
        "chrf": {of: chrf(texts, references) for of, texts in outputs.items()},
        "other translations": {
            spelling: sum(
                found.text != text
                for found, text in zip(
                    translator.translate([change(source) for source in sources], beam_size=1), translated, strict=True
                )
            )
            for spelling, change in SPELLINGS.items()
        },
    }


def pellucid(*arguments: object) -> str:
    """What a command says, on either stream."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pellucid", *map(str, arguments)], env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout + done.stderr


def single_characters(tokenizer: Tokenizer) -> float:
    """The part of the pieces that are one character."""
    assert isinstance(tokenizer, SentencePieceTokenizer)
    return sum(len(piece) == 1 for piece in tokenizer.pieces()) / tokenizer.size


def best_constant(training: list[Pair], references: list[str]) -> list[str]:
    """The output that scores best if it is written each time, among some of the training targets."""
    constants: Iterator[list[str]] = ([target] * len(references) for _, target in training[:CONSTANTS])
    return max(constants, key=lambda texts: chrf(texts, references))


def chrf(texts: list[str], references: list[str]) -> float:
    return round(float(CHRF().corpus_score(texts, [references]).score), 1)


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> None:
    """Measures the corpora; JSON on standard output, a line a corpus on standard error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--steps", type=int, default=0, help="so many, as on a quiet machine, whatever else runs here")
    parser.add_argument("--pairs", type=positive, default=6000, help="of each corpus, to train on")
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=CORPORA)
    options = parser.parse_args(argv)
    measured = {}
    for name in options.corpora:
        with tempfile.TemporaryDirectory() as folder:
            measured[name] = found = measure(name, options, Path(folder))
        parts = " / ".join(f"{part:.0%}" for part in found["characters"])
        other = sum(found["other translations"].values())
        print(f"{name:18} {found['sizes']} characters {parts}  chrF {found['chrf']}  others {other}", file=sys.stderr)
    print_json(circumstances(__file__, argv, ["sacrebleu", "sentencepiece"]) | {"measured": measured})


if __name__ == "__main__":
    main()
