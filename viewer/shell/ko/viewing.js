// Korean texts of the views of attention and the page around them.

/** @type {Record<string, string>} */
export const ko = {
  // The page around the views.
  "Write": "쓰기", "Look": "보기", "Ask": "묻기", "Learn": "배우기", "About": "정보", "View": "화면", "view": "화면", "views": "화면", "what is shown": "보이는 것", "language": "언어",
  "Translator": "번역기", "Classifier": "분류기", "Language model": "언어 모델",
  "Save": "저장", "save or copy (e)": "저장하거나 복사하기 (e)", "keys": "단축키", "keys (?)": "단축키 (?)",
  "{source} to {target}": "{source} → {target}", "{count} parameters": "파라미터 {count}개", "runs in this page, without a network": "이 페이지 안에서, 네트워크 없이",
  "recorded attention differs from what ran by at most {most}": "기록한 어텐션과 실제로 돌아간 것의 차이는 많아야 {most}",
  "This trace has nothing that the view “{view}” can show.": "이 기록에는 ‘{view}’ 화면에 보일 것이 없습니다.", "This cannot be shown: {why}": "보일 수 없습니다: {why}",
  // The views.
  "Matrix": "행렬", "Model": "모델", "Neuron": "뉴런", "Beam": "빔", "Alignment": "정렬", "Compare": "비교", "Evolution": "변화", "Flow": "흐름", "Text": "글", "Lens": "렌즈", "Contributions": "기여", "Step": "단계",
  "Encoder self": "인코더 셀프", "Decoder self": "디코더 셀프", "Cross": "크로스", "Search cross": "탐색 크로스",
  "point to look, click to add or remove a head, double-click for it alone (, .)": "가리키면 미리 보고, 누르면 더하거나 빼고, 두 번 누르면 그 헤드만 봅니다 (, .)",
  "point to look, click to choose (, .)": "가리키면 미리 보고, 누르면 고릅니다 (, .)",
  "head {head}": "헤드 {head}", head: "헤드", heads: "헤드", Head: "헤드", Heads: "헤드", all: "모두", none: "없음",
};
