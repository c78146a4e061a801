"""`driftline compose`: small models from given operators."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from driftline.cli.common import Ticker, json_option, note, print_json, seed_option
from driftline.cli.filled import filled
from driftline.core.errors import DriftlineError

_DTYPES = ("float32", "float16", "bfloat16", "float64")


@dataclass(frozen=True)
class _ComposeOptions:
    """The options of `driftline compose`."""

    out: Path
    ops: str
    length: int
    min_count: int | None
    every: bool
    dtype: str
    shape: str
    seed: int


@click.command()
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The folder to write the models to.")
@click.option("--ops", metavar="O1,O2", required=True, help="Operators, such as exp,log,div,softmax (listed above).")
@click.option("--length", type=click.IntRange(1, 12), default=2, show_default=True, help="Operators in each model.")
@click.option(
    "--min-count", type=click.IntRange(1), help="Write at least so many models, by chance.  [default: 10, or all]"
)
@click.option("--all", "every", is_flag=True, help="Write every model that there is.")
@click.option("--dtype", type=click.Choice(_DTYPES), default="float32", show_default=True, help="Of the inputs.")
@click.option("--shape", metavar="AxB", default="16x8", show_default=True, help="Of the inputs; rows are reduced.")
@seed_option
@json_option
@filled(_ComposeOptions)
def compose(asked: _ComposeOptions, as_json: bool) -> int:
    """Write small models of given operators as Python, TorchScript and ONNX, with a metadata file.

    \b
    Each sequence of operators is written in up to three arrangements:
      chain   operators of two operands take the last result and a new input:  div(exp(x0), x1)
      reuse   they take the model's first input instead:                       div(exp(x0), x0)
      fork    the last one joins two branches of the first input:              sub(exp(x0), log(x0))

    \b
    Examples:
      driftline compose --out models --ops exp,log,div,sub,softmax --length 2 --all
      driftline compose --out models --ops exp,sum,div,sub,amax --length 3 --min-count 50 --dtype float16
      driftline instabilities --models models --inputs specials --out run

    \b
    Operators: exp exp2 log log2 log10 sqrt rsqrt reciprocal square abs neg sin cos tan tanh sinh cosh asin acos atan
    sigmoid relu gelu silu mish erf logsigmoid floor round add sub mul div pow maximum minimum softplus elu softmax
    log_softmax cumsum sum mean amax amin logsumexp prod norm var std normalize layer_norm rms_norm.
    """
    from driftline.execute.pool import Pool
    from driftline.generate.graph import TensorType
    from driftline.instabilities.compose import compose as make
    from driftline.instabilities.models import METADATA, write_models
    from driftline.instabilities.operations import parse_operations

    out = asked.out
    if asked.every and asked.min_count:
        raise DriftlineError("Give --all or --min-count, not both.")
    operations, sizes = parse_operations(asked.ops), _shape(asked.shape)
    if out.is_dir() and any(out.iterdir()) and not (out / METADATA).is_file():
        raise DriftlineError(f"--out {out}: the folder is not empty, and holds no composed models; name another one.")
    models = make(
        operations, asked.length, least=asked.min_count, every=asked.every, tensor=TensorType(asked.dtype, sizes),
        seed=asked.seed,
    )  # fmt: skip
    about = {"operators": [one.name for one in operations], "length": asked.length, "dtype": asked.dtype,
             "shape": list(sizes), "seed": asked.seed}  # fmt: skip
    with Pool() as pool, Ticker("Writing models", len(models)) as ticker:
        path = write_models(pool, out, models, about, lambda count: ticker.advance(count, "written"))
    if as_json:
        print_json({"schema": 1, "folder": str(out), "metadata": str(path), "models": [one.name for one in models]})
    else:
        click.echo(f"{len(models)} models in {out}: NAME.py, NAME.pt (TorchScript), NAME.onnx, and {METADATA}.")
        note(f"Run them with: driftline instabilities --models {out} --inputs specials --out RUN")
    return 0


def _shape(text: str) -> tuple[int, ...]:
    parts = text.split("x")
    if not all(part.isdigit() and 0 < int(part) <= 65536 for part in parts) or len(parts) > 4:
        raise DriftlineError(f"--shape {text}: write one to four sizes, such as 16x8.")
    return tuple(int(part) for part in parts)
