# Reads a table in chunks; the generator of the chunks returns how many rows were left over. That number is lost.
import torch


class Table:
    def __init__(self, rows, columns):
        self.values = torch.arange(rows * columns, dtype=torch.float32).reshape(rows, columns)
        self.names = [f"column {i}" for i in range(columns)]

    def __len__(self):
        return self.values.shape[0]


class Normaliser(torch.nn.Module):
    def __init__(self, table):
        super().__init__()
        self.register_buffer("mean", table.values.mean(dim=0))
        self.register_buffer("scale", table.values.std(dim=0) + 1e-6)

    def forward(self, x):
        return (x - self.mean) / self.scale


class Reader(torch.nn.Module):
    def __init__(self, table, size):
        super().__init__()
        self.normalise = Normaliser(table)
        self.size = size

    def forward(self, values):
        normalised = self.normalise(values)
        n = values.shape[0] // self.size

        def chunks():
            for i in range(n):
                yield normalised[i * self.size : (i + 1) * self.size] * 2
            return values.shape[0] - n * self.size

        return chunks()


def consume(iterator):
    total = torch.zeros(())
    count = 0
    while True:
        try:
            chunk = next(iterator)
        except StopIteration as stop:
            return total, count, stop.value
        total = total + chunk.abs().sum()
        count += 1


def main():
    table = Table(11, 3)
    reader = torch.compile(Reader(table, 4), backend="aot_eager")
    total, count, left = consume(reader(table.values))
    print("chunks:", count, "sum:", round(total.item(), 3))
    print("rows left over:", left)


main()
