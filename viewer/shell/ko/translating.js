// Korean texts of the views in which one writes, and asks what if.

/** @type {Record<string, string>} */
export const ko = {
  // Writing.
  "Translate": "번역", "Classify": "분류", "Write on": "이어 쓰기", "What if": "만약에", "What it is": "이 모델은",
  "Text in {language}": "{language} 글", "Translation": "번역문", "the translation": "번역문", "the text": "글",
  "Write here. Each line is translated by itself.": "여기에 쓰세요. 줄마다 따로 번역합니다.",
  "The translation appears here, word by word, as you write.": "글을 쓰면 번역이 여기에 한 단어씩 나타납니다.", "Click a word to choose another.": "단어를 누르면 다른 말로 바꿀 수 있습니다.", "Write here.": "여기에 쓰세요.",
  "Clear": "지우기", "For example": "예문", "Copy": "복사", "Save as text": "텍스트로 저장", "numbers": "확률 표시",
  "how sure the model was of each word": "모델이 단어마다 얼마나 확신했는지",
  "Least sure of “{word}”: {chance}. On average {token} a token.": "가장 자신 없는 단어는 “{word}”, 확률 {chance}입니다. 토큰 하나당 평균 {token}입니다.",
  "Least sure of “{word}”: {chance}.": "가장 자신 없는 단어는 “{word}”, 확률 {chance}입니다.",
  "From the word that you chose on, the model went on by itself.": "고르신 단어 다음부터는 모델이 스스로 이어 썼습니다.",
  "Other translations": "다른 번역", "With a beam of 2 or more the search comes to several.": "빔이 2 이상이면 번역을 여럿 찾습니다.", "Beam size": "빔 크기", "1 (greedy)": "1 (탐욕 탐색)", "How many translations": "번역 개수", "take this one": "이 번역을 고릅니다",
  "This model runs in the page itself: nothing that you write leaves it. It knows what it was trained on, and will be wrong elsewhere: see “What it is”.":
    "모델은 이 페이지 안에서 돌아가며, 쓰신 글은 밖으로 나가지 않습니다. 학습한 것과 비슷한 글만 잘 다룹니다. 무엇을 학습했는지는 ‘이 모델은’에서 볼 수 있습니다.",
  "This model runs in the page itself: nothing that you write leaves it.": "모델은 이 페이지 안에서 돌아가며, 쓰신 글은 밖으로 나가지 않습니다.",
  "Only the first {count} lines are translated.": "처음 {count}줄만 번역합니다.", "{done} of {all} lines": "{all}줄 가운데 {done}줄", "Other translations of line {n}: “{text}”": "{n}번째 줄의 다른 번역: “{text}”",
  "parts of the word": "단어의 조각", "what else the model could have written": "모델이 쓸 수 있었던 다른 말", "instead of “{word}”": "“{word}” 대신",
  "Choose one, and the rest is written anew from there.": "하나를 고르면 그 자리부터 다시 씁니다.", "none is known": "알려진 것이 없습니다", "the end of the sentence": "문장 끝",
  // A classifier, an encoder.
  "What it says": "모델의 판단", "Tokens": "토큰",
  "This model turns a text into vectors; it writes nothing. It reads {count} tokens.": "이 모델은 글을 벡터로 바꿀 뿐, 글을 쓰지는 않습니다. 토큰 {count}개를 읽었습니다.",
  // A language model.
  "How it begins": "글의 시작", "Write how it begins.": "글의 시작을 써 보세요.", "Go on writing": "이어 쓰기", "Stop": "멈춤", "How the model goes on": "모델이 이어 쓴 글", "how the model goes on": "모델이 이어 쓴 글",
  "Press the button: the model goes on from where you stopped.": "단추를 누르면 멈추신 곳에서 모델이 이어 씁니다.",
  "Temperature": "온도", "temperature": "온도", "0: always the likeliest token; 1: as the model weighs them; above: more daring": "0: 언제나 가장 그럴듯한 토큰, 1: 모델이 매긴 확률 그대로, 1 위: 더 과감하게",
  "Top-k": "Top-k", "top-k: drawn among so many tokens; 0: among all": "top-k: 가장 그럴듯한 토큰 몇 개 가운데서 뽑습니다. 0이면 모두 가운데서 뽑습니다.",
  "Top-p": "Top-p", "top-p: drawn among the likeliest tokens that make up this share of probability": "top-p: 확률을 이만큼 차지하는 가장 그럴듯한 토큰들 가운데서 뽑습니다.",
  "Length": "길이", "at most so many tokens": "토큰을 많아야 이만큼 씁니다", "Seed": "시드", "the same seed draws the same": "시드가 같으면 같은 것을 뽑습니다",
  // Overview.
  // What if.
  "Before": "바꾸기 전", "After": "바꾼 뒤", "Reset": "처음대로", "Change the text": "글 바꾸기", "words that the model reads": "모델이 읽는 단어", "table": "표",
  "Hide words that the model reads": "읽는 단어 가리기", "Switch off heads and layers": "헤드와 층 끄기", "encoder": "인코더", "decoder": "디코더",
  "Click a word to hide it. The bar says how much less likely the whole output is without it.": "단어를 누르면 가려집니다. 막대는 그 단어가 없을 때 결과 전체의 확률이 얼마나 낮아지는지 보여 줍니다.",
  "Measure every head": "모든 헤드 재어 보기", "switches off each head once, and shades it by what the output loses": "헤드를 하나씩 꺼 보고, 결과가 잃는 만큼 짙게 칠합니다",
  "Click a number at the left for all heads of a layer.": "왼쪽 번호를 누르면 그 층의 헤드가 모두 꺼집니다.", "{n}: all heads of the layer, {attention}": "{n}: 이 층의 모든 헤드, {attention}",
  "{stack}, the whole of layer {n}": "{stack} {n}층 전체", "without it {change} log-probability": "없으면 로그 확률 {change}",
  "Draw again": "다시 뽑기", "0: the likeliest words. Above, each token is drawn by its probability, of which the temperature makes more or less: 1 leaves it as it is.":
    "0이면 가장 그럴듯한 단어를 씁니다. 0보다 크면 토큰을 확률에 따라 뽑습니다. 온도가 1이면 확률 그대로, 높을수록 고르게, 낮을수록 한쪽으로 쏠립니다.",
  "Both sides go on by the likeliest tokens, {count} at most; what the model wrote before may have been drawn.": "양쪽 모두 가장 그럴듯한 토큰으로 많아야 {count}개를 이어 씁니다. 앞서 모델이 쓴 글은 뽑은 것일 수 있습니다.",
  "Without the head the output loses: nothing": "헤드가 없을 때 결과가 잃는 것: 없음", "most, {most} log-probability": "가장 많이, 로그 확률 {most}", "•: at least half of that": "•: 그 절반 이상",
  "{chance} for the whole": "전체 확률 {chance}", "Everything is on. Switch something off, or hide a word.": "모두 켜져 있습니다. 무엇이든 끄거나 단어를 가려 보세요.",
  "The same words come out: the model can do without what is off.": "같은 단어가 나옵니다. 끈 것이 없어도 모델은 해냅니다.",
  "New words: {count}. Words that are gone: {gone}.": "새 단어 {count}개, 사라진 단어 {gone}개입니다.",
  "It still says “{label}”: {before} before, {after} now.": "판단은 그대로 “{label}”입니다. 전에는 {before}, 지금은 {after}입니다.",
  "Now it says “{after}” instead of “{before}”.": "이제 판단은 “{before}” 대신 “{after}”입니다.",
  "Without it the output is {times} times likelier.": "이 단어가 없으면 결과의 확률이 {times}배 높아집니다.",
  "Without it the output is {times} times less likely.": "이 단어가 없으면 결과의 확률이 {times}배 낮아집니다.",
  "The output depends most on {attention}, layer {n}, head {h}.": "결과는 {attention}, {n}층 {h}번 헤드에 가장 크게 달려 있습니다.",
  // The card.
  "This page": "이 페이지", "This page holds a whole Transformer: {what}. It runs in your browser; nothing that you write leaves the page, and no network is needed.":
    "이 페이지에는 트랜스포머 하나가 통째로 들어 있습니다. {what}입니다. 브라우저 안에서 돌아가므로 쓰신 글은 페이지 밖으로 나가지 않고, 네트워크도 필요 없습니다.",
  "a translator: it reads a sentence and writes it in another language": "문장을 읽고 다른 언어로 쓰는 번역기", "a classifier: it reads a text and says which class it belongs to": "글을 읽고 어느 항목에 드는지 말하는 분류기",
  "a language model: it goes on writing where a text stops": "글이 멈춘 곳에서 이어 쓰는 언어 모델", "an encoder: it turns a text into vectors": "글을 벡터로 바꾸는 인코더",
  "How to make your own": "직접 만들어 보기", "Two text files whose lines belong together, one a language, are enough. With Pellucid, which is free:": "줄마다 짝이 맞는 텍스트 파일 두 개, 언어마다 하나면 됩니다. 무료인 Pellucid로 이렇게 합니다.",
  "Any model folder that Pellucid opens becomes such a page. With Pellucid, which is free:": "Pellucid로 열 수 있는 모델 폴더라면 무엇이든 이런 페이지가 됩니다. 무료인 Pellucid로 이렇게 합니다.",
  "The first line trains within a budget of time, also on a laptop; the second makes a page like this one.": "첫 줄은 정해 둔 시간 안에 학습합니다. 노트북에서도 됩니다. 둘째 줄은 이런 페이지를 만듭니다.",
  "What its makers say": "만든 이의 설명", "Facts of the card": "카드의 사실", "Languages": "언어", "Parameters": "파라미터", "Layers": "층", "{encoder} that read, {decoder} that write": "읽는 층 {encoder}개, 쓰는 층 {decoder}개",
  "Heads in each attention": "어텐션마다 헤드", "Numbers for a token (d_model)": "토큰 하나의 수 (d_model)", "Numbers within the feed-forward (d_ff)": "피드포워드 안의 수 (d_ff)", "Vocabulary": "어휘", "Weights in the page": "페이지 속 가중치", "{size} MB": "{size} MB", "Checked against Pellucid": "Pellucid와 대조",
  "Not compared with Python: {reason}": "Python과 견주지 않았습니다: {reason}", "Compared with Python on {count} sentences.": "문장 {count}개로 Python과 견주었습니다.",
  "All are written alike, token by token.": "결과는 모든 토큰이 같습니다.", "{count} of them are written alike, token by token.": "그 가운데 {count}개는 결과의 모든 토큰이 같습니다.",
  "{count} part where two tokens are as likely as each other.": "{count}개는 두 토큰의 확률이 같은 자리에서 갈립니다.",
  "All are cut into the same tokens.": "모두 같은 토큰으로 나뉩니다.", "{count} of them are cut into the same tokens.": "그 가운데 {count}개가 같은 토큰으로 나뉩니다.",
  "The {measure} differ by {difference} of the largest at most, since the weights are rounded to {weights}.": "가중치를 {weights}로 반올림했기 때문에 {measure}의 차이가 많아야 가장 큰 값의 {difference}입니다.",
  "The {measure} differ by {difference} of the largest at most.": "{measure}의 차이는 많아야 가장 큰 값의 {difference}입니다.",
  "logits": "로짓", "states": "상태", "log-probabilities": "로그 확률",
  "Their BLEU is {ours} in Python, {page} in the page.": "BLEU는 Python에서 {ours}, 이 페이지에서 {page}입니다.", "The page's model was run by {engine}.": "페이지의 모델은 {engine}로 돌렸습니다.",
};
