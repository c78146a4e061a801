import torch


def main():
    return torch.compile(lambda x: x + 1)


print(main())
