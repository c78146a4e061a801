import torch
from torch._inductor.codecache import FxGraphCache


class DamagedCache:
    """Torch's cache of graphs, which has one key for all graphs and cannot read what it kept."""

    keys = []

    @staticmethod
    def prepare_key(*arguments):
        DamagedCache.keys.append("key")
        if len(DamagedCache.keys) > 1:
            raise RuntimeError("the entry cannot be read")
        return None, {"cache_state": "bypass", "cache_bypass_reason": "nothing is kept"}


FxGraphCache.prepare_key = DamagedCache.prepare_key


def make(scale):
    return torch.compile(lambda x: x * scale)


make(2)(torch.ones(3))
print(make(3)(torch.ones(3)))
