"""A short load of more than the server can do: no answer is lost or wrong, and others are told to come again."""

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pellucid.serve import ServerLimits
from pellucid.tasks.translator import Translator
from tests.unit.serve.serving import serve

CLIENTS, REQUESTS = 24, 12


@pytest.mark.slow
def test_every_answer_is_right_or_503(finished_run: Path, translator: Translator) -> None:
    choose = random.Random(5)
    lines = [" ".join(choose.choices("abcdefgh", k=choose.randint(1, 6))) for _ in range(60)]
    right = dict(zip(lines, [found.text for found in translator.translate(lines)], strict=True))
    with serve([f"de-en={finished_run}"], ServerLimits(queue_tokens=200, threads=8)) as running:
        running.translate("a")

        def ask(client: int) -> list[int]:
            mine, statuses = random.Random(client), list[int]()
            for _ in range(REQUESTS):
                texts = mine.choices(lines, k=mine.randint(1, 12))
                found = running.ask("POST", "/translate", {"q": texts, "source": "de", "target": "en"})
                statuses.append(found.status)
                if found.status == 200:
                    assert found.json["translatedText"] == [right[text] for text in texts]
                else:
                    assert (found.status, int(found.headers["retry-after"]) >= 1) == (503, True)
            return statuses

        with ThreadPoolExecutor(CLIENTS) as clients:
            statuses = [status for found in clients.map(ask, range(CLIENTS)) for status in found]
        assert len(statuses) == CLIENTS * REQUESTS
        assert {200, 503} == set(statuses)
        metrics = running.ask("GET", "/metrics").text
        assert "pellucid_waiting_tokens 0.0" in metrics
        assert "pellucid_open_requests 1.0" in metrics
