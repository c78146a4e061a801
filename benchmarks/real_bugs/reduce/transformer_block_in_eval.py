# A small transformer encoder for time series. In eval mode the residual stream comes out wrong.
import math

import torch
import torch.nn.functional as F


class Config:
    width = 8
    heads = 2
    layers = 2
    dropout = 0.1


class Attention(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.heads
        self.qkv = torch.nn.Linear(config.width, 3 * config.width, bias=False)
        self.out = torch.nn.Linear(config.width, config.width, bias=False)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        scores = q @ k.transpose(-1, -2) / math.sqrt(width // self.heads)
        mixed = torch.softmax(scores, dim=-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class FeedForward(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.up = torch.nn.Linear(config.width, 2 * config.width)
        self.down = torch.nn.Linear(2 * config.width, config.width)
        self.rate = config.dropout

    def forward(self, x):
        hidden = F.gelu(self.up(x))
        hidden = F.dropout(hidden, self.rate, self.training)
        return self.down(hidden)


class Block(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.first = torch.nn.LayerNorm(config.width)
        self.second = torch.nn.LayerNorm(config.width)
        self.attention = Attention(config)
        self.feed = FeedForward(config)
        self.rate = config.dropout

    def forward(self, x):
        x = x + self.attention(self.first(x))
        kept = F.dropout(x, self.rate, self.training)
        kept += self.feed(self.second(x))
        return x, kept


class Encoder(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed = torch.nn.Linear(1, config.width)
        self.blocks = torch.nn.ModuleList([Block(config) for _ in range(config.layers)])
        self.head = torch.nn.Linear(config.width, 1)

    def forward(self, series):
        x = self.embed(series.unsqueeze(-1))
        for block in self.blocks:
            x, kept = block(x)
        return self.head(x).squeeze(-1), (x - kept).abs().max()


torch.manual_seed(0)
model = Encoder(Config()).eval()
compiled = torch.compile(model, backend="aot_eager")
series = torch.sin(torch.arange(12.0)).reshape(2, 6)
with torch.no_grad():
    prediction, gap = compiled(series)
    print("gap between the stream and the kept stream:", round(gap.item(), 4))
    print([[round(v, 3) for v in row] for row in prediction.tolist()])
