# The size of the result depends on the values.
import torch
import torch._dynamo.config

torch._dynamo.config.capture_dynamic_output_shape_ops = True


@torch.compile
def positives(x):
    return x[x > 0] * 2


for x in (torch.tensor([1.0, -1.0, 3.0]), torch.tensor([-1.0, -2.0]), torch.ones(5)):
    print(positives(x))
