import io

import onnxruntime
import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Dropout())
kept = io.BytesIO()
torch.onnx.export(
    net,
    torch.randn(1, 3, 8, 8),
    kept,
    dynamo=False,
    input_names=["image"],
    output_names=["features"],
    dynamic_axes={"image": {0: "batch"}, "features": {0: "batch"}},
)
print(net.training)
session = onnxruntime.InferenceSession(kept.getvalue())
for batch in (1, 3):
    (features,) = session.run(["features"], {"image": torch.randn(batch, 3, 8, 8).numpy()})
    print(features.shape)
net.eval()
with torch.no_grad():
    net[0].weight.zero_()
(features,) = session.run(None, {"image": torch.ones(1, 3, 8, 8).numpy()})
print(features.max() > 0)
