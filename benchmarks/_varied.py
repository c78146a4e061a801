"""Variants of the program of a witness: this text lies beside the witness in a bundle and runs where that runs.

Every function takes what the witness's factory returns, and returns the same of the variant.
"""

import numpy as np


def values(inputs, seed):
    """Other numbers of the same sort: NaN, infinities, zeros and limits stay; others change by up to a third and keep
    their sign. Integers beside floats are indices and sizes, and stay."""
    kinds = {array.dtype.kind for array in _arrays(inputs)}
    kind = "f" if "f" in kinds else "iuc"
    generator = np.random.default_rng(seed)
    return _mapped(inputs, lambda array: _other_numbers(array, generator) if array.dtype.kind in kind else array)


def repeated(inputs, axis):
    """Every input three times along an axis."""
    return _mapped(inputs, lambda array: _thrice(array, axis))


def cast(inputs, dtype):
    """Inputs of the same class (floats, integers) in another dtype."""
    return _mapped(inputs, lambda array: _cast(array, dtype))


def as_is(inputs):
    return inputs


def model_as_is(model, inputs):
    return model, inputs


def model_values(model, inputs, seed):
    return model, values(inputs, seed)


def model_repeated(model, inputs, axis):
    """The shapes of results are left open."""
    changed = repeated(inputs, axis)
    for value in model.graph.input:
        kind = value.type.tensor_type
        if value.name in changed and all(dim.HasField("dim_value") for dim in kind.shape.dim):
            for dim, size in zip(kind.shape.dim, changed[value.name].shape, strict=True):
                dim.dim_value = size
    for number, value in enumerate(model.graph.output):
        for place, dim in enumerate(value.type.tensor_type.shape.dim):
            dim.dim_param = f"open_{number}_{place}"
    return model, changed


def model_cast(model, inputs, dtype):
    from driftline.programs.onnx.floats import with_floats_in

    floats, integers = ("float32", "float64", "float16"), (*_SIGNED, *_UNSIGNED)
    of = floats if dtype in floats else integers
    used = {array.dtype.name for array in inputs.values() if array.dtype.name in of}
    if len(used) != 1:
        raise ValueError("its inputs are of no such class, or of several")
    return with_floats_in(model, dtype, tuple(used)), cast(inputs, dtype)


def model_beside(model, inputs):
    """With an unrelated Relu beside what it computes."""
    from onnx import TensorProto, helper

    model.graph.input.append(helper.make_tensor_value_info("beside_in", TensorProto.FLOAT, [3]))
    model.graph.output.append(helper.make_tensor_value_info("beside_out", TensorProto.FLOAT, [3]))
    model.graph.node.append(helper.make_node("Relu", ["beside_in"], ["beside_out"]))
    return model, {**inputs, "beside_in": np.array([-1.0, 0.5, 2.0], np.float32)}


_SIGNED = ("int32", "int64", "int8", "int16")
_UNSIGNED = ("uint8", "uint16", "uint32", "uint64")


def _arrays(inputs):
    found = []
    _mapped(inputs, lambda array: found.append(array) or array)
    return found


def _mapped(inputs, change):
    if isinstance(inputs, dict):
        return {name: _mapped(one, change) for name, one in inputs.items()}
    if isinstance(inputs, (tuple, list)):
        return type(inputs)(_mapped(one, change) for one in inputs)
    if isinstance(inputs, np.ndarray):
        return change(inputs)
    if type(inputs).__module__ == "torch":
        import torch

        # bfloat16 has no array: such an input stays
        return inputs if inputs.dtype is torch.bfloat16 else torch.from_numpy(change(inputs.detach().numpy().copy()))
    return inputs


def _other_numbers(array, generator):
    if array.dtype.kind == "f" or array.dtype.kind == "c":
        with np.errstate(all="ignore"):
            factors = generator.uniform(0.75, 1.33, array.shape)
            changed = np.asarray(array * factors).astype(array.dtype)
        # the limits of the dtype and what would overflow stay
        return np.where(np.isfinite(array) & ~np.isfinite(changed), array, changed)
    if array.dtype.kind in "iu":
        limits, factors = np.iinfo(array.dtype), generator.uniform(0.75, 1.33, array.shape)
        few = (np.abs(array.astype(np.float64)) < 4) | (array == limits.min) | (array == limits.max)
        changed = np.clip(np.rint(array.astype(np.float64) * factors), limits.min, float(limits.max) * (1 - 1e-15))
        return np.where(few, array, changed.astype(array.dtype))
    return array


def _thrice(array, axis):
    return np.concatenate([array] * 3, axis) if array.ndim and -array.ndim <= axis < array.ndim else array


def _cast(array, dtype):
    kinds = "f" if dtype.startswith("float") else "iu"
    with np.errstate(all="ignore"):
        return array.astype(dtype) if array.dtype.kind in kinds else array
