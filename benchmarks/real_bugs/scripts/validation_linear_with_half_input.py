# A float16 batch goes through a float32 layer, which eager mode refuses.
import torch

model = torch.nn.Linear(1, 1).eval()
compiled = torch.compile(model)
with torch.no_grad():
    print(compiled(torch.ones(1, 1)).dtype)
    print(compiled(torch.ones(1, 1, dtype=torch.float16)).dtype)
