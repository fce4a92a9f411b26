"""Other people's models, opened: folders of Hugging Face's transformers, and names on their hub."""

from pellucid.weights.hugging_face.opening import foreign_task, from_hugging_face, open_folder

__all__ = ["foreign_task", "from_hugging_face", "open_folder"]
