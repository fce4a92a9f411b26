"""Lines of all kinds for comparing tokenizers: scripts, emoji, control characters, numbers, code, odd white space."""

from random import Random

_SENTENCES = {
    "german": "Der schnelle braune Fuchs springt über den faulen Hund und größere Häuser stehen dort",
    "english": "The quick brown fox can't jump over the lazy dog, however we're sure it's there",
    "french": "L'été dernier nous avons mangé des crêpes à la plage où il faisait très chaud",
    "korean": "안녕하세요 오늘은 날씨가 아주 좋습니다 우리는 공원에서 산책을 했어요 값싼 읽다",
    "chinese": "今天天气很好 我们在公园里散步 他说 这本书 非常有趣",
    "japanese": "今日は 天気が とても いいです カタカナ ｶﾀｶﾅ も あります",
    "arabic": "اليوم الطقس جميل جدا ونحن نمشي في الحديقة مُحَمَّد",
    "hindi": "आज मौसम बहुत अच्छा है और हम पार्क में घूम रहे हैं",
    "russian": "Сегодня очень хорошая погода и мы гуляем в парке ёлка",
}
WORDS = {kind: sentence.split() for kind, sentence in _SENTENCES.items()} | {
    "accents": [
        "na\u0308ive",
        "cafe\u0301",
        "Ångström",
        "ﬁne",
        "Ｆｕｌｌ",
        "ŒUVRE",
        "İstanbul",
        "ß",
        "ẞ",
        "Ǆ",
        "²",
        "½",
    ],
    "emoji": ["😀", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "❤️", "☕", "✂️", "1️⃣"],
    "numbers": ["3.14", "1,000,000", "2024-12-31", "12:30", "1e-9", "0xFF", "٣٤", "Ⅳ", "50%", "$9.99", "№5"],
    "code": [
        "def f(x):",
        "return x**2",
        "a[i]->b",
        "<div class='x'>",
        "// TODO",
        '{"k": 1}',
        "x_y",
        "--all",
        "C:\\tmp",
    ],
    "marks": [
        "...",
        "…",
        "“so”",
        "„da“",
        "¿que?",
        "(a)",
        "—",
        "–",
        "!?",
        "#tag",
        "@name",
        "a/b",
        "don't",
        "##",
        "▁",
        "Ġ",
    ],
    "control": ["a\x00b", "\x07", "\x1b[0m", "b\u200bc", "d\u00ade", "\ufeff", "\u202eabc", "\ufffd", "\x7f", "\x85"],
}
SPACES = [" "] * 12 + ["  ", "\t", "\u00a0", "\u3000", " \t ", "\u2009", ""]
EDGES = [
    "", " ", "   ", "\t", "a", "▁", "▁▁ a", " a", "a ", "  a  b  ", "é" * 300, "x" * 10_000, "한" * 3_000, "😀" * 500,
    "a" * 99, "a" * 100, "a" * 101, "\u0301", "\u200d", "1" * 400, "-" * 300, "a\u0300\u0301\u0302" * 50,
    "https://example.org/a?b=c&d=%20#e", "AbCdEfG", "ÀÉÎÕÜ", "x" * 5 + " " * 50 + "y",
]  # fmt: skip


def varied_lines(seed: int, count: int) -> list[str]:
    """`count` lines, the same for the same seed: the edges first, then words of one or several kinds."""
    random = Random(seed)
    lines = list(EDGES)
    while len(lines) < count:
        kinds = random.sample(list(WORDS), random.choice([1, 1, 2, 3]))
        words = [random.choice(WORDS[random.choice(kinds)]) for _ in range(random.randint(1, 14))]
        lines.append("".join(word + random.choice(SPACES) for word in words).rstrip(" "))
    return lines[:count]


def training_lines(seed: int, count: int = 1500) -> list[str]:
    """Lines to train a tokenizer on: of some kinds only, so that other lines bring unknown characters."""
    random = Random(seed)
    kinds = ["german", "english", "french", "korean", "russian", "numbers", "marks"]
    return [" ".join(random.choice(WORDS[random.choice(kinds)]) for _ in range(12)) for _ in range(count)]
