# Attention whose scores get a penalty by distance.
import torch
from torch.nn.attention.flex_attention import flex_attention


def by_distance(score, batch, head, q, k):
    return score - (q - k).abs()


attend = torch.compile(flex_attention)
torch.manual_seed(0)
q, k, v = (torch.randn(1, 2, 128, 16) for _ in range(3))
with torch.no_grad():
    out = attend(q, k, v, score_mod=by_distance)
print(tuple(out.shape), [round(x, 2) for x in out[0, 0, 5, :4].tolist()])
