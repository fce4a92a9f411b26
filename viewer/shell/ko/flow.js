// Korean texts that the flow view gets from Python (analysis/flow.py).

/** @type {Record<string, string>} */
export const ko = {
  "How a head mixes values. What the values hold after the first layer, it does not say.": "헤드가 값을 어떻게 섞는지를 나타냅니다. 첫 층 뒤에 그 값이 무엇을 담고 있는지는 말해 주지 않습니다.",
  "It takes the residual stream for as strong as all heads together and the heads for equal, and it leaves out values, feed-forward networks and norms.": "잔차 스트림의 세기가 모든 헤드를 합한 것과 같고 헤드끼리도 같다고 보며, 값과 피드 포워드과 정규화를 빼고 계산합니다.",
  "One head in one layer: what heads add can cancel out, and norms behind it are left out.": "한 층의 한 헤드만 봅니다. 헤드가 더하는 것은 서로 지워질 수 있고, 그 뒤의 정규화는 계산에 넣지 않습니다.",
  "Attention is not by itself an explanation: what a head is worth shows when it is switched off, in “{view}”.": "어텐션 자체가 설명은 아닙니다. 헤드의 쓸모는 ‘{view}’에서 꺼 보면 드러납니다.",
  "Attention is not by itself an explanation: `pellucid.ablate` measures what a head is worth.": "어텐션 자체가 설명은 아닙니다. 헤드의 쓸모는 `pellucid.ablate`로 잽니다.",
  "What if": "만약에",
};
