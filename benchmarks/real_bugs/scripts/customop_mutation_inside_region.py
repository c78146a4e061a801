# An in-place operator called from a region that is compiled once.
import torch


@torch.library.custom_op("bench_region::shift", mutates_args={"x"})
def shift(x: torch.Tensor) -> None:
    x.add_(5)


@torch.compiler.nested_compile_region
def block(x):
    y = x * 2
    shift(y)
    return y + 1


@torch.compile(backend="aot_eager", fullgraph=True)
def net(x):
    return block(block(x))


print(net(torch.zeros(3)))
