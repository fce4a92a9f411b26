from pellucid.views.model_page import to_page as to_page
from pellucid.weights.export.ctranslate2 import to_ctranslate2 as to_ctranslate2
from pellucid.weights.export.hugging_face import to_hugging_face as to_hugging_face
from pellucid.weights.export.onnx import to_onnx as to_onnx
from pellucid.weights.hugging_face.opening import from_hugging_face as from_hugging_face
from pellucid.weights.tutorials.importing import import_tutorial as import_tutorial
from pellucid.weights.tutorials.torch_transformer import from_torch as from_torch
