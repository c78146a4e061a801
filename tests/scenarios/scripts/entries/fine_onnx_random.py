import onnxruntime
import torch


class Noisy(torch.nn.Module):
    def forward(self, x):
        return x + torch.rand_like(x)


torch.onnx.export(Noisy(), (torch.ones(5),), "noisy.onnx")
session = onnxruntime.InferenceSession("noisy.onnx")
print(session.run(None, {session.get_inputs()[0].name: torch.ones(5).numpy()})[0].shape)
print(torch.rand(1))
