import onnxruntime
import torch


class Same(torch.nn.Module):
    def forward(self, x):
        return x + 1, x


torch.onnx.export(Same(), (torch.ones(2),), "same.onnx", input_names=["x"])
session = onnxruntime.InferenceSession("same.onnx")
print(session.run(None, {"x": torch.ones(2).numpy()}))
