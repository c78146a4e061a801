"""A plugin: TVM with three passes of our own, one of them wrong, one sound, and one that does not take what it must."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from driftline.backends import BACKENDS
from driftline.backends.tvm import Tvm
from driftline.backends.tvm_passes import RELAX, TvmPass


class PlantedTvm(Tvm):
    name = "planted-tvm"
    family = "tvm"

    def tried(self) -> Mapping[str, TvmPass]:
        planted = {"WrongSubtract": _wrong, "SoundAdd": _sound, "RaisingSubtract": _raising}
        return {**super().tried(), **{name: TvmPass(name, RELAX, "", make) for name, make in planted.items()}}


BACKENDS.register(PlantedTvm.name, PlantedTvm)


def _rewriting(wanted: str, made: Any) -> Any:
    """A pass that rewrites every call of one operator."""
    import tvm
    from tvm import relax

    @relax.expr_functor.mutator
    class Rewriter(relax.PyExprMutator):  # type: ignore[misc]
        def visit_call_(self, call: Any) -> Any:
            call = self.visit_expr_post_order(call)
            return made(call) if getattr(call.op, "name", "") == wanted else call

    @tvm.transform.module_pass(opt_level=0)
    def rewrite(module: Any, context: Any) -> Any:
        rewriter = Rewriter(module)
        for variable, function in module.functions_items():
            if isinstance(function, relax.Function):
                rewriter.builder_.update_func(variable, rewriter.visit_expr(function))
        return rewriter.builder_.get()

    return rewrite


def _wrong() -> Any:
    from tvm import relax

    return _rewriting("relax.subtract", lambda call: relax.op.subtract(call.args[1], call.args[0]))


def _sound() -> Any:
    from tvm import relax

    return _rewriting("relax.add", lambda call: relax.op.add(call.args[1], call.args[0]))


def _raising() -> Any:
    def refuse(call: Any) -> Any:
        raise KeyError("the pass has no entry for this call")

    return _rewriting("relax.subtract", refuse)
