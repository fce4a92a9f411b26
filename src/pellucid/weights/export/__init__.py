"""Our models in other people's formats: Hugging Face folders, CTranslate2, ONNX."""
