"""Models on disk: tensors in safetensors files, and the model folder."""
