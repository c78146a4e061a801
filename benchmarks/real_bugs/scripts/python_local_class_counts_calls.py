# A helper class from an enclosing function; its method writes to containers of that function.
import torch


def make_model():
    calls, shapes = {"n": 0}, []

    class Watch:
        def note(self, t):
            calls["n"] += 1
            shapes.append(tuple(t.shape))

    def model(x):
        watch = Watch()
        watch.note(x)
        y = torch.relu(x) + 1
        watch.note(y.sum(0))
        return y

    return model, calls, shapes


model, calls, shapes = make_model()
compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
for _ in range(2):
    print(compiled(torch.tensor([-1.0, 2.0])))
print(calls, shapes)
