"""Raw text <-> ids, one interface for all kinds of tokenizer.

Reading order:

    tokenizer                what every tokenizer can do, and how one of your own is completed
    tokenizers               the pair that a model uses, and its files
    normalization            one spelling for a text that can be typed in several
    words, vocabulary        the kinds words, characters, bytes and spaces: a list of entries
    subwords                 the kinds bpe and unigram, and other people's SentencePiece models
    tokenizer_training       a tokenizer from lines of text; `inventory` counts its characters
    sampling                 the same text in other pieces each time

    sentencepiece_file       what a SentencePiece model's file holds
    normalization_rules      our normalisation written into such a file
    sentences, training_text where a line is parted into sentences, and what lines a model was trained on

Other people's tokenizers:

    foreign                  which files of a Hugging Face folder make which tokenizer
    hugging_face             a tokenizer.json, run by the library `tokenizers`; `tokenizer_json_checks` limits it
    numbered                 a SentencePiece model whose pieces have ids of their own
    special_ids              the special ids of such a folder; `language_codes` its codes of languages
    tokenizer_json_writing   ours as a tokenizer.json; `patterns` are its regular expressions
"""
