// Korean texts of the overview, and of what it shares with the views in which one writes.

/** @type {Record<string, string>} */
export const ko = {
  "more than {count}": "> {count}",
  "Overview": "한눈에", "sure": "확신", "hardly sure": "자신 없음",
  "The more strongly a word is marked, the less sure the model was of it: over 90 %, 70, 50, 25 %, less.": "짙게 표시된 단어일수록 모델의 확신이 낮습니다. 90% 이상, 70, 50, 25%, 그 아래의 다섯 단계입니다.",
  "The model was sure of every word: {least} for the least sure of them.": "모델은 모든 단어를 확신했습니다. 가장 낮은 확률이 {least}입니다.", "The model is being opened …": "모델을 여는 중입니다 …",
  "This page holds no model to ask.": "이 페이지에는 물어볼 모델이 없습니다.", "The model of this page could not be opened: {why}": "이 페이지의 모델을 열 수 없습니다: {why}", "classes": "분류 항목",
  "and {count} more": "그 밖에 {count}개", "The model says “{label}”, with {chance}.": "모델의 판단은 “{label}”, 확률 {chance}입니다.", "It read": "읽은 글",
  "The text, and how likely the model held each word": "글, 그리고 단어마다 모델이 매긴 확률", "It wrote": "쓴 글", "It says": "모델의 판단", "what was written": "쓴 글",
  "Write another text": "다른 글 써 보기", "Ask what if": "만약을 물어보기", "Go through it step by step": "한 단계씩 따라가기", "What one sees": "보이는 것",
  "See it in “{view}”": "‘{view}’에서 보기", "The model": "모델", "Every head on this sentence": "이 문장에 대한 모든 헤드",
  "A row a layer, a column a head; in each picture a row is a token that looks, a column a token that is looked at. Click one to open it.": "줄은 층, 칸은 헤드입니다. 그림마다 가로줄은 보는 토큰, 세로줄은 보이는 토큰입니다. 누르면 열립니다.",
  "That a head looks at a word does not say that the outcome hangs on it; switching it off does.": "헤드가 어떤 단어를 본다고 해서 결과가 그 단어에 달려 있다고 할 수는 없습니다. 그것은 헤드를 꺼 보아야 압니다.",
  "{count} heads": "헤드 {count}개", "{count} tokens": "토큰 {count}개", "Feed-forward": "피드포워드", "Embedding + position": "임베딩 + 위치", "Self-attention": "셀프 어텐션",
  "Masked self-attention": "마스크드 셀프 어텐션", "Cross-attention": "크로스 어텐션", "Projection + softmax": "사영 + 소프트맥스", "what is read": "읽는 글", "what is written so far": "지금까지 쓴 글",
  "The model was least sure of “{word}”: {chance}.": "모델이 가장 자신 없어 한 단어는 “{word}”, 확률 {chance}입니다.",
  "The model was least sure of “{word}”: {chance}. It might have written “{other}”: {second}.": "모델이 가장 자신 없어 한 단어는 “{word}”, 확률 {chance}입니다. 그 자리에 “{other}”, 확률 {second}도 가능했습니다.",
  "The model says “{label}”, with {chance}; next is “{other}”, with {second}.": "모델의 판단은 “{label}”, 확률 {chance}입니다. 그다음은 “{other}”, {second}입니다.",
  "Layer {layer}, head {head} of the cross-attention follows the words best: for each word written, {share} of it goes to one word read, on average.": "크로스 어텐션에서 단어를 가장 잘 따라가는 것은 {layer}층 {head}번 헤드입니다. 단어 하나를 쓸 때마다 평균 {share}의 주의가 읽은 단어 하나로 갑니다.",
  "Layer {layer}, head {head} looks one token back: {share} of its attention goes there.": "바로 앞 토큰을 보는 헤드가 있습니다. {layer}층 {head}번 헤드, 주의의 {share}가 그리로 갑니다.",
  "{count} of {all} heads give more than half of their attention to the first token: a place to rest where nothing else is to be done.": "헤드 {all}개 가운데 {count}개는 주의의 절반 넘게를 첫 토큰에 줍니다. 따로 볼 것이 없을 때 쉬는 자리입니다.",
  "Layer {layer}, head {head} is the sharpest that does not rest on one token: {share} of it goes to one token, on average.": "한 토큰에 머물지 않는 헤드 가운데 가장 또렷한 것은 {layer}층 {head}번 헤드입니다. 평균 {share}의 주의가 토큰 하나로 갑니다.",
  "The output depends most on “{word}”: without it, it is {times} times less likely.": "결과는 “{word}”에 가장 크게 달려 있습니다. 이 단어가 없으면 같은 결과가 나올 확률이 {times}배 낮아집니다.",
  "Of the words read, this head looks most at “{word}”: {share} of all its attention.": "읽은 단어 가운데 이 헤드가 가장 많이 보는 것은 “{word}”, 모든 주의의 {share}입니다.", "changed": "바뀜",
  "{attention}, layer {n}, head {h}": "{attention}, {n}층 {h}번 헤드",
};
