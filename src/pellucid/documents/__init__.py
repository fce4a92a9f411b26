"""Documents: the text of a document is translated, and every other byte is copied."""
