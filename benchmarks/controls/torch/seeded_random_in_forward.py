"""Random numbers drawn inside forward after a seed set inside it."""

import torch
import torch.nn.functional as F
from torch import nn


def _x(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def normal_noise_added_after_manual_seed():
    def f(x):
        torch.manual_seed(0)
        return x + 0.1 * torch.randn_like(x)

    return f, (_x(1, 4, 8),)


def dropout_in_training_mode_with_seed():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1 = nn.Linear(8, 16)
            self.fc2 = nn.Linear(16, 2)
            self.drop = nn.Dropout(0.5)

        def forward(self, x):
            torch.manual_seed(42)
            return self.fc2(self.drop(torch.relu(self.fc1(x))))

    torch.manual_seed(3)
    return Net().train(), (_x(2, 6, 8),)


def functional_dropout_always_training():
    def f(x):
        torch.manual_seed(7)
        kept = F.dropout(x, p=0.3, training=True)
        return kept, (kept != 0).sum()

    return f, (_x(3, 50).abs() + 1,)


def rand_like_mask_for_token_masking():
    def mask_tokens(ids):
        torch.manual_seed(123)
        draw = torch.rand_like(ids, dtype=torch.float32)
        masked = (draw < 0.15) & (ids > 2)
        return torch.where(masked, torch.full_like(ids, 103), ids), masked

    return mask_tokens, (torch.arange(60).reshape(3, 20),)


def multinomial_sampling_from_logits():
    def sample(logits):
        torch.manual_seed(5)
        p = torch.softmax(logits / 0.8, -1)
        return torch.multinomial(p, num_samples=4, replacement=True)

    return sample, (_x(4, 3, 10),)


def multinomial_without_replacement_is_a_subset():
    def f(w):
        torch.manual_seed(6)
        idx = torch.multinomial(w, 5)
        return torch.sort(idx).values, w[idx].sum()

    return f, (torch.arange(1.0, 9.0),)


def bernoulli_of_probabilities():
    def f(p):
        torch.manual_seed(8)
        return torch.bernoulli(p), torch.bernoulli(p.t())

    return f, (torch.linspace(0, 1, 24).reshape(4, 6),)


def normal_with_mean_and_std_tensors():
    def f(mean, std):
        torch.manual_seed(9)
        return torch.normal(mean, std), torch.normal(mean, 1.0), torch.normal(0.0, std)

    return f, (torch.arange(6.0), torch.arange(6, 0, -1).float() / 10)


def random_permutation_of_rows():
    def shuffle(x, y):
        torch.manual_seed(10)
        perm = torch.randperm(x.size(0))
        return x[perm], y[perm], torch.argsort(perm)

    return shuffle, (_x(5, 9, 2), torch.arange(9))


def generator_made_inside_the_function():
    def f(x):
        g = torch.Generator().manual_seed(2024)
        w = torch.randn(x.shape[-1], 3, generator=g)
        b = torch.rand(3, generator=g)
        return x @ w + b

    return f, (_x(6, 4, 5),)


def stochastic_depth_residual_net():
    class Block(nn.Module):
        def __init__(self, dim, p):
            super().__init__()
            self.norm = nn.LayerNorm(dim)
            self.fc = nn.Linear(dim, dim)
            self.p = p

        def forward(self, x):
            h = self.fc(self.norm(x))
            if self.training and self.p > 0:
                keep = torch.rand(x.shape[0], 1) >= self.p
                h = h * keep / (1 - self.p)
            return x + h

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(Block(12, 0.1 * i) for i in range(4))

        def forward(self, x):
            torch.manual_seed(77)
            for b in self.blocks:
                x = b(x)
            return x

    torch.manual_seed(1)
    return Net().train(), (_x(7, 5, 12),)


def gumbel_softmax_hard_choice():
    def f(logits):
        torch.manual_seed(31)
        return F.gumbel_softmax(logits, tau=0.7, hard=True)

    return f, (_x(8, 5, 4) * 2,)


def randint_crop_positions():
    def random_crop(img):
        torch.manual_seed(12)
        top = int(torch.randint(0, img.shape[-2] - 8 + 1, (1,)))
        left = int(torch.randint(0, img.shape[-1] - 8 + 1, (1,)))
        return img[..., top : top + 8, left : left + 8]

    return random_crop, (torch.arange(3 * 12 * 14).reshape(3, 12, 14).float(),)


def in_place_random_fills():
    def f(x):
        torch.manual_seed(13)
        a = torch.empty_like(x).uniform_(-2, 2)
        b = torch.empty_like(x).normal_(1, 3)
        c = torch.empty_like(x).exponential_(0.5)
        d = torch.zeros_like(x, dtype=torch.long).random_(0, 10)
        return a + x, b + x, c + x, d

    return f, (torch.zeros(3, 7),)


def fork_rng_gives_the_same_draw_twice():
    def f(x):
        torch.manual_seed(14)
        state = torch.get_rng_state()
        first = torch.randn(4)
        torch.set_rng_state(state)
        second = torch.randn(4)
        return x + first, x + second, torch.equal(first, second)

    return f, (torch.ones(4),)
