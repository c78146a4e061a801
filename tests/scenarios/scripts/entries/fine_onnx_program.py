import onnxruntime
import torch


class Mix(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x, y):
        self.calls += 1
        return x + self.calls, torch.softmax(y, -1)


program = torch.onnx.export(Mix(), (torch.ones(2), torch.ones(2, 3)), input_names=["x", "y"], verbose=False)
for _ in range(2):
    print(program(torch.ones(2), torch.randn(2, 3))[0])
program.save("mix.onnx")
feed = {"x": torch.ones(2).numpy(), "y": torch.randn(2, 3).numpy()}
for source in ("mix.onnx", program.model_proto.SerializeToString()):
    session = onnxruntime.InferenceSession(source)
    print([session.run(None, feed)[0].tolist() for _ in range(2)])
