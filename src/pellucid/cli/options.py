"""Options that several verbs share."""

from typing import Annotated

import tyro

Model = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL", help="a run folder or a model folder")]
Device = Annotated[str, tyro.conf.arg(metavar="NAME", help="auto, cpu, cuda, cuda:1, mps")]
Dtype = Annotated[str | None, tyro.conf.arg(metavar="NAME", help="float32, bfloat16 or float16; as the weights are")]
Input = Annotated[str, tyro.conf.arg(metavar="FILE", help="lines to read; - is standard input")]
Output = Annotated[str, tyro.conf.arg(metavar="FILE", help="where to write; - is standard output")]
Settings = Annotated[
    tuple[str, ...],
    tyro.conf.arg(name="set", metavar="KEY=VALUE", help="a setting that wins over the recipe's, as in train.steps=500"),
    tyro.conf.UseAppendAction,
]
