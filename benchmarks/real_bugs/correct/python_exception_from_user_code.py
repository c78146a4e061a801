# The function refuses some inputs with an error of its own.
import torch


@torch.compile
def checked(x, limit):
    if x.shape[0] > limit:
        raise ValueError(f"{x.shape[0]} rows are more than {limit}")
    return x.sum()


for rows in (2, 5):
    try:
        print(checked(torch.ones(rows, 2), 3))
    except ValueError as error:
        print("ValueError:", error)
