"""ONNX models as programs: files, signatures, shapes, cuts, text, and the reference evaluator."""
