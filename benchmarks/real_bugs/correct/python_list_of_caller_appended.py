# Hidden states go to a list that the caller brings along.
import torch


@torch.compile
def run(x, seen):
    for scale in (1.0, 2.0):
        x = torch.relu(x * scale - 1)
        seen.append(x)
    return x


seen = []
for _ in range(2):
    print(run(torch.tensor([0.5, 3.0]), seen))
print(len(seen), [t.tolist() for t in seen])
