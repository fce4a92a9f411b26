"""Claim: threads that trace and translate with the same models at once get what one thread alone gets.

    python benchmarks/threads.py > threads.json        (--quick: a trial of seconds)
    python benchmarks/threads.py --model RUN           a translator of your own in place of random weights

First one thread does every job with every text. Then `--threads` threads (8) draw jobs and texts for `--seconds` (60),
and each result is compared with the first: a trace by the bytes of its file, all else by itself. `wrong` are results
that differ, `errors` are exceptions; exit status 1 where there is one.

The models are a translator, a classifier and a language model with random weights. Each job is done by several threads
with the same object, and the interpreter is told to switch threads 200 times as often as it would.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from report import circumstances, positive, print_json, refusals_in_words

from pellucid import Classifier, LanguageModel, ModelConfig, Trace, Translator
from pellucid.config import DecodeConfig
from pellucid.model.families import DecoderOnly, SequenceClassifier
from pellucid.model.transformer import Transformer
from pellucid.text.tokenizers import TokenizerPair
from pellucid.text.vocabulary import Vocabulary

LETTERS = "abcdefghijklmnopqrst "
SIZES: dict[str, Any] = {"d_model": 64, "d_ff": 128, "num_heads": 4, "dropout": 0.1}
Job = Callable[[str], Any]


def translator(folder: str) -> Translator:
    """That of a folder, or one with random weights."""
    if folder:
        return Translator.load(folder, "cpu")
    letters = Vocabulary("characters", tuple(LETTERS))
    config = ModelConfig(
        src_vocab_size=letters.size, tgt_vocab_size=letters.size, num_encoder_layers=2, num_decoder_layers=2, **SIZES
    )
    return Translator(Transformer(config), TokenizerPair(letters, letters), DecodeConfig(beam_size=3, max_length=12))


def jobs(folder: str) -> dict[str, Job]:
    """What the threads do."""
    torch.manual_seed(1)
    letters = Vocabulary("characters", tuple(LETTERS))
    pair = TokenizerPair(letters, letters)
    encoder = ModelConfig.encoder(vocab_size=letters.size, num_layers=2, num_classes=3, **SIZES)
    decoder = ModelConfig.decoder(vocab_size=letters.size, num_layers=2, **SIZES)
    turning, judge = translator(folder), Classifier(SequenceClassifier(encoder), pair)
    writer = LanguageModel(DecoderOnly(decoder), pair)
    return {
        "trace a search": turning.trace,
        "trace a target": lambda text: turning.trace(text, text[::-1]),
        "translate": lambda text: turning.translate([text, text[::-1]]),
        "trace a classifier": judge.trace,
        "classify": lambda text: judge.classify([text]),
        "trace a language model": writer.trace,
        "generate": lambda text: writer.generate([text], max_new_tokens=12, temperature=1.0, seed=1),
    }


def told(found: Any, file: Path) -> Any:
    """What can be compared: of a trace its file, of anything else itself."""
    return found.save(file).read_bytes() if isinstance(found, Trace) else found


def run(work: dict[str, Job], texts: Sequence[str], threads: int, seconds: float, folder: Path) -> dict[str, Any]:
    """How often each job was done rightly, wrongly, and ended in an error."""
    alone = {(name, text): told(job(text), folder / "alone") for name, job in work.items() for text in texts}
    counts: list[Counter[tuple[str, str]]] = [Counter() for _ in range(threads)]
    messages: set[str] = set()
    end = time.monotonic() + seconds

    def draw(number: int) -> None:
        chance = random.Random(number)
        while time.monotonic() < end:
            name, text = chance.choice(list(alone))
            try:
                right = told(work[name](text), folder / str(number)) == alone[name, text]
            except Exception:
                messages.add(traceback.format_exc(limit=-1))
                counts[number][name, "errors"] += 1
            else:
                counts[number][name, "right" if right else "wrong"] += 1

    interval = sys.getswitchinterval()
    sys.setswitchinterval(interval / 200)
    running = [threading.Thread(target=draw, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    sys.setswitchinterval(interval)
    total = sum(counts, Counter())
    found = {name: {kind: total[name, kind] for kind in ("right", "wrong", "errors")} for name in work}
    return {"jobs": found, "messages": sorted(messages)[:5]}


@refusals_in_words()
def main(argv: Sequence[str] | None = None) -> int:
    """Measures; JSON on standard output, a line a job on standard error. Returns 1 where anything was not right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="", help="a run or model folder of a translator")
    parser.add_argument("--text", action="append", help="what is translated and traced; may be given several times")
    parser.add_argument("--threads", type=positive, default=8)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--quick", action="store_true", help="two seconds, a trial of the script")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)  # the threads are those of this script
    chance = random.Random(1)
    texts = args.text or ["".join(chance.choices(LETTERS, k=chance.randint(1, 20))).strip() or "a" for _ in range(12)]
    with tempfile.TemporaryDirectory() as folder:
        found = run(jobs(args.model), texts, args.threads, 2 if args.quick else args.seconds, Path(folder))
    for name, counted in found["jobs"].items():
        print(f"{name}: {', '.join(f'{count:,} {kind}' for kind, count in counted.items())}", file=sys.stderr)
    print_json(circumstances(__file__, argv) | {"threads": args.threads, "texts": len(texts)} | found)
    return int(any(counted["wrong"] or counted["errors"] for counted in found["jobs"].values()))


if __name__ == "__main__":
    sys.exit(main())
