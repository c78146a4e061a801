"""Normalisation layers and losses, some with gradients taken inside."""

import torch
import torch.nn.functional as F
from torch import nn


def _x(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def layer_norm_and_its_gradients():
    def f(x, w, b):
        x, w, b = (t.detach().requires_grad_() for t in (x, w, b))
        y = F.layer_norm(x, (6,), w, b)
        g = torch.autograd.grad((y * torch.arange(6.0)).sum(), (x, w, b))
        return y.detach(), *g

    return f, (_x(1, 4, 6), torch.ones(6) * 1.5, torch.zeros(6))


def batch_norm_in_training_updates_running_stats():
    torch.manual_seed(2)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.bn = nn.BatchNorm2d(3, momentum=0.3)

        def forward(self, x):
            self.bn.reset_running_stats()
            y = self.bn(x)
            return y, self.bn.running_mean.clone(), self.bn.running_var.clone(), self.bn.num_batches_tracked.clone()

    return Net().train(), (_x(2, 4, 3, 5, 5) * 2 + 1,)


def batch_norm_in_eval_uses_stored_stats():
    bn = nn.BatchNorm1d(4)
    with torch.no_grad():
        bn.running_mean.copy_(torch.tensor([0.0, 1.0, -2.0, 5.0]))
        bn.running_var.copy_(torch.tensor([1.0, 4.0, 0.25, 1e-4]))
    return bn.eval(), (_x(3, 6, 4),)


def group_norm_between_convolutions():
    torch.manual_seed(4)
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(4, 8), nn.SiLU(), nn.Conv2d(8, 6, 1), nn.GroupNorm(1, 6))
    return net.eval(), (_x(4, 2, 3, 7, 9),)


def instance_norm_with_affine_parameters():
    torch.manual_seed(5)
    net = nn.InstanceNorm2d(3, affine=True, track_running_stats=False)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([1.0, 2.0, 0.5]))
    return net.train(), (_x(5, 2, 3, 6, 6) * 4 - 2,)


def cross_entropy_with_ignore_index_and_weights():
    def f(logits, target, w):
        return (
            F.cross_entropy(logits, target, ignore_index=-100),
            F.cross_entropy(logits, target, weight=w, reduction="none"),
            F.cross_entropy(logits, target, weight=w, label_smoothing=0.1),
        )

    return f, (_x(6, 6, 5), torch.tensor([0, -100, 4, 2, -100, 1]), torch.tensor([1.0, 2.0, 0.5, 1.0, 3.0]))


def cross_entropy_where_every_target_is_ignored():
    def f(logits, target):
        return F.cross_entropy(logits, target), F.cross_entropy(logits, target, reduction="sum")

    return f, (_x(7, 3, 4), torch.full((3,), -100))


def cross_entropy_with_class_probabilities_and_gradient():
    def f(logits, probs):
        logits = logits.detach().requires_grad_()
        loss = F.cross_entropy(logits, probs)
        return loss.detach(), *torch.autograd.grad(loss, logits)

    return f, (_x(8, 4, 6), torch.softmax(_x(9, 4, 6), -1))


def kl_divergence_between_categoricals():
    def f(p_logits, q_logits):
        lp, lq = p_logits.log_softmax(-1), q_logits.log_softmax(-1)
        return (
            F.kl_div(lq, lp.exp(), reduction="batchmean"),
            F.kl_div(lq, lp, reduction="none", log_target=True).sum(-1),
            F.kl_div(lq, F.one_hot(torch.tensor([0, 2, 1]), 4).float(), reduction="sum"),
        )

    return f, (_x(10, 3, 4), _x(11, 3, 4))


def bce_with_logits_for_extreme_logits():
    def f(logits, y, pos_weight):
        logits = logits.detach().requires_grad_()
        loss = F.binary_cross_entropy_with_logits(logits, y, pos_weight=pos_weight, reduction="none")
        (g,) = torch.autograd.grad(loss.sum(), logits)
        return loss.detach(), g

    logits = torch.tensor([[-500.0, 500.0, 0.0], [1e-8, -30.0, 88.0]])
    return f, (logits, torch.tensor([[0.0, 1.0, 1.0], [0.5, 1.0, 0.0]]), torch.tensor([1.0, 2.0, 0.5]))


def ctc_loss_on_short_targets():
    def f(logits, targets, in_len, t_len):
        lp = logits.log_softmax(-1)
        return F.ctc_loss(lp, targets, in_len, t_len, blank=0, reduction="none")

    return f, (
        _x(12, 12, 3, 5),
        torch.tensor([[1, 2, 2, 3], [4, 4, 0, 0], [1, 0, 0, 0]]),
        torch.tensor([12, 10, 7]),
        torch.tensor([4, 2, 1]),
    )


def huber_and_smooth_l1_at_the_knee():
    def f(x, y):
        return (
            F.huber_loss(x, y, delta=1.0, reduction="none"),
            F.smooth_l1_loss(x, y, beta=0.5, reduction="none"),
            F.smooth_l1_loss(x, y, beta=0.0),
            F.l1_loss(x, y),
        )

    return f, (torch.tensor([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0]), torch.zeros(7))


def cosine_similarity_with_zero_vector():
    def f(a, b, y):
        return F.cosine_similarity(a, b), F.cosine_embedding_loss(a, b, y, margin=0.2), F.normalize(a, dim=1)

    return f, (
        torch.tensor([[1.0, 2.0, 2.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]),
        torch.tensor([[2.0, 4.0, 4.0], [1.0, 1.0, 1.0], [0.0, 1.0, 0.0]]),
        torch.tensor([1, -1, -1]),
    )


def triplet_and_margin_losses():
    def f(a, p, n):
        return (
            F.triplet_margin_loss(a, p, n, margin=1.0),
            F.margin_ranking_loss(a[:, 0], p[:, 0], torch.ones(4), margin=0.1),
            F.multi_margin_loss(a, torch.tensor([0, 1, 2, 0])),
            F.hinge_embedding_loss(p, torch.where(n > 0, 1.0, -1.0)),
        )

    return f, (_x(13, 4, 3), _x(14, 4, 3), _x(15, 4, 3))


def training_step_of_a_small_classifier_returning_gradients():
    class Step(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(5, 9), nn.LayerNorm(9), nn.Tanh(), nn.Linear(9, 3))

        def forward(self, x, y):
            params = list(self.net.parameters())
            loss = F.nll_loss(self.net(x).log_softmax(-1), y)
            grads = torch.autograd.grad(loss, params)
            norm = torch.sqrt(sum(g.pow(2).sum() for g in grads))
            return loss.detach(), norm, [p.detach() - 0.1 * g for p, g in zip(params, grads, strict=False)]

    torch.manual_seed(16)
    return Step().train(), (_x(16, 7, 5), torch.tensor([0, 1, 2, 2, 1, 0, 1]))
