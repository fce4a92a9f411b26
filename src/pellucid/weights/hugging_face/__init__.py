"""Opens Hugging Face models: folders of transformers, and names on the hub.

`opening` opens a folder, by the table of its family (`bert`, `bart`, ...); `hub` downloads one. Nothing is imported
here, so that using the hub alone does not import the families.
"""
