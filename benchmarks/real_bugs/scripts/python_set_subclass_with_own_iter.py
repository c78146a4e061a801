# A set that shows its members in a fixed order through __iter__; equality is that of sets.
import torch


class Labels(set):
    def __iter__(self):
        return iter(["<pad>"])


def choose(x, known, wanted):
    if wanted == known:
        return x + 1, len(known)
    return x - 1, len(known)


print(torch.compile(choose, backend="aot_eager")(torch.zeros(2), Labels({"a", "b"}), {"a", "b"}))
