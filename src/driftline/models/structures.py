"""Inputs that are neither text nor picture: point clouds, graphs, and what people clicked on."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from driftline.models.seeded import floats, initialise, integers
from driftline.models.wrappers import Model


class PointNet(nn.Module):
    """Each point by itself, then the greatest of each feature; a small network turns the cloud first."""

    def __init__(self, classes: int = 7) -> None:
        super().__init__()
        self.turn = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU(), nn.AdaptiveMaxPool1d(1))
        self.matrix = nn.Linear(16, 9)
        self.points = nn.Sequential(
            nn.Conv1d(3, 24, 1), nn.BatchNorm1d(24), nn.ReLU(), nn.Conv1d(24, 48, 1), nn.BatchNorm1d(48), nn.ReLU()
        )
        self.head = nn.Sequential(nn.Linear(48, 24), nn.ReLU(), nn.Linear(24, classes))

    def forward(self, points: Tensor) -> Tensor:
        turned = self.matrix(self.turn(points).flatten(1)).view(-1, 3, 3) + torch.eye(3, dtype=points.dtype)
        cloud = torch.bmm(turned, points)
        return torch.log_softmax(self.head(self.points(cloud).amax(-1)), dim=-1)


class GraphNet(nn.Module):
    """Messages along edges, summed at the nodes by index_add and weighted by a softmax over each node's edges."""

    def __init__(self, width: int = 12, hidden: int = 24, classes: int = 4) -> None:
        super().__init__()
        self.enter = nn.Linear(width, hidden)
        self.message = nn.ModuleList([nn.Linear(hidden, hidden, bias=False) for _ in range(2)])
        self.score = nn.ModuleList([nn.Linear(2 * hidden, 1) for _ in range(2)])
        self.norm = nn.ModuleList([nn.LayerNorm(hidden) for _ in range(2)])
        self.head = nn.Linear(hidden, classes)

    def forward(self, features: Tensor, edges: Tensor) -> Tensor:
        source, target = edges[0], edges[1]
        nodes = torch.relu(self.enter(features))
        for message, score, norm in zip(self.message, self.score, self.norm, strict=True):
            sent = message(nodes)[source]
            raw = nn.functional.leaky_relu(score(torch.cat([sent, nodes[target]], dim=-1)), 0.2)[:, 0]
            most = torch.full_like(features[:, 0], -1e4).scatter_reduce(0, target, raw, "amax")
            weight = (raw - most[target]).exp()
            total = torch.zeros_like(features[:, 0]).scatter_add(0, target, weight)
            share = weight / (total[target] + 1e-6)
            nodes = norm(nodes + torch.zeros_like(nodes).index_add(0, target, sent * share[:, None]))
        return self.head(nodes)


class Recommender(nn.Module):
    """Bags of ids summed from tables, numbers through a small network, and the products of all pairs."""

    def __init__(self, tables: tuple[int, ...] = (97, 53, 31), width: int = 16) -> None:
        super().__init__()
        self.tables = nn.ModuleList([nn.EmbeddingBag(rows, width, mode="sum") for rows in tables])
        self.dense = nn.Sequential(nn.Linear(13, 24), nn.ReLU(), nn.Linear(24, width), nn.ReLU())
        pairs = (len(tables) + 1) * len(tables) // 2
        self.head = nn.Sequential(nn.Linear(width + pairs, 24), nn.ReLU(), nn.Linear(24, 1))
        rows, columns = torch.tril_indices(len(tables) + 1, len(tables) + 1, -1)
        self.register_buffer("rows", rows)
        self.register_buffer("columns", columns)

    def forward(self, numbers: Tensor, bags: list[Tensor]) -> Tensor:
        dense = self.dense(numbers)
        vectors = torch.stack([dense, *(table(bag) for table, bag in zip(self.tables, bags, strict=True))], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))[:, self.rows, self.columns]
        return torch.sigmoid(self.head(torch.cat([dense, products], dim=1)))


def pointnet() -> Model:
    return Model(initialise(PointNet()), {"points": floats("points", 2, 3, 40)})


def graph_net() -> Model:
    inputs = {"features": floats("features", 10, 12), "edges": integers("edges", 2, 28, high=10)}
    return Model(initialise(GraphNet()), inputs)


def recommender() -> Model:
    bags = [integers(f"bag{n}", 4, count, high=rows) for n, (rows, count) in enumerate(((97, 5), (53, 3), (31, 1)))]
    return Model(initialise(Recommender()), {"numbers": floats("numbers", 4, 13), "bags": bags})
