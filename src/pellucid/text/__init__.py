"""Raw text <-> ids, one interface for all kinds of tokenizer.

Reading order:

    tokenizer     what every tokenizer can do, and the four special ids
    words         text cut into words and marks, and joined again
    vocabulary    the kinds words, characters, bytes and spaces: a list of entries
    subwords      the kinds bpe and unigram, and other people's SentencePiece models
    training      a tokenizer from lines of text
    hugging_face  other people's tokenizer.json
    numbered      other people's SentencePiece models whose pieces have ids of their own
    tokenizers    the pair a model uses, and its files
    special       the special ids of somebody else's tokenizer
    languages     the language codes in a multilingual vocabulary
    foreign       the tokenizers in a Hugging Face folder
"""
