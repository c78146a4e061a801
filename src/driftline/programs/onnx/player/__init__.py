"""Runs ONNX models on torch, one operator after another.

The reference evaluator of the ONNX project is the standard's own word, but it is slow, and it cannot run everything
that exporters write. This player covers what models are made of, the contrib operators of ONNX Runtime included, at the
speed of torch. It runs in a worker with torch, and nothing in it optimises: each node is one call of a function here.
What an operator means in which opset stands in one file per group of operators.
"""
