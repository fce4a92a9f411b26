// Korean texts of the walk through the equations.

/** @type {Record<string, string>} */
export const ko = {
  "Step by step": "한 단계씩",
  "← and → go from step to step, ↑ and ↓ from word to word, [ and ] from layer to layer. Click a strip to look at another number.":
    "← →는 앞뒤 단계로, ↑ ↓는 다른 단어로, [ ]는 다른 층으로 갑니다. 색 띠를 누르면 벡터의 다른 숫자를 볼 수 있습니다.",
  "Tap a strip to look at another number of the vectors.": "색 띠를 누르면 벡터의 다른 숫자를 볼 수 있습니다.",
  "There is no sentence yet: write one in the first view.": "아직 문장이 없습니다. 첫 화면에서 문장을 써 보세요.",
  "write numbers out": "숫자로 쓰기", "step forward": "다음 단계", "same step, layer before": "이전 층의 같은 단계", "same step, next layer": "다음 층의 같은 단계",
  "section {number}": "{number}절", "equation {number}": "식 {number}", "not in the paper": "논문에는 없음", "{at} of {count}": "{count}단계 중 {at}", writes: "쓸 단어",
  "The encoder reads": "인코더가 읽는 글", "The decoder has read": "디코더가 읽은 글",
  "a step back, a step forward": "이전 단계, 다음 단계", "another word": "다른 단어", "the same step of another layer": "다른 층의 같은 단계", "another number of the vectors": "벡터의 다른 숫자",
  "the walk through the equations": "수식을 한 단계씩", Encoder: "인코더", Decoder: "디코더", "{stack}, before its layers": "{stack}, 첫 층 앞", "{stack}, behind its layers": "{stack}, 마지막 층 뒤",
  "masked self-attention": "마스크드 셀프 어텐션", "{stack}, layer {layer}: {sublayer}": "{stack} {layer}층: {sublayer}",
  "{rows} by {columns}: coloured where a word may look": "{rows} × {columns}: 볼 수 있는 곳에 색이 있습니다",

  "From a word to a vector": "단어에서 벡터로", "Add the position": "위치 더하기", "Add the segment": "문장 구분 더하기", "Layer norm": "층 정규화", "Query, key and value": "쿼리, 키, 값(value)",
  "Turn by the position": "위치만큼 돌리기", "Scores: query times key": "점수: 쿼리와 키의 곱", "The mask": "마스크", "Softmax: weights that sum to one": "소프트맥스: 합이 1인 가중치",
  "The weighted sum of the values": "값의 가중합", "Put the heads together": "헤드 합치기", "Add: the residual connection": "더하기: 잔차 연결", "Feed-forward: the inner layer": "피드 포워드: 안쪽 층",
  "Feed-forward: back to the model's width": "피드 포워드: 모델의 너비로 돌아오기", "The norm behind the last layer": "마지막 층 뒤의 정규화", "What the encoder hands on": "인코더가 넘겨주는 것",
  "Logits: a number for every word": "로짓: 단어마다 숫자 하나", "Softmax: the next word": "소프트맥스: 다음 단어", "One vector for the text": "글 전체를 벡터 하나로", "Softmax: the class": "소프트맥스: 클래스",

  vectors: "벡터", positions: "위치", segments: "문장 구분", norm: "정규화", turn: "회전", mask: "마스크", softmax: "소프트맥스", add: "더하기", "inner layer": "안쪽 층", "outer layer": "바깥쪽 층",
  "last norm": "마지막 정규화", memory: "메모리", logits: "로짓", "softmax over words": "단어 소프트맥스", "one vector": "벡터 하나", "softmax over classes": "클래스 소프트맥스",
  output: "출력", steps: "단계", "All steps": "모든 단계",

  "of “{word}”": "(“{word}”)", "sum of all": "전체 합", before: "정규화 전", after: "정규화 후",
  "The tokenizer gives every piece of the sentence a number; the number picks a row of a learned table. That row is the word's vector.": "토크나이저가 문장의 조각마다 번호를 붙이고, 그 번호로 학습된 표에서 행 하나를 고릅니다. 그 행이 단어의 벡터입니다.",
  "It is multiplied by the root of {width}, so that the positions added next do not drown it.": "다음에 더할 위치 벡터에 묻히지 않도록 {width}의 제곱근을 곱합니다.", "It is multiplied by the root of {width}.": "여기에 {width}의 제곱근을 곱합니다.",
  "“{word}” is number {id} of the vocabulary.": "“{word}”의 어휘 번호는 {id}입니다.", "row of the table": "표의 행", "times the root of {width}": "√{width} 곱하기",
  "Attention by itself does not know the order of words. So each place has a learned vector, which is added to the word's.": "어텐션은 그 자체로는 단어의 순서를 모릅니다. 그래서 자리마다 학습된 벡터를 하나씩 두고 단어의 벡터에 더합니다.",
  "Attention by itself does not know the order of words. So each place has a pattern of sines and cosines, fast at the left and slow at the right, which is added to the word's vector.":
    "어텐션은 그 자체로는 단어의 순서를 모릅니다. 그래서 자리마다 사인과 코사인으로 된 무늬를 단어의 벡터에 더합니다. 왼쪽은 빠르게, 오른쪽은 느리게 변하는 물결입니다.",
  "the word": "단어", "its position, {place}": "위치 {place}", together: "합",
  "A model that reads two texts adds a learned vector that says which of them a word belongs to, as BERT does.": "두 글을 함께 읽는 모델은 BERT처럼 단어가 어느 글에 속하는지 알려 주는 학습된 벡터를 더합니다.", "the segment's vector": "문장 구분 벡터",
  "The vector is shifted and scaled so that its numbers have mean 0 and deviation 1, then multiplied by learned numbers. That keeps vectors of one size through all layers.":
    "벡터의 숫자들이 평균 0, 표준편차 1이 되도록 옮기고 늘이거나 줄인 다음, 학습된 수를 곱합니다. 덕분에 벡터의 크기가 모든 층을 지나도록 고르게 유지됩니다.",
  "The vector is scaled so that the mean of its squares is 1, then multiplied by learned numbers. That keeps vectors of one size through all layers.": "제곱의 평균이 1이 되도록 벡터의 크기를 맞춘 다음, 학습된 수를 곱합니다. 덕분에 벡터의 크기가 모든 층을 지나도록 고르게 유지됩니다.",
  "The paper has it behind the residual sum; this model, as most today, before the sublayer.": "논문에서는 잔차를 더한 뒤에 정규화하지만, 이 모델은 요즘 모델 대부분처럼 서브층 앞에서 합니다.",
  "It stands behind the residual sum, as in the paper: LayerNorm(x + Sublayer(x)).": "논문과 같이 잔차를 더한 뒤에 정규화합니다: LayerNorm(x + Sublayer(x)).",
  "Where norms stand before the sublayers, nothing has normalised the last sum: one more norm does it. The paper, with its norms behind the sums, needs none.":
    "정규화가 서브층 앞에 있으면 마지막 합은 정규화되지 않은 채로 남으므로, 한 번 더 정규화합니다. 정규화가 합 뒤에 있는 논문의 모델에는 필요 없습니다.",
  "What the sublayer gives is added to what came in. Nothing is replaced: each sublayer writes a little into the same vector, which runs through all layers (the residual stream).":
    "서브층의 결과를 들어온 벡터에 더합니다. 바꿔치기하는 것이 아니라, 모든 층을 관통하는 벡터 하나에 서브층마다 조금씩 적어 넣는 셈입니다(잔차 스트림).",
  "what came in": "들어온 것", "what feed-forward adds": "피드 포워드가 더하는 것", "what attention adds": "어텐션이 더하는 것",
  "Each place by itself goes through a small network: first up to {wide} numbers.": "자리마다 따로 작은 신경망을 지납니다. 먼저 숫자 {wide}개로 늘어납니다.",
  "Whatever is negative becomes 0, so that only some of these units speak for this word.": "음수는 모두 0이 되므로, 이 단어에는 일부 유닛만 반응합니다.", "The activation lets some of these units through and holds others back.": "활성화 함수가 어떤 유닛은 통과시키고 어떤 유닛은 막습니다.",
  "x, what comes in": "x, 들어오는 것", "the gate": "게이트", "before the activation": "활성화 전", "after the activation": "활성화 후", "{active} of {all} units are above 0 here.": "여기서는 유닛 {all}개 가운데 {active}개가 0보다 큽니다.",
  "Then back down to the width of the model. What a unit of the inner layer adds to the word is a learned vector, times how much the unit speaks.": "다시 모델의 너비로 줄입니다. 안쪽 층의 유닛은 저마다 학습된 벡터를 갖고 있고, 반응한 만큼 곱해 단어에 더합니다.", "h, the inner layer": "h, 안쪽 층",
  "The encoder is done: each word of the source has a vector that knows its neighbours. The cross-attention of every decoder layer takes its keys and values from these vectors.":
    "인코더의 일이 끝났습니다. 이제 원문의 단어마다 이웃을 아는 벡터가 있습니다. 디코더의 모든 층은 크로스 어텐션의 키와 값을 이 벡터에서 만듭니다.",
  "The last vector is multiplied with one vector for each of the {count} words. The larger the product, the better the word fits.": "마지막 벡터를 어휘의 단어 {count}개의 벡터와 하나씩 내적합니다. 값이 클수록 그 단어가 어울립니다.",
  "These vectors are the rows of the embedding table again: one matrix for both.": "이 벡터들은 임베딩 표의 행과 같은 것입니다. 행렬 하나를 두 곳에 씁니다.", "x, the last vector": "x, 마지막 벡터", "vector of “{word}”": "“{word}”의 벡터", "The words with the largest logits": "로짓이 가장 큰 단어",
  "Softmax again, now over all {count} words: their probabilities. The search chooses among them; the chosen word is read in the next step, and everything begins anew.":
    "다시 소프트맥스입니다. 이번에는 단어 {count}개 전체에 대해 확률을 구합니다. 탐색이 이 가운데서 단어를 고르고, 고른 단어는 다음 차례에 읽혀 모든 계산이 새로 시작됩니다.",
  "Written here: “{word}”.": "여기에 쓴 단어: “{word}”", "Go on: how the next word comes about": "계속: 다음 단어는 어떻게 나오는가",
  "To name the class of the whole text, one vector is made of all: their mean.": "글 전체의 클래스를 정하기 위해, 모든 벡터의 평균으로 벡터 하나를 만듭니다.",
  "To name the class of the whole text, the vector of the first token stands for it: attention has gathered there what counts.": "글 전체의 클래스를 정할 때는 첫 토큰의 벡터가 글을 대표합니다. 필요한 것을 어텐션이 그곳에 모아 두었습니다.",
  "It goes through one more layer.": "여기에 층을 하나 더 지납니다.", "after the layer": "층을 지난 뒤", "One product for each class, and the softmax over them: the probabilities of the classes.": "클래스마다 내적을 하나씩 구하고 소프트맥스를 취하면 클래스의 확률이 됩니다.", Logits: "로짓", Probabilities: "확률",

  "q and k are shown as they are after the next step, which turns them.": "q와 k는 다음 단계에서 돌린 뒤의 값입니다.",
  "The word being written asks (query); every word of the source answers with a key, and offers a value. Queries come from the decoder, keys and values from the encoder's output m.":
    "지금 쓰려는 단어가 묻고(쿼리), 원문의 단어들이 키로 답하며 값을 내놓습니다. 쿼리는 디코더에서, 키와 값은 인코더의 출력 m에서 나옵니다.",
  "Each word's vector is multiplied by three learned matrices. The query says what the word looks for, the key what it can be found by, the value what it gives when it is found.":
    "단어의 벡터에 학습된 행렬 세 개를 곱합니다. 쿼리는 이 단어가 무엇을 찾는지, 키는 무엇으로 찾아지는지, 값은 찾아졌을 때 무엇을 내주는지를 나타냅니다.",
  "x, the word's vector": "x, 단어의 벡터", "q, its query": "q, 쿼리", "Keys k and values v of the words that can be looked at": "볼 수 있는 단어들의 키 k와 값 v", "{heads} heads of queries share {groups} heads of keys and values.": "쿼리 헤드 {heads}개가 키·값 헤드 {groups}개를 나누어 씁니다.",
  "This model does not add positions to its words. It turns each pair of numbers of a query and a key by an angle that grows with the position, so that their product depends on the distance between the words.":
    "이 모델은 위치를 단어에 더하지 않습니다. 쿼리와 키의 숫자를 둘씩 짝지어 위치에 비례하는 각도만큼 돌립니다. 그러면 둘의 곱이 단어 사이의 거리에 따라 달라집니다.", "q, turned": "q, 돌린 뒤", "Keys, turned": "키, 돌린 뒤",
  "How well does the query fit each key? Both vectors are multiplied number by number and added up; the sum is divided by the root of {width}, so that wide heads do not give huge scores.":
    "쿼리가 각 키와 얼마나 잘 맞을까요? 두 벡터를 숫자끼리 곱해 모두 더합니다. 헤드가 넓다고 점수가 지나치게 커지지 않도록 {width}의 제곱근으로 나눕니다.",
  "q of “{word}”": "“{word}”의 q", "k of “{word}”": "“{word}”의 k", "their products": "숫자끼리의 곱", "score of “{word}”": "“{word}”의 점수", "bias of the distance": "거리의 편향", "The key of each word, and its score; click a word for its sum": "단어마다 키와 점수(단어를 누르면 계산을 보여 줍니다)",
  "where j must not be seen": "(j를 보면 안 되는 곳)",
  "A word that is being written may not see the words behind it: they are not there yet when the model writes for itself. Their scores become −∞, and −∞ becomes the weight 0.":
    "지금 쓰는 단어는 뒤에 올 단어를 볼 수 없습니다. 모델이 스스로 쓸 때는 아직 없는 단어이기 때문입니다. 그 점수를 −∞로 바꾸면 가중치가 0이 됩니다.",
  "These words are hidden: their scores become −∞, so that nobody looks at them.": "이 단어들은 가려져 있습니다. 점수가 −∞가 되어 아무도 보지 못합니다.", "The scores of “{word}”": "“{word}”의 점수", "Who may see whom: a row looks, a column is looked at": "누가 누구를 볼 수 있는가: 행이 보고, 열이 보입니다",
  "The exponential makes every score positive and large ones much larger; divided by their sum they become weights between 0 and 1 that add up to 1. This is what the other views draw.":
    "지수 함수를 씌우면 모든 점수가 양수가 되고 큰 점수는 훨씬 더 커집니다. 이를 전체 합으로 나누면 더해서 1이 되는 0과 1 사이의 가중치가 됩니다. 다른 화면에서 그리는 것이 바로 이 가중치입니다.",
  "Now the values count: each word's value times its weight, all added up. A word that is looked at much leaves much of itself in the result; this sum is all that the head brings along.":
    "이제 값의 차례입니다. 단어마다 값에 가중치를 곱해 모두 더합니다. 많이 본 단어일수록 결과에 많이 남습니다. 헤드가 가져오는 것은 이 합이 전부입니다.",
  "What the head gives: the sum": "헤드의 결과: 합", "This head is switched off: it gives zeros.": "이 헤드는 꺼져 있어 0만 내보냅니다.", "Weight times value, word by word": "단어마다 가중치 × 값",
  "All {heads} heads did the same with matrices of their own. What they give is laid side by side and mixed by one more matrix, which brings it back to the width of the model.":
    "헤드 {heads}개가 저마다의 행렬로 같은 일을 했습니다. 그 결과를 나란히 이어 붙이고 행렬을 하나 더 곱해 섞으면, 모델의 너비로 돌아옵니다.", "all heads, side by side": "이어 붙인 헤드들",
  "{count} numbers from {least} to {largest}": "{least}에서 {largest}까지의 숫자 {count}개", "number {place} of {count}": "숫자 {count}개 중 {place}번째", "{shown} of {count} tokens are shown: those with the largest weights.": "토큰 {count}개 가운데 가중치가 큰 {shown}개만 보여 줍니다.",
  "{shown} of {count} tokens are shown: hidden ones, and those with the largest weights.": "토큰 {count}개 가운데 가려진 것과 가중치가 큰 것, 모두 {shown}개만 보여 줍니다.", "The first {shown} of {count} tokens are shown.": "토큰 {count}개 가운데 처음 {shown}개만 보여 줍니다.", "all {count} terms": "항 {count}개 모두",
};
