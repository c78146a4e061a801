import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("size", type=int)
print(torch.compile(lambda x: x + 1)(torch.ones(parser.parse_args().size)))
