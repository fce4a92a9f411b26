// Korean texts of the page of a server.

/** @type {Record<string, string>} */
export const ko = {
  "The server does not answer.": "서버가 응답하지 않습니다.",
  "The server answered with status {status}.": "서버가 상태 {status}(으)로 응답했습니다.",
  "API key": "API 키", Open: "열기", From: "원문 언어", To: "번역 언어", Languages: "언어", Documents: "문서",
  "Choose a document, or drop one on this page: {endings}": "문서를 고르거나 이 페이지에 끌어다 놓으세요: {endings}",
  "The server's model knows what it was trained on, and will be wrong elsewhere: see “What it is”.": "서버의 모델은 학습한 것과 비슷한 글만 잘 다룹니다. 무엇을 학습했는지는 ‘이 모델은’에서 볼 수 있습니다.",
  "is being translated …": "번역하는 중입니다…",
  "Save the translation": "번역 저장",
  "This page asks the model of a server: {what}. What you write goes to this server alone.": "이 페이지는 서버의 모델에 묻습니다: {what}. 쓴 글은 이 서버에만 보냅니다.",
};
