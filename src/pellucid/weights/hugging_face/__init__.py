"""Other people's models, opened: folders of Hugging Face's transformers, and names on their hub.

`opening` opens a folder, by the table of its family (`bert`, `bart`, ...); `hub` fetches one. Nothing is imported here,
so that whoever asks for the hub alone does not import the families.
"""
