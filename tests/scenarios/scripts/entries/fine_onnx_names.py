import numpy as np
import onnxruntime as ort
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x, scale=2.0):
        y = torch.nn.functional.gelu(self.linear(x))
        return {"y": y * scale, "top": y.argmax(-1), "sum": y.sum()}


torch.onnx.export(Net().eval(), (torch.randn(2, 4),), "net.onnx", dynamic_shapes={"x": {0: torch.export.Dim("rows")}})
session = ort.InferenceSession("net.onnx", providers=["CPUExecutionProvider"])
name = session.get_inputs()[0].name
for rows in (2, 5):
    out = session.run(None, {name: np.random.rand(rows, 4).astype(np.float32)})
    print([(type(one).__name__, one.dtype, one.shape) for one in out])
top = session.get_outputs()[1].name
print(session.run([top], {name: np.random.rand(3, 4).astype(np.float32)})[0].dtype)
for wrong in (np.zeros((3, 5), np.float32), np.zeros((3, 4), np.float64)):
    try:
        session.run(None, {name: wrong})
    except Exception as error:
        print(type(error).__name__)
