"""The shadow of ONNX models: each node computed in higher precision, with what rounding may move."""
