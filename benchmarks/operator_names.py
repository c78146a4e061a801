"""Writes the names of operators that causes may ask for, from the libraries installed here.

    python benchmarks/operator_names.py            # writes src/driftline/causes/operators.txt
    python benchmarks/operator_names.py --check    # exits 1 where a name of today is not in the file

They are those of ONNX and of ONNX Runtime's own domain, of torch (functions, methods, layers, ATen), of TensorFlow and
jax.numpy, and of Driftline's table of operators. Names that no release has any longer stay in the file.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Iterator

from driftline.causes.names import FILE, known_names
from driftline.core.spelling import spelled_alike


def onnx_names() -> Iterator[str]:
    import onnx.defs
    import onnxruntime.capi.onnxruntime_pybind11_state as runtime

    yield from (schema.name for schema in onnx.defs.get_all_schemas_with_history())
    if hasattr(runtime, "get_all_operator_schema"):
        yield from (schema.name for schema in runtime.get_all_operator_schema())


def torch_names() -> Iterator[str]:
    import torch

    for name in torch._C._dispatch_get_all_op_names():
        space, _, rest = name.partition("::")
        if space == "aten":
            yield rest.partition(".")[0]
    modules = (torch, torch.nn.functional, torch.special, torch.linalg, torch.fft, torch.Tensor)
    for module in modules:
        yield from (name for name in dir(module) if callable(getattr(module, name, None)) and name[0].islower())
    yield from (name for name, made in vars(torch.nn).items() if inspect.isclass(made))


def other_names() -> Iterator[str]:
    import jax.numpy
    import tensorflow as tf

    for module in (jax.numpy, jax.lax, jax.nn, tf, tf.math, tf.nn, tf.linalg, tf.image, tf.signal):
        yield from (name for name in dir(module) if callable(getattr(module, name, None)) and name[0].islower())


def table_names() -> Iterator[str]:
    from driftline.generate.table import OPERATORS

    yield from OPERATORS


def all_names() -> list[str]:
    """Returns one spelling of each name, sorted."""
    found: dict[frozenset[str], str] = {}
    for names in (onnx_names(), torch_names(), table_names(), other_names()):
        for name in names:
            if not name.startswith("_") and name.isidentifier():
                found.setdefault(spelled_alike([name]), name)
    return sorted(found.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say which names of today are missing")
    known = known_names() if FILE.exists() else {}
    new = [name for name in all_names() if not spelled_alike([name]) <= set(known)]
    if parser.parse_args().check:
        print("\n".join(new) or "every name is known")
        return bool(new)
    FILE.write_text("\n".join(sorted([*known.values(), *new])) + "\n")
    print(f"{FILE}: {len(new)} new names")
    return 0


if __name__ == "__main__":
    sys.exit(main())
