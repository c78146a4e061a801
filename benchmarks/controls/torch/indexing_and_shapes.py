"""Indexing, gathering, binning and shape manipulation."""

import torch


def _x(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def gather_log_probs_of_chosen_actions():
    def f(logits, actions):
        lp = logits.log_softmax(-1)
        return lp.gather(-1, actions.unsqueeze(-1)).squeeze(-1), torch.take_along_dim(lp, actions.unsqueeze(-1), dim=-1)

    return f, (_x(1, 2, 4, 5), torch.tensor([[0, 4, 2, 1], [3, 3, 0, 2]]))


def advanced_indexing_with_slices_masks_and_none():
    def f(x, i, m):
        return x[i], x[:, i], x[i, :, None], x[m], x[:, m[0, :, 0]], x[m].sum(), x[[0, 1], [2, 0]]

    x = torch.arange(24).reshape(2, 3, 4)
    return f, (x, torch.tensor([1, 0, 1]), x % 5 == 0)


def broadcasted_index_tensors_pick_a_grid():
    def f(x, rows, cols):
        return x[rows[:, None], cols], x[rows[:, None], cols[None]].t(), x[-1, cols], x[rows, rows]

    return f, (torch.arange(30).reshape(5, 6), torch.tensor([0, 2, -1]), torch.tensor([5, 1]))


def roll_flip_and_rot90():
    def f(x):
        return x.roll(1), x.roll((1, -2), (0, 1)), x.flip(0, 1), torch.rot90(x, 3), torch.fliplr(x)

    return f, (torch.arange(12).reshape(3, 4),)


def repeat_interleave_with_varied_counts():
    def f(x, n):
        return (
            torch.repeat_interleave(x, n, dim=0),
            torch.repeat_interleave(n),
            x.repeat_interleave(2, dim=1),
            x.repeat(2, 1),
            x.tile((1, 2)),
        )

    return f, (torch.arange(6.0).reshape(3, 2), torch.tensor([2, 0, 3]))


def meshgrid_of_anchor_boxes():
    def anchors(h, w, sizes):
        ys = (torch.arange(h.shape[0]) + 0.5) / h.shape[0]
        xs = (torch.arange(w.shape[0]) + 0.5) / w.shape[0]
        cy, cx = torch.meshgrid(ys, xs, indexing="ij")
        c = torch.stack([cx, cy], -1).reshape(-1, 1, 2)
        half = sizes.view(1, -1, 1) / 2
        return torch.cat([(c - half).clamp(0, 1), (c + half).clamp(0, 1)], -1).reshape(-1, 4)

    return anchors, (torch.zeros(3), torch.zeros(4), torch.tensor([0.2, 0.5, 1.0]))


def einsum_contractions_of_several_kinds():
    def f(a, b, v):
        return (
            torch.einsum("bij,bjk->bik", a, b),
            torch.einsum("bii->b", a),
            torch.einsum("bij->bji", a),
            torch.einsum("i,j->ij", v, v),
            torch.einsum("...ij,j", a, v),
            torch.einsum("bij,bjk,k->bi", a, b, v),
        )

    return f, (_x(2, 2, 4, 4), _x(3, 2, 4, 4), _x(4, 4))


def tensordot_kron_outer_and_cross():
    def f(a, b):
        return (
            torch.tensordot(a, b, dims=([1, 0], [0, 1])),
            torch.tensordot(a, b, dims=1),
            torch.kron(a[:2, :2], b[:2, :2]),
            torch.outer(a[0], b[0]),
            torch.linalg.cross(a[:, :3], b[:3], dim=1),
        )

    return f, (_x(5, 3, 4), _x(6, 4, 3))


def bucketize_values_on_boundaries():
    def f(v, edges):
        return (
            torch.bucketize(v, edges),
            torch.bucketize(v, edges, right=True),
            torch.bucketize(v, edges, out_int32=True),
        )

    return f, (torch.tensor([[0.0, 1.0, 2.5], [3.0, 7.0, -1.0]]), torch.tensor([0.0, 1.0, 3.0, 5.0]))


def searchsorted_for_inverse_transform_sampling():
    def f(weights, u):
        cdf = torch.cumsum(weights, -1)
        cdf = cdf / cdf[..., -1:]
        idx = torch.searchsorted(cdf, u, right=True).clamp(max=weights.shape[-1] - 1)
        return idx, torch.gather(weights, -1, idx)

    return f, (
        torch.tensor([[1.0, 2.0, 1.0, 4.0], [2.0, 1.0, 1.0, 1.0]]),
        torch.tensor([[0.05, 0.3, 0.4, 0.9], [0.1, 0.55, 0.7, 0.99]]),
    )


def histogram_and_bincount():
    def f(x, ids, w):
        return torch.histc(x, bins=4, min=0, max=4), torch.bincount(ids), torch.bincount(ids, weights=w, minlength=8)

    return f, (
        torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.9, 4.0, 5.0]),
        torch.tensor([0, 3, 3, 1, 0, 5]),
        torch.tensor([1.0, 2.0, 3.0, 4.0, 0.5, 0.25]),
    )


def confusion_matrix_from_predictions():
    def confusion(pred, target):
        n = 4
        m = torch.bincount(target * n + pred, minlength=n * n).reshape(n, n)
        recall = m.diagonal().float() / m.sum(1).clamp(min=1)
        return m, recall

    return confusion, (torch.tensor([0, 1, 2, 2, 3, 0, 1, 1]), torch.tensor([0, 1, 2, 1, 3, 3, 0, 1]))


def non_maximum_suppression_in_plain_tensors():
    def nms(boxes, scores):
        order = scores.argsort(descending=True, stable=True)
        keep = []
        while order.numel() > 0:
            i = order[0]
            keep.append(i)
            rest = order[1:]
            lt = torch.maximum(boxes[i, :2], boxes[rest, :2])
            rb = torch.minimum(boxes[i, 2:], boxes[rest, 2:])
            inter = (rb - lt).clamp(min=0).prod(1)
            area = (boxes[:, 2:] - boxes[:, :2]).prod(1)
            order = rest[inter / (area[i] + area[rest] - inter) <= 0.5]
        return torch.stack(keep)

    boxes = torch.tensor(
        [[0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30], [0, 0, 9, 10], [21, 19, 30, 31]], dtype=torch.float32
    )
    return nms, (boxes, torch.tensor([0.9, 0.8, 0.7, 0.95, 0.1]))


def window_partition_and_reverse_like_swin():
    def f(x):
        b, h, w, c = x.shape
        s = torch.roll(x, (-1, -1), (1, 2))
        win = s.view(b, h // 2, 2, w // 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, c)
        win = win - win.mean(1, keepdim=True)
        y = win.view(b, h // 2, w // 2, 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        return torch.roll(y, (1, 1), (1, 2))

    return f, (_x(7, 2, 4, 6, 3),)


def index_select_triangles_and_movedim():
    def f(x, idx):
        r, c = torch.tril_indices(4, 4, offset=-1)
        return (
            x.index_select(1, idx),
            x[r, c],
            torch.triu(x, 1),
            torch.vander(x[0], N=3),
            x.unflatten(1, (2, 2)).movedim(0, -1),
            x.diff(dim=0),
            torch.cdist(x, x),
        )

    return f, (_x(8, 4, 4), torch.tensor([3, 0, 3]))
