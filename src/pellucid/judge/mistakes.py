"""The table of mistakes that the judge names: an id, a sentence in English and Korean, and the tutorial that has it.

A mistake that costs nothing in training, as a layer norm by the sample deviation, is a note: the part is right.
"""

from dataclasses import dataclass
from typing import Literal

Language = Literal["en", "ko"]

ANNOTATED, UNIVERSE, KERAS, SEQ2SEQ, PERSSON = (
    "annotated-transformer", "nlp-with-transformers", "keras-transformer", "pytorch-seq2seq", "aladdin-persson",
)  # fmt: skip
"""The layouts of `pellucid.weights.import_tutorial`, whose posts or copies have a mistake as printed."""

UNKNOWN, RAISES, OUT_OF_TIME = "unknown", "raises", "out-of-time"


@dataclass(frozen=True)
class Mistake:
    """A row of the table.

    Attributes:
        id: the name that `check` prints.
        english, korean: a sentence; `{detail}` is what the code at hand adds.
        posts: the layouts of tutorials that have the mistake.
        is_note: True if the part is right nevertheless.
    """

    id: str
    english: str
    korean: str
    posts: tuple[str, ...] = ()
    is_note: bool = False

    def describe(self, language: Language, detail: str = "") -> str:
        """Returns the sentence in a language."""
        return (self.korean if language == "ko" else self.english).replace("{detail}", detail)


