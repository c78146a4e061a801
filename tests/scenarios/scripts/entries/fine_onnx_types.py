import onnxruntime
import torch


class Types(torch.nn.Module):
    def forward(self, numbers, flags, half):
        return numbers * 2.5, numbers // 3, flags & (numbers > 2), half.sum() * 2, torch.where(flags, numbers, 1.5)


inputs = (torch.arange(4), torch.tensor([True, False, True, True]), torch.ones(4, dtype=torch.float16))
torch.onnx.export(Types(), inputs, "types.onnx")
session = onnxruntime.InferenceSession("types.onnx")
names = [one.name for one in session.get_inputs()]
feed = dict(zip(names, [one.numpy() for one in inputs], strict=True))
print([(one.dtype, one.shape) for one in session.run(None, feed)])
