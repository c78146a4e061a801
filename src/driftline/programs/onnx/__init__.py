"""ONNX models as programs: files, signatures, shapes, cuts, text, and the evaluator that says what they mean."""
