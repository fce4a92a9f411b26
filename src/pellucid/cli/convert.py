"""`pellucid convert`."""

from typing import Annotated, get_args

import tyro

from pellucid.cli.options import Choices, Revision, add_revision, flag, optional
from pellucid.config import MAX_POSITIONS
from pellucid.config.model import Activation
from pellucid.terminal import show


def convert(
    src: Annotated[
        str,
        tyro.conf.Positional,
        tyro.conf.arg(
            metavar="SRC", help="a model folder of Pellucid or Hugging Face, a hub name, or a saved state dict"
        ),
    ],
    dst: Annotated[
        str, tyro.conf.Positional, tyro.conf.arg(metavar="DST", help="folder or page to write, which must not exist")
    ],
    /,
    *,
    from_: Annotated[
        str | None,
        tyro.conf.arg(name="from"),
        optional("KIND", "format of SRC: pellucid, hf, or the layout of a tutorial", "detected"),
    ] = None,
    to: Annotated[
        str,
        tyro.conf.arg(
            metavar="KIND",
            help="format of DST: pellucid, hf, ct2 (CTranslate2), onnx, or page (an HTML file that runs the model)",
        ),
        Choices.from_words("pellucid", "hf", "ct2", "onnx", "page"),
    ] = "pellucid",
    quantization: Annotated[
        str | None,
        optional("TYPE", "data type of the weights: int8; with --to ct2 also float16 and others", "float32"),
    ] = None,
    weights: Annotated[
        str | None,
        optional("TYPE", "with --to page: data type of the weights: int8, float16 or float32", "int8"),
        Choices.from_words("int8", "float16", "float32"),
    ] = None,
    example: Annotated[str | None, optional("TEXT", "with --to page: example input of the page", "none")] = None,
    title: Annotated[
        str | None, optional("TEXT", "with --to page: title of the page", "the languages, or the kind of model")
    ] = None,
    note: Annotated[str | None, optional("TEXT", "with --to page: line below the title", "none")] = None,
    revision: Revision = None,
    num_heads: Annotated[
        int | None, optional("N", "tutorial: number of attention heads", "read from the tensors")
    ] = None,
    src_vocab: Annotated[
        str,
        optional(
            "FILE",
            "tutorial: source vocabulary, one token per line or JSON; for a language model also a tokenizer's folder",
            "none",
        ),
    ] = "",
    tgt_vocab: Annotated[str, optional("FILE", "tutorial: target vocabulary, one token per line", "none")] = "",
    tokenizer: Annotated[
        str | None,
        optional("KIND", "tutorial: tokenizer: spaces, words or characters", "spaces, or detected from the vocabulary"),
        Choices.from_words("spaces", "words", "characters"),
    ] = None,
    lowercase: Annotated[bool, flag("tutorial: the text was lower-cased")] = False,
    source_without_bos: Annotated[bool, flag("tutorial: source sentences had no start token")] = False,
    source_without_eos: Annotated[bool, flag("tutorial: source sentences had no end token")] = False,
    labels: Annotated[str, optional("FILE", "tutorial: class labels, one per line", "their numbers")] = "",
    max_positions: Annotated[
        int, tyro.conf.arg(metavar="N", help="tutorial: number of positions, if the model computes them")
    ] = MAX_POSITIONS,
    as_written: Annotated[
        str | None,
        optional(
            "SLIP[,SLIP]",
            "tutorial: errors in its code that the model was trained with: output, masks, cross-attention, all or none",
            "detected from the weights",
        ),
        Choices.from_words("output", "masks", "cross-attention", "all", "none"),
    ] = None,
    norm_first: Annotated[bool, flag("torch.nn.Transformer: the model was trained with norm_first=True")] = False,
    activation: Annotated[
        str | None,
        optional(
            "NAME",
            "torch.nn.Transformer or language model: activation: relu, gelu, gelu_tanh or silu",
            "that of the tutorial",
        ),
        Choices.from_words(*get_args(Activation)),
    ] = None,
    unscaled_embeddings: Annotated[
        bool, flag("torch.nn.Transformer: embeddings are not multiplied by the square root of their width")
    ] = False,
    src_embedding: Annotated[str, optional("TENSOR", "name of the source embedding", "found by name and shape")] = "",
    tgt_embedding: Annotated[str, optional("TENSOR", "name of the target embedding", "found by name and shape")] = "",
    output_projection: Annotated[
        str, optional("TENSOR", "name of the projection to logits", "found by name and shape")
    ] = "",
    sentences: Annotated[
        str,
        optional(
            "FILE", "lines to compare both models on", "twenty included lines; for the page of a run, lines of the run"
        ),
    ] = "",
    references: Annotated[
        str, optional("FILE", "translations of --sentences: measure BLEU of both models, too", "none")
    ] = "",
    src_lang: Annotated[
        str | None,
        optional(
            "CODE",
            "source language of a multilingual model, for the comparison and a page",
            "the model's, or the first",
        ),
    ] = None,
    tgt_lang: Annotated[
        str | None,
        optional(
            "CODE",
            "target language of a multilingual model, for the comparison and a page",
            "the model's, or the first",
        ),
    ] = None,
    tolerance: Annotated[
        float | None, optional("X", "largest allowed difference, relative to the largest number", "0.0001")
    ] = None,
) -> int:
    """Convert a model into a Pellucid model folder, or a Pellucid model into another format, and compare the outputs of
    both models.

    The result of the comparison is in conversion.json in the folder. The exit status is 1 if the outputs differ. A
    smaller data type rounds the weights, so the outputs differ: then only an explicit --tolerance is checked.

    example: pellucid convert opus-mt-de-en translator
    example: pellucid convert model.pt translator --num-heads 8 --src-vocab src.txt --tgt-vocab tgt.txt
    example: pellucid convert run for-ctranslate2 --to ct2 --quantization int8
    example: pellucid convert run translator.html --to page --example "Ein Hund läuft." --title "For Ada"
    """
    from typing import Any

    from pellucid.conversion.convert import convert as convert_model
    from pellucid.conversion.tutorial import TutorialOptions
    from pellucid.data.lines import read_lines
    from pellucid.errors import ConfigError

    if references and not sentences:
        raise ConfigError(
            "`--references` requires `--sentences`: the lines that they translate", "add `--sentences FILE`"
        )
    tutorial = TutorialOptions(
        num_heads=num_heads, src_vocab=src_vocab, tgt_vocab=tgt_vocab, tokenizer=tokenizer, lowercase=lowercase,
        source_without_bos=source_without_bos, source_without_eos=source_without_eos, labels=labels,
        max_positions=max_positions,
        as_written=as_written, norm_first=norm_first, activation=activation, unscaled_embeddings=unscaled_embeddings,
        src_embedding=src_embedding, tgt_embedding=tgt_embedding, output_projection=output_projection,
    )  # fmt: skip
    lines, translations = (list(read_lines(path)) if path else None for path in (sentences, references))
    target: Any = to  # an unknown format is an error, which names the nearest one
    proof = convert_model(
        add_revision(src, revision), dst, from_=from_, to=target, quantization=quantization, weights=weights,
        example=example, title=title, note=note, tutorial=tutorial, sentences=lines, references=translations,
        tolerance=tolerance, source_language=src_lang, target_language=tgt_lang,
    )  # fmt: skip
    show(proof)
    if to == "page" and proof.passed:
        print(f"open `{dst}` in a browser")
    return 0 if proof.passed else 1
