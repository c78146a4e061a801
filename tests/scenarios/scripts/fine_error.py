import torch


class TooLarge(ValueError):
    pass


@torch.compile(backend="aot_eager")
def checked(x, limit):
    if limit > 3:
        raise TooLarge(f"{limit} is too large")
    return x * limit


for limit in (1, 2, 5):
    try:
        checked(torch.ones(2), limit)
    except TooLarge as error:
        print(error)
