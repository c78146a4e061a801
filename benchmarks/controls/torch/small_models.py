"""Small complete models of the kind found in tutorials and model repositories."""

import math

import torch
import torch.nn.functional as F
from torch import nn


def _x(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 4 * 4, 60)
        self.fc2 = nn.Linear(60, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = torch.flatten(x, 1)
        return F.log_softmax(self.fc2(F.relu(self.fc1(x))), dim=1)


def lenet_digit_classifier():
    torch.manual_seed(1)
    return LeNet().eval(), (_x(1, 3, 1, 28, 28),)


class BasicBlock(nn.Module):
    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(c_out)
        self.down = None
        if stride != 1 or c_in != c_out:
            self.down = nn.Sequential(nn.Conv2d(c_in, c_out, 1, stride, bias=False), nn.BatchNorm2d(c_out))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.down is None else self.down(x)))


def small_resnet():
    torch.manual_seed(2)
    net = nn.Sequential(
        BasicBlock(3, 8, 1), BasicBlock(8, 16, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5)
    )
    return net.eval(), (_x(2, 2, 3, 16, 16),)


class TransformerBlock(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        q, k, v = (z.view(b, t, self.h, d // self.h).transpose(1, 2) for z in (q, k, v))
        att = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        mask = torch.tril(torch.ones(t, t, dtype=torch.bool))
        att = att.masked_fill(~mask, float("-inf")).softmax(-1)
        x = x + self.proj((att @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.ln2(x))


class TinyGPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(30, 24)
        self.pos = nn.Embedding(16, 24)
        self.blocks = nn.Sequential(TransformerBlock(24, 4), TransformerBlock(24, 4))
        self.ln = nn.LayerNorm(24)

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1]))
        return self.ln(self.blocks(x)) @ self.tok.weight.t()


def tiny_gpt_language_model():
    torch.manual_seed(3)
    return TinyGPT().eval(), (torch.arange(20).reshape(2, 10) % 30,)


class LSTMTagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 8)
        self.lstm = nn.LSTM(8, 10, num_layers=2, bidirectional=True, batch_first=True)
        self.out = nn.Linear(20, 4)

    def forward(self, ids):
        h, (hn, cn) = self.lstm(self.emb(ids))
        return self.out(h), hn, cn


def bidirectional_lstm_tagger():
    torch.manual_seed(4)
    return LSTMTagger().eval(), (torch.arange(14).reshape(2, 7),)


class GRUForecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(2, 12, batch_first=True)
        self.cell = nn.GRUCell(2, 12)
        self.head = nn.Linear(12, 2)

    def forward(self, x):
        _, h = self.gru(x)
        h, last, preds = h[0], x[:, -1], []
        for _ in range(4):
            h = self.cell(last, h)
            last = last + self.head(h)
            preds.append(last)
        return torch.stack(preds, 1)


def gru_autoregressive_forecaster():
    torch.manual_seed(5)
    return GRUForecaster().eval(), (_x(5, 3, 9, 2),)


class UNetPiece(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU())
        self.mid = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU())
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.dec = nn.Conv2d(16, 2, 3, padding=1)

    def forward(self, x):
        e = self.enc(x)
        u = self.up(self.mid(F.max_pool2d(e, 2)))
        dh, dw = e.shape[2] - u.shape[2], e.shape[3] - u.shape[3]
        u = F.pad(u, [dw // 2, dw - dw // 2, dh // 2, dh - dh // 2])
        return self.dec(torch.cat([e, u], 1))


def unet_level_with_odd_sizes():
    torch.manual_seed(6)
    return UNetPiece().eval(), (_x(6, 1, 3, 13, 11),)


class MoE(nn.Module):
    def __init__(self, d=10, n=4, k=2):
        super().__init__()
        self.gate = nn.Linear(d, n, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(d, 2 * d), nn.SiLU(), nn.Linear(2 * d, d)) for _ in range(n)
        )
        self.k = k

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        w, idx = self.gate(flat).softmax(-1).topk(self.k, dim=-1)
        w = w / w.sum(-1, keepdim=True)
        out = torch.zeros_like(flat)
        for e, expert in enumerate(self.experts):
            row, slot = torch.where(idx == e)
            if row.numel() == 0:
                continue
            out.index_add_(0, row, expert(flat[row]) * w[row, slot, None])
        return out.view_as(x)


def mixture_of_experts_layer():
    torch.manual_seed(7)
    return MoE().eval(), (_x(7, 2, 6, 10),)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(20, 16)
        self.mu, self.logvar = nn.Linear(16, 3), nn.Linear(16, 3)
        self.dec = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 20), nn.Sigmoid())

    def forward(self, x):
        h = torch.relu(self.enc(x))
        mu, logvar = self.mu(h), self.logvar(h)
        torch.manual_seed(99)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        recon = self.dec(z)
        kl = -0.5 * torch.sum(1 + logvar - mu**2 - logvar.exp(), 1)
        return recon, kl


def seeded_variational_autoencoder():
    torch.manual_seed(8)
    return VAE().train(), (torch.sigmoid(_x(8, 4, 20)),)


