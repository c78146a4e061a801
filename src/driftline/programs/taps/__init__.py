"""Inspects values inside a program: lists them (`Tap`), and rewrites the program with some of them as outputs.

tap.py          what is known of a value in the middle     tasks.py        what workers are asked
onnx_taps.py    ONNX models                                onnx_types.py   the types of all values of a model
torch_taps.py   torch programs, through torch.export       scopes.py       the module that a node belongs to
"""
