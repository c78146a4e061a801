"""Idioms: small ONNX models in the shapes that compilers' rewrite rules look for, one function each."""