class GCNLayer(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.lin = nn.Linear(d_in, d_out, bias=False)
        self.bias = nn.Parameter(torch.zeros(d_out))

    def forward(self, x, edges):
        n = x.shape[0]
        loops = torch.arange(n)
        src = torch.cat([edges[0], loops])
        dst = torch.cat([edges[1], loops])
        deg = torch.zeros(n).scatter_add_(0, dst, torch.ones(dst.shape[0]))
        norm = deg[src].rsqrt() * deg[dst].rsqrt()
        msg = self.lin(x)[src] * norm[:, None]
        return torch.zeros(n, msg.shape[1]).index_add_(0, dst, msg) + self.bias


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = GCNLayer(5, 8), GCNLayer(8, 3)

    def forward(self, x, edges):
        return self.b(torch.relu(self.a(x, edges)), edges).log_softmax(-1)


def graph_convolution_with_scatter():
    torch.manual_seed(9)
    edges = torch.tensor([[0, 1, 1, 2, 3, 3, 4, 5, 0], [1, 0, 2, 1, 4, 5, 3, 3, 5]])
    return GCN().eval(), (_x(9, 6, 5), edges)


class SelectiveScan(nn.Module):
    def __init__(self, d=6, n=4):
        super().__init__()
        self.A_log = nn.Parameter(torch.log(torch.arange(1, n + 1).float()).repeat(d, 1))
        self.D = nn.Parameter(torch.ones(d))
        self.bc = nn.Linear(d, 2 * n, bias=False)
        self.dt = nn.Linear(d, d)
        self.n = n

    def forward(self, x):
        b, length, d = x.shape
        dt = F.softplus(self.dt(x))
        B, C = self.bc(x).split(self.n, dim=-1)
        dA = torch.exp(dt[..., None] * -torch.exp(self.A_log))
        dBx = dt[..., None] * B[:, :, None] * x[..., None]
        h = torch.zeros(b, d, self.n)
        ys = []
        for t in range(length):
            h = dA[:, t] * h + dBx[:, t]
            ys.append((h * C[:, t, None]).sum(-1))
        return torch.stack(ys, 1) + x * self.D


def mamba_like_selective_scan():
    torch.manual_seed(10)
    return SelectiveScan().eval(), (_x(10, 2, 9, 6),)


class RopeAttention(nn.Module):
    def __init__(self, d=16, h=2):
        super().__init__()
        self.h, self.hd = h, d // h
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d, d, bias=False) for _ in range(4))
        inv = 1.0 / (10000 ** (torch.arange(0, self.hd, 2).float() / self.hd))
        self.register_buffer("inv", inv, persistent=False)

    def rope(self, x):
        ang = torch.outer(torch.arange(x.shape[2]).float(), self.inv)
        z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(z * torch.polar(torch.ones_like(ang), ang)).flatten(-2).type_as(x)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (w(x).view(b, t, self.h, self.hd).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        y = F.scaled_dot_product_attention(self.rope(q), self.rope(k), v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(b, t, d))


def rope_attention_with_complex_rotation():
    torch.manual_seed(11)
    return RopeAttention().eval(), (_x(11, 2, 7, 16),)


class Seq2SeqAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.key = nn.Linear(6, 8)
        self.query = nn.Linear(8, 8)
        self.v = nn.Linear(8, 1)
        self.cell = nn.LSTMCell(6, 8)

    def forward(self, memory, steps):
        b = memory.shape[0]
        h = c = torch.zeros(b, 8)
        ctx = memory.mean(1)
        ws = []
        for _ in range(steps.shape[0]):
            h, c = self.cell(ctx, (h, c))
            e = self.v(torch.tanh(self.query(h)[:, None] + self.key(memory))).squeeze(-1)
            w = e.softmax(1)
            ctx = torch.einsum("bt,btd->bd", w, memory)
            ws.append(w)
        return ctx, torch.stack(ws, 1)


def bahdanau_attention_decoder():
    torch.manual_seed(12)
    return Seq2SeqAttention().eval(), (_x(12, 2, 5, 6), torch.zeros(3))


def torch_transformer_encoder_layer():
    torch.manual_seed(13)
    layer = nn.TransformerEncoderLayer(d_model=16, nhead=4, dim_feedforward=32, dropout=0.1, batch_first=True)
    enc = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
    return enc.eval(), (_x(13, 2, 6, 16),)


class MLPMixer(nn.Module):
    def __init__(self, patches=16, dim=12):
        super().__init__()
        self.embed = nn.Conv2d(3, dim, 4, stride=4)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.tok = nn.Sequential(nn.Linear(patches, 24), nn.GELU(), nn.Linear(24, patches))
        self.ch = nn.Sequential(nn.Linear(dim, 24), nn.GELU(), nn.Linear(24, dim))
        self.head = nn.Linear(dim, 4)

    def forward(self, img):
        x = self.embed(img).flatten(2).transpose(1, 2)
        x = x + self.tok(self.n1(x).transpose(1, 2)).transpose(1, 2)
        x = x + self.ch(self.n2(x))
        return self.head(x.mean(1))


def mlp_mixer_on_patches():
    torch.manual_seed(14)
    return MLPMixer().eval(), (_x(14, 2, 3, 16, 16),)


class NeRFLike(nn.Module):
    def __init__(self, freqs=4):
        super().__init__()
        self.register_buffer("bands", 2.0 ** torch.arange(freqs) * math.pi)
        self.net = nn.Sequential(nn.Linear(3 + 6 * freqs, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, origin, direction):
        t = torch.linspace(0.5, 2.0, 12)
        pts = origin[:, None] + direction[:, None] * t[:, None]
        enc = (pts[..., None] * self.bands).flatten(-2)
        raw = self.net(torch.cat([pts, enc.sin(), enc.cos()], -1))
        alpha = 1 - torch.exp(-F.relu(raw[..., 3]) * (t[1] - t[0]))
        trans = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], 1), 1)[:, :-1]
        w = alpha * trans
        return (w[..., None] * raw[..., :3].sigmoid()).sum(1), (w * t).sum(1)


def volume_rendering_of_a_radiance_field():
    torch.manual_seed(15)
    return NeRFLike().eval(), (_x(15, 5, 3) * 0.1, F.normalize(_x(16, 5, 3), dim=-1))