_ROWS = (
    # Equation 1.
    Mistake(
        "no-scale",
        "the scores are not divided by sqrt(d_k): with wide heads the softmax saturates and its gradient vanishes",
        "점수를 sqrt(d_k)로 나누지 않았습니다. 헤드의 폭이 커지면 소프트맥스가 포화되어 기울기가 사라집니다",
    ),
    Mistake(
        "scale-d-model",
        "the scores are divided by sqrt(d_model), not by sqrt(d_k), the root of one head's width",
        "점수를 헤드 하나의 폭인 sqrt(d_k)가 아니라 sqrt(d_model)로 나누었습니다",
        (PERSSON,),
    ),
    Mistake(
        "scale-no-root",
        "the scores are divided by d_k, not by its square root",
        "점수를 d_k의 제곱근이 아니라 d_k로 나누었습니다",
    ),
    Mistake(
        "scale-multiplied",
        "the scores are multiplied by sqrt(d_k); divide by it",
        "점수에 sqrt(d_k)를 곱했습니다. 곱하지 말고 나누어야 합니다",
    ),
    Mistake(
        "scale-after-softmax",
        "the weights are divided by sqrt(d_k) after the softmax; divide the scores before it",
        "소프트맥스를 거친 가중치를 sqrt(d_k)로 나누었습니다. 소프트맥스 전에 점수를 나누세요",
    ),
    Mistake(
        "scale-num-heads",
        "the scores are divided by the root of the number of heads, not by sqrt(d_k)",
        "점수를 sqrt(d_k)가 아니라 헤드 수의 제곱근으로 나누었습니다",
    ),
    Mistake(
        "softmax-over-queries",
        "the softmax runs over the queries; it must run over the keys, the last axis of the scores",
        "소프트맥스를 쿼리 축으로 계산했습니다. 점수의 마지막 축인 키 축으로 계산해야 합니다",
    ),
    Mistake(
        "softmax-over-heads",
        "the softmax runs over the heads; it must run over the keys, the last axis of the scores",
        "소프트맥스를 헤드 축으로 계산했습니다. 점수의 마지막 축인 키 축으로 계산해야 합니다",
    ),
    Mistake(
        "no-softmax",
        "the scores are used as weights without a softmax",
        "소프트맥스 없이 점수를 그대로 가중치로 썼습니다",
    ),
    Mistake(
        "mask-missing",
        "it takes no mask, so padding and later positions have an effect",
        "마스크를 받지 않으므로 패딩과 미래의 위치가 결과에 영향을 줍니다",
        (UNIVERSE,),
    ),
    Mistake(
        "mask-ignored",
        "the mask is a parameter without an effect: hidden keys are attended to",
        "마스크를 인자로 받고도 쓰지 않아, 가려야 할 키까지 봅니다",
        (SEQ2SEQ,),
    ),
    Mistake(
        "mask-inverted",
        "the mask is read the wrong way round: it hides the keys that may be attended to",
        "마스크를 거꾸로 읽어, 보아야 할 키를 가립니다",
    ),
    Mistake(
        "mask-added",
        "the mask is added to the scores as 0 and 1; hidden scores must become minus infinity",
        "마스크를 0과 1 그대로 점수에 더했습니다. 가릴 점수는 음의 무한대가 되어야 합니다",
    ),
    Mistake(
        "mask-filled-with-zero",
        "hidden scores become 0, and e^0 = 1 is a weight; fill them with minus infinity",
        "가릴 점수를 0으로 채웠는데 e^0 = 1이므로 가중치가 남습니다. 음의 무한대로 채우세요",
    ),
    Mistake(
        "mask-after-softmax",
        "the mask is applied after the softmax: the rest of a row no longer sums to 1",
        "소프트맥스 뒤에 마스크를 적용해 한 행의 합이 1이 되지 않습니다",
    ),
    Mistake(
        "mask-positive",
        "hidden scores are filled with a large positive number; the minus sign is missing",
        "가릴 점수를 큰 양수로 채웠습니다. 음수 부호가 빠졌습니다",
    ),
    Mistake(
        "weights-returned",
        "it returns the weights; the result is their product with v",
        "가중치를 그대로 돌려줍니다. 가중치와 v를 곱한 것이 결과입니다",
    ),
    Mistake(
        "keys-for-values",
        "the weights are multiplied by the keys, not by the values",
        "가중치를 값(v)이 아니라 키(k)에 곱했습니다",
    ),
    # Several heads.
    Mistake(
        "split-without-transpose",
        "heads are split by view(B, H, L, K), which mixes positions and heads; view as (B, L, H, K), then transpose",
        "view(B, H, L, K)로 헤드를 나누어 위치와 헤드가 섞입니다. (B, L, H, K)로 본 뒤 전치하세요",
    ),
    Mistake(
        "split-heads-last",
        "the width is split as (K, H), not (H, K): a head gets every H-th number",
        "폭을 (H, K)가 아니라 (K, H)로 나누어 각 헤드가 H개마다 하나씩의 수를 받습니다",
    ),
    Mistake(
        "join-without-transpose",
        "heads are joined without transposing back, which mixes positions and heads",
        "되돌리는 전치 없이 헤드를 이어 붙여 위치와 헤드가 섞입니다",
    ),
    Mistake(
        "one-projection",
        "one projection makes queries, keys and values; the paper has W^Q, W^K and W^V",
        "투영 하나로 쿼리, 키, 값을 모두 만들었습니다. 논문에는 W^Q, W^K, W^V가 따로 있습니다",
        (SEQ2SEQ,),
    ),
    Mistake(
        "two-share-a-projection",
        "two of queries, keys and values share a projection",
        "쿼리, 키, 값 가운데 둘이 같은 투영을 씁니다",
    ),
    Mistake(
        "no-projection",
        "queries, keys and values are the inputs themselves: the projections W^Q, W^K and W^V are missing",
        "입력을 그대로 쿼리, 키, 값으로 씁니다. 투영 W^Q, W^K, W^V가 없습니다",
    ),
    Mistake(
        "projection-missing",
        "one of queries, keys and values is the input itself: its projection is missing",
        "쿼리, 키, 값 가운데 입력을 그대로 쓰는 것이 있습니다. 그 투영이 빠졌습니다",
    ),
    Mistake(
        "heads-share-projection",
        "all heads share one small projection of width d_k; each head needs its own",
        "모든 헤드가 폭 d_k의 작은 투영 하나를 함께 씁니다. 헤드마다 자기 투영이 있어야 합니다",
        (PERSSON,),
    ),
    Mistake(
        "no-output-projection",
        "the output projection W^O is missing",
        "출력 투영 W^O가 없습니다",
    ),
    Mistake(
        "output-reuses-projection",
        "the output goes through a projection of the inputs once more; it needs its own, W^O",
        "출력이 입력용 투영을 한 번 더 거칩니다. 출력에는 W^O가 따로 있어야 합니다",
        (SEQ2SEQ,),
    ),
    Mistake(
        "output-discarded",
        "the output projection is computed, but the result before it is returned",
        "출력 투영을 계산하고도 그 전의 결과를 돌려줍니다",
        (KERAS,),
    ),
    Mistake(
        "keys-values-swapped",
        "keys are made from the values' input, and values from the keys'",
        "값의 입력으로 키를, 키의 입력으로 값을 만들었습니다",
    ),
    Mistake(
        "queries-keys-swapped",
        "queries are made from the keys' input, and keys from the queries'",
        "키의 입력으로 쿼리를, 쿼리의 입력으로 키를 만들었습니다",
    ),
    Mistake(
        "unused-part",
        "never used, so never trained: {detail}",
        "한 번도 쓰이지 않아 학습되지 않습니다: {detail}",
        (ANNOTATED, SEQ2SEQ),
    ),
    Mistake(
        "returns-nothing",
        "it returns nothing (None); `return` is missing",
        "아무것도 돌려주지 않습니다(None). `return`이 빠졌습니다",
        (PERSSON,),
    ),
    # Masks.
    Mistake(
        "causal-diagonal-hidden",
        "a position does not see itself: the diagonal must be visible",
        "각 위치가 자기 자신을 보지 못합니다. 대각선은 보여야 합니다",
    ),
    Mistake(
        "causal-one-ahead",
        "a position sees the next one: the edge is off by one",
        "각 위치가 바로 다음 위치를 봅니다. 경계가 한 칸 어긋났습니다",
    ),
    Mistake(
        "causal-nothing-hidden",
        "nothing is hidden: each position sees the whole future",
        "아무것도 가리지 않아 모든 위치가 미래를 다 봅니다",
    ),
    Mistake(
        "causal-reversed",
        "it hides the past and shows the future: the other triangle (tril for triu) is needed",
        "과거를 가리고 미래를 보여 줍니다. 반대쪽 삼각형(triu 대신 tril)이 필요합니다",
    ),
    Mistake(
        "causal-one-row",
        "all positions have the mask of one position",
        "모든 위치가 한 위치의 마스크를 같이 씁니다",
    ),
    Mistake(
        "causal-nan",
        "0 times infinity is NaN: fill by masked_fill, do not multiply a mask by infinity",
        "0에 무한대를 곱하면 NaN입니다. 곱하지 말고 masked_fill로 채우세요",
    ),
    Mistake(
        "masks-disagree",
        "True means the opposite of what it means in the other mask of the file",
        "True의 뜻이 같은 파일의 다른 마스크와 반대입니다",
    ),
    Mistake(
        "padding-of-queries",
        "it masks the rows of padding; keys of padding must be hidden: (B, 1, 1, S)",
        "패딩인 쿼리의 행을 가렸습니다. 패딩인 키를 가려야 합니다: (B, 1, 1, S)",
    ),
    Mistake(
        "padding-of-first-sentence",
        "all sentences get the padding of the first one",
        "모든 문장이 첫 문장의 패딩 마스크를 씁니다",
    ),
    Mistake(
        "padding-hides-last-word",
        "it hides the last token of a sentence, too",
        "문장의 마지막 토큰까지 가립니다",
    ),
    Mistake(
        "padding-shows-first-pad",
        "the first padding token of a sentence is visible",
        "문장의 첫 패딩 토큰이 보입니다",
    ),
    Mistake(
        "padding-nothing-hidden",
        "no padding is hidden",
        "패딩을 하나도 가리지 않습니다",
    ),
    Mistake(
        "padding-other-id",
        "it hides another token in place of the padding",
        "패딩이 아닌 다른 토큰을 가립니다",
    ),
    # Positions.
    Mistake(
        "positions-own-exponent",
        "each dimension has its own exponent i / d_model; a sine and its cosine must share 2i / d_model",
        "차원마다 지수 i / d_model을 따로 썼습니다. 사인과 짝인 코사인은 지수 2i / d_model을 함께 써야 합니다",
        (KERAS,),
    ),
    Mistake(
        "positions-half-exponent",
        "the exponent is i / d_model for pair i; the paper has 2i / d_model",
        "i번째 쌍의 지수가 i / d_model입니다. 논문에서는 2i / d_model입니다",
    ),
    Mistake(
        "positions-cosine-exponent",
        "the exponent is 2i / d_model with i counted over dimensions; i counts pairs",
        "지수 2i / d_model의 i를 차원 번호로 세었습니다. i는 쌍의 번호입니다",
    ),
    Mistake(
        "positions-multiplied",
        "the position is multiplied by 10000^(2i / d_model); divide by it",
        "위치에 10000^(2i / d_model)을 곱했습니다. 나누어야 합니다",
    ),
    Mistake(
        "positions-no-exponent",
        "all dimensions have the same wavelength: the division by 10000^(2i / d_model) is missing",
        "모든 차원의 파장이 같습니다. 10000^(2i / d_model)로 나누는 부분이 없습니다",
    ),
    Mistake(
        "positions-other-base",
        "the base is 1000; the paper has 10000",
        "밑이 1000입니다. 논문에서는 10000입니다",
    ),
    Mistake(
        "positions-base-100",
        "the base is 100; the paper has 10000",
        "밑이 100입니다. 논문에서는 10000입니다",
    ),
    Mistake(
        "positions-halves",
        "sines fill the first half and cosines the second, as in tensor2tensor; the paper's equation interleaves them",
        "앞 절반이 사인, 뒤 절반이 코사인입니다(tensor2tensor의 방식). 논문의 식은 둘을 번갈아 놓습니다",
        (),
        True,
    ),
    Mistake(
        "positions-cosine-first",
        "even dimensions have the cosine and odd ones the sine; it is the other way round",
        "짝수 차원에 코사인, 홀수 차원에 사인이 있습니다. 서로 바꾸어야 합니다",
    ),
    Mistake(
        "positions-only-sines",
        "all dimensions are sines; odd dimensions are cosines",
        "모든 차원이 사인입니다. 홀수 차원은 코사인이어야 합니다",
    ),
    Mistake(
        "positions-only-cosines",
        "all dimensions are cosines; even dimensions are sines",
        "모든 차원이 코사인입니다. 짝수 차원은 사인이어야 합니다",
    ),
    Mistake(
        "positions-start-at-one",
        "positions begin with 1; the first one is 0",
        "위치를 1부터 셉니다. 첫 위치는 0입니다",
    ),
    Mistake(
        "positions-on-batch",
        "positions are added along the batch: each sentence gets one position for all its tokens",
        "위치를 배치 축에 더해, 한 문장의 모든 토큰이 같은 위치를 받습니다",
    ),
    # Layer normalization.
    Mistake(
        "norm-over-batch",
        "mean and deviation run over the batch; they must run over the features, the last axis",
        "평균과 편차를 배치 축으로 계산했습니다. 마지막 축인 특징 축으로 계산해야 합니다",
    ),
    Mistake(
        "norm-over-positions",
        "mean and deviation run over the positions; they must run over the features, the last axis",
        "평균과 편차를 위치 축으로 계산했습니다. 마지막 축인 특징 축으로 계산해야 합니다",
    ),
    Mistake(
        "norm-over-sentence",
        "mean and deviation run over positions and features together; each token is normalized alone",
        "평균과 편차를 위치와 특징 전체로 계산했습니다. 토큰마다 따로 정규화해야 합니다",
    ),
    Mistake(
        "norm-over-everything",
        "mean and deviation are single numbers of the whole batch; pass the last axis with keepdim=True",
        "배치 전체에서 평균과 편차를 하나씩만 구했습니다. 마지막 축과 keepdim=True를 주세요",
    ),
    Mistake(
        "norm-not-centred",
        "the mean is not subtracted",
        "평균을 빼지 않았습니다",
    ),
    Mistake(
        "norm-sample-deviation",
        "it divides by the sample deviation (n - 1); the paper's layer norm divides by n, and trains as well",
        "표본 표준편차(n - 1)로 나눕니다. 논문의 층 정규화는 n으로 나누며, 학습에는 차이가 없습니다",
        (ANNOTATED,),
        True,
    ),
    Mistake(
        "norm-by-variance",
        "it divides by the variance; divide by its square root",
        "분산으로 나누었습니다. 분산의 제곱근으로 나누어야 합니다",
    ),
    Mistake(
        "norm-not-scaled",
        "it does not divide by the deviation",
        "편차로 나누지 않았습니다",
    ),
    Mistake(
        "norm-no-gamma-beta",
        "it learns no gamma and beta, or does not use them",
        "학습되는 gamma와 beta가 없거나 쓰이지 않습니다",
    ),
    Mistake(
        "norm-gamma-beta-swapped",
        "gamma is added and beta multiplied; it is the other way round",
        "gamma를 더하고 beta를 곱했습니다. 서로 바꾸어야 합니다",
    ),
    Mistake(
        "norm-beta-unused",
        "beta is not added",
        "beta를 더하지 않았습니다",
    ),
    Mistake(
        "norm-gamma-unused",
        "gamma is not multiplied",
        "gamma를 곱하지 않았습니다",
    ),
    Mistake(
        "norm-beta-scaled",
        "beta is added before gamma is multiplied",
        "gamma를 곱하기 전에 beta를 더했습니다",
    ),
    Mistake(
        "norm-no-eps",
        "equal features give 0 / 0: add a small number (eps) to the variance",
        "특징이 모두 같으면 0 / 0이 됩니다. 분산에 작은 수(eps)를 더하세요",
    ),
    # Layers.
    Mistake(
        "residual-missing-attention",
        "the residual sum around the attention is missing",
        "어텐션을 감싸는 잔차 연결이 없습니다",
    ),
    Mistake(
        "residual-missing-cross",
        "the residual sum around the cross-attention is missing",
        "크로스 어텐션을 감싸는 잔차 연결이 없습니다",
    ),
    Mistake(
        "residual-missing-feed-forward",
        "the residual sum around the feed-forward is missing",
        "피드 포워드를 감싸는 잔차 연결이 없습니다",
    ),
    Mistake(
        "residual-missing",
        "the layer has no residual sum at all",
        "층에 잔차 연결이 하나도 없습니다",
    ),
    Mistake(
        "residual-of-normed",
        "the residual sum adds the normalized input; add the input before its norm",
        "잔차 연결에서 정규화한 입력을 더했습니다. 정규화하기 전의 입력을 더하세요",
    ),
    Mistake(
        "norm-missing-attention",
        "the norm of the first part is missing",
        "첫 부분의 정규화가 없습니다",
    ),
    Mistake(
        "norm-missing-cross",
        "the norm of the cross-attention is missing",
        "크로스 어텐션의 정규화가 없습니다",
    ),
    Mistake(
        "norm-missing-feed-forward",
        "the norm of the feed-forward is missing",
        "피드 포워드의 정규화가 없습니다",
    ),
    Mistake(
        "norm-missing",
        "the layer has no norm at all",
        "층에 정규화가 하나도 없습니다",
    ),
    Mistake(
        "norm-shared",
        "one norm is used in several places; each place needs its own gamma and beta",
        "정규화 하나를 여러 곳에서 함께 씁니다. 자리마다 gamma와 beta가 따로 있어야 합니다",
    ),
    Mistake(
        "norm-before-sum",
        "the norm is applied to a part's output before the residual sum; normalize the sum, or the input",
        "잔차를 더하기 전에 부분의 출력만 정규화했습니다. 더한 값이나 입력을 정규화하세요",
    ),
    Mistake(
        "feed-forward-first",
        "the feed-forward comes before the attention",
        "피드 포워드가 어텐션보다 먼저 옵니다",
    ),
    Mistake(
        "feed-forward-missing",
        "the feed-forward is missing",
        "피드 포워드가 없습니다",
    ),
    Mistake(
        "feed-forward-parallel",
        "attention and feed-forward read the same input side by side; the feed-forward reads the attention's result",
        "어텐션과 피드 포워드가 같은 입력을 나란히 읽습니다. 피드 포워드는 어텐션의 결과를 읽어야 합니다",
    ),
    Mistake(
        "feed-forward-linear",
        "the feed-forward has no activation: two linear maps are one",
        "피드 포워드에 활성화 함수가 없습니다. 선형 사상 둘은 하나와 같습니다",
    ),
    Mistake(
        "layer-mask-dropped",
        "the attention of the layer gets no mask",
        "층의 어텐션에 마스크가 전달되지 않습니다",
        (UNIVERSE,),
    ),
    Mistake(
        "cross-first",
        "the cross-attention comes before the self-attention",
        "크로스 어텐션이 셀프 어텐션보다 먼저 옵니다",
    ),
    Mistake(
        "cross-missing",
        "the cross-attention is missing: the decoder does not see the source",
        "크로스 어텐션이 없어 디코더가 소스를 보지 못합니다",
    ),
    Mistake(
        "cross-is-self-attention",
        "the memory goes through the self-attention's module; cross-attention needs its own weights",
        "메모리가 셀프 어텐션 모듈을 거칩니다. 크로스 어텐션에는 자기 가중치가 있어야 합니다",
        (ANNOTATED,),
    ),
    Mistake(
        "cross-attends-to-itself",
        "keys and values come from the queries' input, not from the memory: cross-attention looks at itself",
        "키와 값이 메모리가 아니라 쿼리의 입력에서 나옵니다. 크로스 어텐션이 자기 자신을 봅니다",
    ),
    Mistake(
        "cross-queries-from-memory",
        "queries come from the memory, and keys and values from the decoder; it is the other way round",
        "쿼리를 메모리에서, 키와 값을 디코더에서 만들었습니다. 서로 바꾸어야 합니다",
    ),
    Mistake(
        "masks-swapped",
        "the self-attention gets the source's mask, and the cross-attention the target's",
        "셀프 어텐션이 소스 마스크를, 크로스 어텐션이 타깃 마스크를 받습니다",
        (KERAS,),
    ),
    Mistake(
        "cross-mask-causal",
        "the cross-attention gets the target's mask; each position may see the whole source",
        "크로스 어텐션이 타깃 마스크를 받습니다. 모든 위치가 소스 전체를 볼 수 있어야 합니다",
    ),
    Mistake(
        "self-mask-of-memory",
        "the decoder's self-attention gets the source's mask, so it sees the future",
        "디코더의 셀프 어텐션이 소스 마스크를 받아 미래를 봅니다",
    ),
    Mistake(
        "self-mask-dropped",
        "the decoder's self-attention gets no mask, so it sees the future",
        "디코더의 셀프 어텐션이 마스크를 받지 않아 미래를 봅니다",
    ),
    Mistake(
        "memory-mask-dropped",
        "the cross-attention gets no mask, so it attends to the source's padding",
        "크로스 어텐션이 마스크를 받지 않아 소스의 패딩을 봅니다",
    ),
    # Loss.
    Mistake(
        "loss-counts-pads",
        "padding counts as words in the loss",
        "손실에서 패딩을 단어로 셉니다",
    ),
    Mistake(
        "loss-divides-by-all",
        "the sum over words is divided by all positions, padding included",
        "단어의 합을 패딩까지 포함한 위치 수로 나누었습니다",
    ),
    Mistake(
        "loss-mean-of-means",
        "it is a mean of each sentence's mean, in which words of short sentences weigh more; divide the sum "
        "by all words",
        "문장 평균의 평균이라 짧은 문장의 단어가 더 크게 반영됩니다. 전체 합을 전체 단어 수로 나누세요",
    ),
    Mistake(
        "loss-softmax-twice",
        "the softmax is applied twice: cross-entropy takes logits, not probabilities",
        "소프트맥스를 두 번 적용했습니다. 교차 엔트로피에는 확률이 아니라 로짓을 넣어야 합니다",
    ),
    Mistake(
        "loss-softmax-over-positions",
        "the softmax runs over the positions; it must run over the vocabulary, the last axis",
        "소프트맥스를 위치 축으로 계산했습니다. 마지막 축인 어휘 축으로 계산해야 합니다",
    ),
    Mistake(
        "loss-no-softmax",
        "logits are used as log-probabilities; log_softmax is missing",
        "로짓을 로그 확률로 썼습니다. log_softmax가 빠졌습니다",
    ),
    Mistake(
        "loss-no-log",
        "it sums probabilities; the logarithm is missing",
        "확률을 그대로 더했습니다. 로그가 빠졌습니다",
    ),
    Mistake(
        "loss-sign",
        "the sign is wrong: training would make the targets less likely",
        "부호가 반대라 학습할수록 정답의 확률이 낮아집니다",
    ),
    Mistake(
        "smoothing-ignored",
        "the label smoothing is a parameter without an effect",
        "라벨 스무딩을 인자로 받고도 쓰지 않습니다",
    ),
    Mistake(
        "smoothing-swapped",
        "the target gets the smoothing's share, and the other words get the rest",
        "정답이 스무딩의 몫을 받고 나머지 단어들이 그 나머지를 받습니다",
    ),
    Mistake(
        "smoothing-mass-lost",
        "the smoothed probabilities do not sum to 1: other words get eps / V, which leaves out the target's share",
        "스무딩한 확률의 합이 1보다 작습니다. 다른 단어가 eps / V씩 받고 정답의 몫이 빠졌습니다",
    ),
    Mistake(
        "smoothing-mass-added",
        "the smoothed probabilities sum to more than 1: the target keeps 1, and must give up the smoothing",
        "스무딩한 확률의 합이 1보다 큽니다. 정답이 1을 그대로 갖고 있습니다",
    ),
    Mistake(
        "loss-not-shifted",
        "the model's input is the target itself: it sees the word that it predicts; shift by one",
        "모델의 입력이 정답 그 자체라 예측할 단어를 이미 봅니다. 한 칸 밀어야 합니다",
    ),
    Mistake(
        "loss-shift-reversed",
        "the shift goes the wrong way: the model learns to predict the word before",
        "반대쪽으로 밀었습니다. 모델이 이전 단어를 예측하도록 학습됩니다",
    ),
    # Learning rate.
    Mistake(
        "rate-max",
        "it takes the larger of the two terms; equation 3 takes the smaller",
        "두 항 가운데 큰 쪽을 택했습니다. 식 3은 작은 쪽을 택합니다",
    ),
    Mistake(
        "rate-no-warmup",
        "there is no warm-up: the first steps have the largest rate",
        "웜업이 없어 첫 스텝의 학습률이 가장 큽니다",
    ),
    Mistake(
        "rate-no-decay",
        "the rate does not decay after the warm-up",
        "웜업 뒤에 학습률이 줄지 않습니다",
    ),
    Mistake(
        "rate-width-root",
        "it multiplies by d_model^0.5; equation 3 has d_model^-0.5",
        "d_model^0.5를 곱했습니다. 식 3에서는 d_model^-0.5입니다",
    ),
    Mistake(
        "rate-no-width",
        "the factor d_model^-0.5 is missing",
        "d_model^-0.5가 빠졌습니다",
    ),
    Mistake(
        "rate-width-inverse",
        "it divides by d_model; equation 3 divides by its square root",
        "d_model로 나누었습니다. 식 3은 그 제곱근으로 나눕니다",
    ),
    Mistake(
        "rate-warmup-root",
        "the exponent of the warm-up is -0.5; equation 3 has -1.5",
        "웜업의 지수가 -0.5입니다. 식 3에서는 -1.5입니다",
    ),
    Mistake(
        "rate-warmup-linear",
        "the exponent of the warm-up is -1; equation 3 has -1.5",
        "웜업의 지수가 -1입니다. 식 3에서는 -1.5입니다",
    ),
    Mistake(
        "rate-warmup-squared",
        "the exponent of the warm-up is -2; equation 3 has -1.5",
        "웜업의 지수가 -2입니다. 식 3에서는 -1.5입니다",
    ),
    Mistake(
        "rate-decay-linear",
        "the rate decays with 1 / step; equation 3 has step^-0.5",
        "학습률이 1 / step으로 줄어듭니다. 식 3에서는 step^-0.5입니다",
    ),
    Mistake(
        "rate-grows",
        "the rate grows with step^0.5; the minus sign is missing",
        "학습률이 step^0.5로 커집니다. 음수 부호가 빠졌습니다",
    ),
    Mistake(
        "rate-one-early",
        "the rate is that of the next step: one step early",
        "다음 스텝의 학습률입니다. 한 스텝 빠릅니다",
    ),
    Mistake(
        "rate-one-late",
        "the rate is that of the step before: one step late",
        "이전 스텝의 학습률입니다. 한 스텝 늦습니다",
    ),
    Mistake(
        "rate-step-zero",
        "step 0 has no rate (0^-0.5): count steps from 1",
        "스텝 0에서는 학습률이 정의되지 않습니다(0^-0.5). 스텝을 1부터 세세요",
        (KERAS,),
        True,
    ),
    # Greedy search.
    Mistake(
        "greedy-least-likely",
        "it takes the least likely token (argmin for argmax)",
        "확률이 가장 낮은 토큰을 고릅니다(argmax 대신 argmin)",
    ),
    Mistake(
        "greedy-second-best",
        "it takes the second most likely token",
        "두 번째로 확률이 높은 토큰을 고릅니다",
    ),
    Mistake(
        "greedy-first-position",
        "it reads the first position's logits; the next token is in the last one's",
        "첫 위치의 로짓을 읽습니다. 다음 토큰은 마지막 위치에 있습니다",
    ),
    Mistake(
        "greedy-position-before",
        "it reads the logits of the position before the last",
        "마지막 바로 앞 위치의 로짓을 읽습니다",
    ),
    Mistake(
        "greedy-forgets-prefix",
        "the model gets the last token alone, without the tokens before it",
        "앞의 토큰들 없이 마지막 토큰만 모델에 넣습니다",
    ),
    Mistake(
        "greedy-without-start",
        "the model does not get the start token: the prefix begins with padding",
        "시작 토큰 없이 패딩으로 시작합니다",
    ),
    Mistake(
        "greedy-ignores-end",
        "it goes on after the end token",
        "종료 토큰 뒤에도 계속합니다",
    ),
    Mistake(
        "greedy-stops-before-last",
        "the last token before the end is lost",
        "종료 토큰 바로 앞의 토큰이 빠집니다",
    ),
    Mistake(
        "greedy-never-ends",
        "the search does not end: neither the end token nor the greatest length stops it",
        "탐색이 끝나지 않습니다. 종료 토큰도 최대 길이도 탐색을 멈추지 못합니다",
    ),
    # Beam search.
    Mistake(
        "beam-last-score",
        "a hypothesis is ranked by its last token's log-probability; sum over all tokens",
        "가설을 마지막 토큰의 로그 확률로만 비교합니다. 모든 토큰의 합으로 비교하세요",
    ),
    Mistake(
        "beam-sums-probabilities",
        "it adds probabilities; add log-probabilities",
        "확률을 더합니다. 로그 확률을 더해야 합니다",
    ),
    Mistake(
        "beam-raw-logits",
        "it adds logits; log_softmax is missing, so hypotheses cannot be compared",
        "로짓을 더합니다. log_softmax가 빠져 가설끼리 비교할 수 없습니다",
    ),
    Mistake(
        "beam-not-reordered",
        "the chosen tokens are appended to prefixes of other hypotheses: reorder the prefixes by their parents",
        "고른 토큰을 다른 가설의 뒤에 붙입니다. 부모 가설의 순서대로 앞부분을 다시 배열하세요",
    ),
    Mistake(
        "beam-keeps-worst",
        "it keeps the least likely hypotheses",
        "확률이 가장 낮은 가설을 남깁니다",
    ),
    Mistake(
        "beam-one-each",
        "each hypothesis is continued by its best token alone: this is not a beam",
        "가설마다 가장 좋은 토큰 하나로만 이어 갑니다. 이것은 빔 탐색이 아닙니다",
    ),
    Mistake(
        "beam-ended-continue",
        "ended hypotheses are continued after the end token",
        "끝난 가설을 종료 토큰 뒤에도 이어 갑니다",
    ),
    Mistake(
        "beam-forgets-ended",
        "ended hypotheses are dropped and never returned",
        "끝난 가설을 버리고 결과로 돌려주지 않습니다",
    ),
    Mistake(
        "beam-returns-last",
        "it returns the worst of the final hypotheses, not the best",
        "마지막 가설 가운데 가장 좋은 것이 아니라 가장 나쁜 것을 돌려줍니다",
    ),
    Mistake(
        "beam-length-ignored",
        "the length penalty is a parameter without an effect",
        "길이 페널티를 인자로 받고도 쓰지 않습니다",
    ),
    Mistake(
        "beam-never-ends",
        "the search does not end: neither end tokens nor the greatest length stop it",
        "탐색이 끝나지 않습니다. 종료 토큰도 최대 길이도 탐색을 멈추지 못합니다",
    ),
    # Properties of a part that no variant explains; the detail is the first place that differs.
    Mistake(
        "property-repeatable",
        "two calls with the same input differ, at {detail}: is dropout active outside of training?",
        "같은 입력으로 두 번 부르면 결과가 다릅니다: {detail}. 학습이 아닐 때도 드롭아웃을 적용하나요?",
    ),
    Mistake(
        "property-batch",
        "the output of a sentence depends on the other sentences of its batch, at {detail}",
        "한 문장의 출력이 배치의 다른 문장에 따라 달라집니다: {detail}",
    ),
    Mistake(
        "property-heads",
        "the output of a head depends on the other heads, at {detail}",
        "한 헤드의 출력이 다른 헤드에 따라 달라집니다: {detail}",
    ),
    Mistake(
        "property-pointwise",
        "the output of a position depends on other positions, at {detail}",
        "한 위치의 출력이 다른 위치에 따라 달라집니다: {detail}",
    ),
    Mistake(
        "property-hidden",
        "a key that the mask hides changes the output, at {detail}",
        "마스크로 가린 키가 출력을 바꿉니다: {detail}",
    ),
    Mistake(
        "property-visible",
        "a key that the mask shows has no effect on the output at {detail}",
        "마스크가 보여 주는 키가 출력에 영향을 주지 않습니다: {detail}",
    ),
    Mistake(
        "property-weights",
        "the weights of a query do not sum to 1: with values that are all 1 the output differs from 1, at {detail}",
        "한 쿼리의 가중치를 더해도 1이 되지 않습니다. 값이 모두 1이면 출력도 1이어야 합니다: {detail}",
    ),
    # The same of masks, positions, losses, schedules and searches.
    Mistake(
        "property-mask-future",
        "a position may attend to a later one, at {detail}",
        "한 위치가 미래의 위치를 볼 수 있습니다: {detail}",
    ),
    Mistake(
        "property-mask-blind",
        "a position may attend to no position, not even to itself, at {detail}",
        "한 위치가 자기 자신을 포함해 아무 위치도 볼 수 없습니다: {detail}",
    ),
    Mistake(
        "property-mask-padding",
        "a word may attend to padding, at {detail}: sentence, query, key",
        "단어가 패딩을 볼 수 있습니다: {detail}(문장, 쿼리, 키)",
    ),
    Mistake(
        "property-mask-word",
        "a word is hidden from all words of its sentence, at {detail}",
        "한 단어가 그 문장의 모든 단어에게 가려져 있습니다: {detail}",
    ),
    Mistake(
        "property-positions-distinct",
        "two positions have the same numbers, so the model cannot tell them apart: {detail}",
        "두 위치의 값이 같아 모델이 둘을 구별할 수 없습니다: {detail}",
    ),
    Mistake(
        "property-positions-length",
        "the numbers of a position depend on the length of the sentence, at {detail}",
        "한 위치의 값이 문장의 길이에 따라 달라집니다: {detail}",
    ),
    Mistake(
        "property-loss-pads",
        "the logits at padding change the loss: {detail}",
        "패딩 위치의 로짓이 손실을 바꿉니다: {detail}",
    ),
    Mistake(
        "property-loss-words",
        "the logits of a word have no effect on the loss, at {detail}",
        "한 단어의 로짓이 손실에 영향을 주지 않습니다: {detail}",
    ),
    Mistake(
        "property-loss-softmax",
        "the same number added to all logits of a position changes the loss, so no softmax over the vocabulary "
        "is taken: {detail}",
        "한 위치의 모든 로짓에 같은 수를 더하면 손실이 바뀝니다. 어휘에 대한 소프트맥스가 없습니다: {detail}",
    ),
    Mistake(
        "property-loss-order",
        "the loss depends on the order of the sentences: {detail}",
        "손실이 문장의 순서에 따라 달라집니다: {detail}",
    ),
    Mistake(
        "property-loss-sign",
        "the loss is not smaller where the targets are likely than where all words are equally likely: {detail}",
        "정답의 확률이 높아도 모든 단어의 확률이 같을 때보다 손실이 작지 않습니다: {detail}",
    ),
    Mistake(
        "property-rate-negative",
        "the rate of a step is negative or no finite number, at {detail}",
        "한 스텝의 학습률이 음수이거나 유한한 수가 아닙니다: {detail}",
    ),
    Mistake(
        "property-rate-warmup",
        "the rate does not rise during the warm-up: {detail}",
        "웜업 동안 학습률이 커지지 않습니다: {detail}",
    ),
    Mistake(
        "property-rate-decay",
        "the rate is greater after the warm-up than at its end: {detail}",
        "웜업이 끝난 뒤의 학습률이 웜업이 끝날 때보다 큽니다: {detail}",
    ),
    Mistake(
        "property-greedy-choice",
        "it does not take the most likely token, at {detail}",
        "확률이 가장 높은 토큰을 고르지 않습니다: {detail}",
    ),
    Mistake(
        "property-search-end",
        "tokens follow the end token: {detail}",
        "종료 토큰 뒤에 다른 토큰이 이어집니다: {detail}",
    ),
    Mistake(
        "property-search-length",
        "without an end token the search exceeds the greatest length: {detail}",
        "종료 토큰이 나오지 않으면 최대 길이를 넘깁니다: {detail}",
    ),
    Mistake(
        "property-beam-size",
        "it continues more hypotheses of one length than the beam has: {detail}",
        "같은 길이의 가설을 빔의 크기보다 많이 이어 갑니다: {detail}",
    ),
    Mistake(
        "property-beam-choice",
        "its translation is less likely than that of a greedy search, by the sum of log-probabilities and by "
        "their mean: {detail}",
        "찾은 번역이 그리디 탐색의 번역보다 로그 확률의 합으로도 평균으로도 확률이 낮습니다: {detail}",
    ),
    # The judge itself.
    Mistake(
        RAISES,
        "it raises {detail}",
        "오류가 납니다: {detail}",
    ),
    Mistake(
        OUT_OF_TIME,
        "it takes longer than {detail} seconds on tiny tensors: is there a loop without an end?",
        "아주 작은 텐서에서도 {detail}초가 넘게 걸립니다. 끝나지 않는 반복문이 있나요?",
    ),
    Mistake(
        UNKNOWN,
        "the judge does not know: {detail}",
        "판정할 수 없습니다: {detail}",
    ),
)

MISTAKES = {row.id: row for row in _ROWS}
"""The rows by id."""
