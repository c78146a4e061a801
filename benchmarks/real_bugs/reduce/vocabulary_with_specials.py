# Two vocabularies are compared before their embeddings are shared. Equal ones are taken for different.
import torch


class Vocabulary(set):
    """Shows its special tokens first, whatever else is in it."""

    specials = ("<pad>", "<end>")

    def __iter__(self):
        return iter(self.specials)


class Embedding(torch.nn.Module):
    def __init__(self, words, width):
        super().__init__()
        rows = len(words)
        self.table = torch.nn.Parameter(torch.sin(torch.arange(rows * width, dtype=torch.float32)).reshape(rows, width))

    def forward(self, tokens):
        return self.table[tokens]


class Translator(torch.nn.Module):
    def __init__(self, source, target, width=3):
        super().__init__()
        self.source_words = source
        self.target_words = target
        self.source = Embedding(source, width)
        self.target = Embedding(target, width)
        self.mix = torch.nn.Parameter(torch.eye(width) * 0.5)

    def shared(self):
        return self.target_words == self.source_words

    def encode(self, tokens):
        return torch.tanh(self.source(tokens) @ self.mix)

    def decode(self, hidden):
        table = self.source.table if self.shared() else self.target.table * -1
        return hidden @ table.t()

    def forward(self, tokens):
        scores = self.decode(self.encode(tokens))
        return torch.softmax(scores, dim=-1), self.shared()


def report(name, model, tokens):
    compiled = torch.compile(model, backend="aot_eager")
    with torch.no_grad():
        probabilities, shared = compiled(tokens)
    print(name, "shared:", shared, [round(v, 4) for v in probabilities[0].tolist()])


words = ["<pad>", "<end>", "a", "b"]
tokens = torch.tensor([2, 3, 1])
report("one language", Translator(Vocabulary(words), set(words)), tokens)
report("two languages", Translator(Vocabulary(words), set(words[:3]) | {"c"}), tokens)
