# The function hands out a generator; its return value carries the number of chunks.
import torch


@torch.compile(backend="aot_eager")
def chunks(x):
    def produce():
        for i in range(3):
            yield x[i] * 10
        return "3 chunks"

    return produce()


g = chunks(torch.arange(3.0))
print(type(g).__name__)
while True:
    try:
        print(next(g))
    except StopIteration as stop:
        print("returned:", stop.value)
        break
