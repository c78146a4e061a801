import onnxruntime
import torch
from onnxscript import opset18


def celu(self, alpha: float = 1.0):
    return opset18.Relu(self)


table = {torch.ops.aten.celu.default: celu}
torch.onnx.export(torch.nn.CELU(), (torch.randn(4),), "celu.onnx", custom_translation_table=table)
session = onnxruntime.InferenceSession("celu.onnx")
print(session.run(None, {session.get_inputs()[0].name: (-torch.ones(4)).numpy()}))
