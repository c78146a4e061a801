import torch

size = int(input("size? "))
print(torch.compile(lambda x: x + 1)(torch.ones(size)))
