"""`pellucid convert`."""

from typing import Annotated, get_args

import tyro

from pellucid.cli.options import Choices, Revision, at_revision, flag, optional
from pellucid.config import MAX_POSITIONS
from pellucid.config.model import Activation


def convert(
    src: Annotated[
        str,
        tyro.conf.Positional,
        tyro.conf.arg(
            metavar="SRC", help="a model folder of Pellucid or Hugging Face, a hub name, or a saved state dict"
        ),
    ],
    dst: Annotated[
        str, tyro.conf.Positional, tyro.conf.arg(metavar="DST", help="the folder or page to write; a new one")
    ],
    /,
    *,
    from_: Annotated[
        str | None,
        tyro.conf.arg(name="from"),
        optional("KIND", "pellucid, hf, or a tutorial's layout", "found by looking"),
    ] = None,
    to: Annotated[
        str,
        tyro.conf.arg(
            metavar="KIND", help="pellucid, hf, ct2 (CTranslate2), onnx, or page (an HTML file that runs it)"
        ),
        Choices.of("pellucid", "hf", "ct2", "onnx", "page"),
    ] = "pellucid",
    quantization: Annotated[
        str | None, optional("TYPE", "int8; with --to ct2 also float16 and so on", "float32")
    ] = None,
    weights: Annotated[
        str | None,
        optional("TYPE", "of a page: int8, float16 or float32", "int8"),
        Choices.of("int8", "float16", "float32"),
    ] = None,
    example: Annotated[str | None, optional("TEXT", "of a page: a text that it offers to be tried", "none")] = None,
    revision: Revision = None,
    num_heads: Annotated[int | None, optional("N", "a tutorial's number of heads", "what the tensors tell")] = None,
    src_vocab: Annotated[str, optional("FILE", "a tutorial's source vocabulary, a token a line", "none")] = "",
    tgt_vocab: Annotated[str, optional("FILE", "a tutorial's target vocabulary, a token a line", "none")] = "",
    tokenizer: Annotated[
        str,
        tyro.conf.arg(metavar="KIND", help="how a tutorial's text is cut: spaces, words or characters"),
        Choices.of("spaces", "words", "characters"),
    ] = "spaces",
    lowercase: Annotated[bool, flag("the tutorial's text was lower-cased")] = False,
    bare_source: Annotated[bool, flag("the tutorial's sources had no start token")] = False,
    unended_source: Annotated[bool, flag("the tutorial's sources had no end token")] = False,
    labels: Annotated[str, optional("FILE", "a tutorial's classes, one a line", "their numbers")] = "",
    max_positions: Annotated[
        int, tyro.conf.arg(metavar="N", help="positions of a tutorial's model that computes them")
    ] = MAX_POSITIONS,
    as_written: Annotated[bool, flag("a tutorial's slip as it computes, not as it was meant")] = False,
    norm_first: Annotated[bool, flag("of torch.nn.Transformer: trained with norm_first=True")] = False,
    activation: Annotated[
        str,
        tyro.conf.arg(metavar="NAME", help="of torch.nn.Transformer: relu, gelu, gelu_tanh or silu"),
        Choices.of(*get_args(Activation)),
    ] = "relu",
    unscaled_embeddings: Annotated[
        bool, flag("of torch.nn.Transformer: embeddings are not times the root of their width")
    ] = False,
    src_embedding: Annotated[str, optional("TENSOR", "the source's embedding", "found by name and shape")] = "",
    tgt_embedding: Annotated[str, optional("TENSOR", "the target's embedding", "found by name and shape")] = "",
    output_projection: Annotated[str, optional("TENSOR", "what makes logits", "found by name and shape")] = "",
    sentences: Annotated[str, optional("FILE", "lines to compare both sides on", "twenty of our own")] = "",
    references: Annotated[str, optional("FILE", "their translations: then BLEU of both is measured", "none")] = "",
    src_lang: Annotated[
        str | None, optional("CODE", "of a multilingual model: what it reads to be compared", "its own, or the first")
    ] = None,
    tgt_lang: Annotated[
        str | None, optional("CODE", "of a multilingual model: what it writes to be compared", "its own, or the first")
    ] = None,
    tolerance: Annotated[
        float | None, optional("X", "largest difference allowed, relative to the largest number", "0.0001")
    ] = None,
) -> int:
    """Convert a model, into Pellucid's folder or out of it, and compare both sides.

    Exit status 1: both can be compared, and are not equal. conversion.json in the folder says what was found. A model
    in a smaller type is rounded, so there only a --tolerance that is given counts.

    example: pellucid convert opus-mt-de-en translator
    example: pellucid convert model.pt translator --num-heads 8 --src-vocab src.txt --tgt-vocab tgt.txt
    example: pellucid convert run for-ctranslate2 --to ct2 --quantization int8
    example: pellucid convert run translator.html --to page --example "Ein Hund läuft."
    """
    from typing import Any

    from pellucid.conversion.convert import convert as convert_model
    from pellucid.conversion.tutorial import TutorialOptions
    from pellucid.data.lines import read_lines
    from pellucid.errors import ConfigError

    if references and not sentences:
        raise ConfigError("`--references` needs `--sentences`: the lines that they translate", "add `--sentences FILE`")
    tutorial = TutorialOptions(
        num_heads=num_heads, src_vocab=src_vocab, tgt_vocab=tgt_vocab, tokenizer=tokenizer, lowercase=lowercase,
        bare_source=bare_source, unended_source=unended_source, labels=labels, max_positions=max_positions,
        as_written=as_written, norm_first=norm_first, activation=activation, unscaled_embeddings=unscaled_embeddings,
        src_embedding=src_embedding, tgt_embedding=tgt_embedding, output_projection=output_projection,
    )  # fmt: skip
    lines, translations = (list(read_lines(path)) if path else None for path in (sentences, references))
    target: Any = to  # another word than those that there are is refused with the nearest one
    proof = convert_model(
        at_revision(src, revision), dst, from_=from_, to=target, quantization=quantization, weights=weights,
        example=example, tutorial=tutorial, sentences=lines, references=translations, tolerance=tolerance,
        source_language=src_lang, target_language=tgt_lang,
    )  # fmt: skip
    print(proof)
    return 0 if proof.passed else 1
