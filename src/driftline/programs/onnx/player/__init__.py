"""Runs ONNX models on torch, one operator after another.

ONNX's reference evaluator is the authority, but it is slow and cannot run everything that exporters write. This player
covers the operators of usual models, including the contrib operators of ONNX Runtime, at the speed of torch. It runs in
a worker with torch and optimises nothing: each node is one call of a function. Each file implements a group of
operators, for all opsets.
"""
