# The body scatters from a tensor of the enclosing function; the condition only looks at the counter.
import torch
from torch._higher_order_ops import while_loop


@torch.compile(backend="aot_eager")
def spread(x, index):
    def more(i, value):
        return i < 3

    def body(i, value):
        return i + 1, torch.scatter(value.clone(), 0, index, x)

    return while_loop(more, body, (torch.tensor(0), x))[1]


print(spread(torch.arange(6.0).reshape(3, 2), torch.tensor([[2, 1], [0, 0]])))
