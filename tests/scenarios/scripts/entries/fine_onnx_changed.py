import onnx
import onnxruntime
import torch

torch.onnx.export(torch.nn.ReLU(), torch.randn(3), "net.onnx", dynamo=False, input_names=["x"])
session = onnxruntime.InferenceSession("net.onnx")
print(session.run(None, {"x": torch.randn(3).numpy()})[0].shape)
model = onnx.load("net.onnx")
model.graph.node[0].op_type = "Neg"
onnx.save(model, "net.onnx")
print(onnxruntime.InferenceSession("net.onnx").run(None, {"x": torch.ones(3).numpy()})[0])
