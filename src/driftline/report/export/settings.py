"""A target of ours in the words of the compiler's own users: what to set so that it runs that way."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from driftline.core.target import Target, listed
from driftline.programs.inductor_options import inductor_config
from driftline.programs.script_parts import LEVELS
from driftline.programs.xla_options import xla_config


def in_their_words(target: Target) -> str:
    """As code to copy; the name of the target where there is no public switch."""
    write = _WORDS.get(target.backend)
    said = write(dict(target.options)) if write else ""
    return f"`{said}`" if said else f"Driftline's `{target}`"


def _onnxruntime(options: Mapping[str, str]) -> str:
    said = [f"graph_optimization_level = {LEVELS[options['opt']]}"] if options.get("opt") in LEVELS else []
    names = listed(options, "disable")
    return ", ".join([*said, *([f"disabled_optimizers={names}"] if names else [])])


def _inductor(options: Mapping[str, str]) -> str:
    if "forbid" in options:  # rules, decompositions and lowerings have no switch of their own
        return ""
    return ", ".join(f"torch._inductor.config.{key} = {value!r}" for key, value in inductor_config(options).items())


def _xla(options: Mapping[str, str]) -> str:
    if options.get("jit") == "off":
        return "jax.disable_jit()"
    settings = xla_config(options).items()
    flags = [f"--{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in settings]
    return f"XLA_FLAGS={' '.join(flags)}" if flags else ""


def _iree(options: Mapping[str, str]) -> str:
    flags = [f"--iree-opt-level={options['opt']}"] if "opt" in options else []
    return " ".join([*flags, *(f"--{flag}" for flag in listed(options, "flags"))])


def _tvm(options: Mapping[str, str]) -> str:
    return f"tvm.transform.PassContext(opt_level={options['opt']})" if set(options) == {"opt"} else ""


_WORDS: dict[str, Callable[[Mapping[str, str]], str]] = {
    "onnxruntime": _onnxruntime,
    "inductor": _inductor,
    "aotinductor": _inductor,
    "xla": _xla,
    "iree": _iree,
    "tvm": _tvm,
}
