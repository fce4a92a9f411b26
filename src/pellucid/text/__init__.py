"""Raw text <-> ids, one interface for all kinds of tokenizer.

Reading order:

    tokenizer                the interface of every tokenizer, and the adapter for custom ones
    tokenizers               the pair of tokenizers that a model uses, and its files
    normalization            maps equivalent Unicode spellings to one
    words, vocabulary        the kinds words, characters, bytes and spaces: a list of entries
    subwords                 the kinds bpe and unigram, and imported SentencePiece models
    tokenizer_training       trains a tokenizer on lines of text; `character_counts` counts their characters
    sampling                 subword regularization

    sentencepiece_file       reads the file of a SentencePiece model
    normalization_rules      Pellucid's normalization as rules in such a file
    sentences, training_text splits lines into sentences; statistics of the lines that a model was trained on

Hugging Face tokenizers:

    foreign_files            the files of a Hugging Face folder except its weights, each read once
    hugging_face_loading     chooses the tokenizer by these files
    hugging_face             a tokenizer.json, run by the library `tokenizers`; `tokenizer_json_checks` limits it
    remapped_sentencepiece   a SentencePiece model with remapped ids
    special_ids              the special ids of such a folder; `language_codes` its language codes
    tokenizer_json_writing   export to tokenizer.json; `patterns` has its regular expressions
"""
