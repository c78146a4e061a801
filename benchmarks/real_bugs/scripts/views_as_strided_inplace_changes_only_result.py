# as_strided_ changes the tensor it is called on, so both names see the new sizes.
import torch


@torch.compile(backend="aot_eager", fullgraph=True)
def fold():
    flat = torch.arange(6.0)
    grid = flat.as_strided_((2, 3), (3, 1))
    return grid, flat.size(), flat.stride(), flat.sum(dim=0)


grid, size, stride, columns = fold()
print(grid)
print("size", tuple(size), "stride", tuple(stride))
print("sum over the first dimension:", columns)
