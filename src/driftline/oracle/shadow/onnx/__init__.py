"""The shadow of ONNX models: each node is computed in higher precision, with the rounding errors that are legal."""
