// Korean texts of what a page says of a model or an input that it cannot read: the Refusals of viewer/model/.

/** @type {Record<string, string>} */
export const ko = {
  "The model's weights are damaged: they end after {length} bytes, within their header.": "모델의 가중치가 손상되었습니다. 머리 부분이 끝나기 전에 {length}바이트에서 끊깁니다.",
  "The model's weights are damaged: their header cannot be read.": "모델의 가중치가 손상되었습니다. 머리 부분을 읽을 수 없습니다.",
  "The model's weights are damaged: their header does not say what `{name}` is.": "모델의 가중치가 손상되었습니다. 머리 부분에 `{name}`에 대한 설명이 없습니다.",
  "The model's weights are damaged: the bytes of `{name}` have no scale for each row.": "모델의 가중치가 손상되었습니다. `{name}`에 행마다 있어야 할 배율이 없습니다.",
  "The model's weights are damaged: `{name}` has {found} bytes, its shape needs {needed}.": "모델의 가중치가 손상되었습니다. `{name}`의 모양에는 {needed}바이트가 필요한데 {found}바이트입니다.",
  "The model's weights are damaged: `{name}` begins at byte {found} and not at {needed}.": "모델의 가중치가 손상되었습니다. `{name}`의 시작은 {needed}바이트여야 하는데 {found}바이트입니다.",
  "The model's weights are damaged: there are {found} bytes of numbers, the header needs {needed}.": "모델의 가중치가 손상되었습니다. 머리 부분에 따르면 수가 {needed}바이트여야 하는데 {found}바이트입니다.",
  "The model's weights are damaged: some of `{name}` are no numbers.": "모델의 가중치가 손상되었습니다. `{name}`에 수가 아닌 값이 있습니다.",
  "The weights `{name}` are stored as {dtype}; a page reads F32, F16 and I8.": "가중치 `{name}`의 형식은 {dtype}인데, 이 페이지는 F32, F16, I8만 읽습니다.",
  "The model's weights lack `{name}`.": "모델의 가중치에 `{name}` 항목이 없습니다.",
  "The weights `{name}` have shape ({found}), the model's have ({needed}).": "가중치 `{name}`의 모양은 ({found})인데, 모델에는 ({needed}) 모양이 필요합니다.",
  "The weights `{name}` are no part of the model that the page describes.": "가중치 `{name}` 항목은 이 페이지가 설명하는 모델에 속하지 않습니다.",
  "The page does not describe its model.": "이 페이지에는 모델의 설명이 없습니다.",
  "This page knows no setting `{name}` of a model.": "이 페이지는 모델의 설정 `{name}` 항목을 알지 못합니다.",
  "The model's setting `{name}` cannot be {value}.": "모델의 설정 `{name}`의 값은 {value}일 수 없습니다.",
  "The model's setting `{name}` does not go with its other settings.": "모델의 설정 `{name}` 항목이 다른 설정과 맞지 않습니다.",
  "There is nothing to read.": "읽을 것이 없습니다.",
  "A text of {length} tokens is longer than the model's {most}.": "글이 토큰 {length}개인데, 모델은 {most}개까지 읽습니다.",
  "There is no token {id}; the model's are 0 to {most}.": "{id}번 토큰은 없습니다. 모델의 토큰은 0번부터 {most}번까지입니다.",
  "There is no segment {id}; the model's are 0 to {most}.": "{id}번 문장 구분은 없습니다. 모델의 문장 구분은 0번부터 {most}번까지입니다.",
  "{found} segments are given for {needed} tokens.": "토큰은 {needed}개인데 문장 구분은 {found}개입니다.",
  "{found} tokens are given for {needed} hypotheses.": "가설은 {needed}개인데 토큰은 {found}개입니다.",
};
