"""TensorFlow forms of operators that select elements: by indices, by order, by position in a matrix."""

from __future__ import annotations

from collections.abc import Mapping

from driftline.generate.operator import Text, Use
from driftline.generate.tf_forms.words import with_axis_last


def _wrapped(u: Use) -> str:
    """Write a gather that counts negative indices from the front, since TensorFlow does not accept them."""
    x, index = u.inputs
    size = u.types[0].shape[u["axis"]]
    return f"tf.gather({x}, tf.where({index} < 0, {index} + {size}, {index}), axis={u['axis']})"


def _gather_nd(u: Use) -> str:
    x, index = u.inputs
    sizes = list(u.types[0].shape[: u.types[1].shape[-1]])
    return f"tf.gather_nd({x}, tf.where({index} < 0, {index} + {sizes}, {index}))"


def _scatter(name: str) -> Text:
    """Return a form that turns indices into rows of coordinates."""

    def emit(u: Use) -> str:
        axis, shape = u["axis"] % u.types[0].rank, list(u.types[1].shape)
        places = []
        for at, size in enumerate(shape):
            along = [size if other == at else 1 for other in range(len(shape))]
            steps = f"tf.reshape(tf.range({size}, dtype={u.inputs[1]}.dtype), {along})"
            places.append(u.inputs[1] if at == axis else f"tf.broadcast_to({steps}, {shape})")
        return f"tf.tensor_scatter_nd_{name}({u.inputs[0]}, tf.stack([{', '.join(places)}], -1), {u.inputs[2]})"

    return emit


def _rows(name: str) -> Text:
    """Return a form that writes rows along any axis, by transposing: TensorFlow writes along the first axis."""

    def emit(u: Use) -> str:
        x, index, rows = u.inputs
        return _along_first(u, f"tf.tensor_scatter_nd_{name}({{x}}, tf.expand_dims({index}, 1), {{rows}})", x, rows)

    return emit


def _fill(u: Use) -> str:
    """Write a fill with a mask: an index may occur twice, for which TensorFlow's scatter is undefined."""
    x, index = u.inputs
    axis, shape = u["axis"] % u.types[0].rank, u.types[0].shape
    along = [size if at == axis else 1 for at, size in enumerate(shape)]
    places = f"tf.expand_dims(tf.range({shape[axis]}, dtype={index}.dtype), 1)"
    mask = f"tf.reshape(tf.reduce_any(tf.equal({places}, {index}), 1), {along})"
    return f"tf.where({mask}, tf.constant({u['value']}, {x}.dtype), {x})"


def _along_first(u: Use, text: str, x: str, rows: str) -> str:
    axis, rank = u["axis"] % u.types[0].rank, u.types[0].rank
    if not axis:
        return text.format(x=x, rows=rows)
    front = [axis, *(other for other in range(rank) if other != axis)]
    back = [front.index(at) for at in range(rank)]
    inside = text.format(x=f"tf.transpose({x}, {front})", rows=f"tf.transpose({rows}, {front})")
    return f"tf.transpose({inside}, {back})"


def _diagonal(u: Use) -> str:
    one, other, rank = u["one"], u["other"], u.types[0].rank
    order = [*(axis for axis in range(rank) if axis not in (one, other)), one, other]
    return f"tf.linalg.diag_part(tf.transpose({u.inputs[0]}, {order}), k={u['offset']})"


def _triangle(lower: bool) -> Text:
    """Return a form of a triangle: a band from the diagonal, or a mask if the triangle does not contain the
    diagonal."""

    def emit(u: Use) -> str:
        x, diagonal = u.inputs[0], u["diagonal"]
        rows, columns = u.types[0].shape[-2:]
        if lower and diagonal >= 0:
            return f"tf.linalg.band_part({x}, -1, {min(diagonal, columns)})"
        if not lower and diagonal <= 0:
            return f"tf.linalg.band_part({x}, {min(-diagonal, rows)}, -1)"
        mask = f"np.tri({rows}, {columns}, {diagonal if lower else diagonal - 1}, dtype=bool)"
        kept, left = (x, f"tf.zeros_like({x})") if lower else (f"tf.zeros_like({x})", x)
        return f"tf.where({mask}, {kept}, {left})"

    return emit


def _direction(u: Use) -> str:
    return "direction='DESCENDING'" if u["descending"] else "direction='ASCENDING'"


def _argsort(u: Use) -> str:
    return f"tf.cast(tf.argsort({u.inputs[0]}, {u['axis']}, {_direction(u)}, stable=True), tf.int64)"


def _sort(u: Use) -> str:
    return f"tf.sort({u.inputs[0]}, {u['axis']}, {_direction(u)}), {_argsort(u)}"


def _topk(u: Use) -> str:
    if u["largest"]:
        return with_axis_last(u, f"tf.math.top_k({{x}}, {u['k']})[0]")
    return "-" + with_axis_last(u, f"tf.math.top_k(-{{x}}, {u['k']})[0]")


def _place(name: str, last: bool = False) -> Text:
    """Return a form that finds the first of equal elements, or the last."""

    def emit(u: Use) -> str:
        x, axis = u.inputs[0], u["axis"]
        made = f"tf.{name}({f'tf.reverse({x}, [{axis}])' if last else x}, {axis})"
        if last:
            made = f"{u.types[0].shape[axis] - 1} - {made}"
        return f"tf.expand_dims({made}, {axis})" if u["keepdim"] else made

    return emit


def _bucketize(u: Use) -> str:
    x, shape = u.inputs[0], list(u.types[0].shape)
    bounds = f"tf.constant({list(u['bounds'])}, {x}.dtype)"
    side = "right" if u["right"] else "left"
    found = f"tf.searchsorted({bounds}, tf.reshape({x}, [-1]), side={side!r}, out_type=tf.int64)"
    return f"tf.reshape({found}, {shape})"


TEXTS: Mapping[str, Text] = {
    "gather": "tf.experimental.numpy.take_along_axis({0}, {1}, axis={axis})",
    "index_select": "tf.gather({0}, {1}, axis={axis})",
    "index_wrapped": _wrapped,
    "embedding": "tf.nn.embedding_lookup({0}, {1})",
    "take": "tf.gather(tf.reshape({0}, [-1]), {1})",
    "gather_nd": _gather_nd,
    "scatter": _scatter("update"),
    "scatter_add": _scatter("add"),
    "scatter_amax": _scatter("max"),
    "scatter_amin": _scatter("min"),
    "index_add": _rows("add"),
    "index_copy": _rows("update"),
    "index_put": _rows("update"),
    "index_fill": _fill,
    "one_hot": "tf.one_hot({0}, {depth}, dtype=tf.int64)",
    "diagonal": _diagonal,
    "diag": "tf.linalg.diag({0}, k={offset})",
    "tril": _triangle(lower=True),
    "triu": _triangle(lower=False),
    "sort": _sort,
    "argsort": _argsort,
    "msort": "tf.sort({0}, 0)",
    "topk": _topk,
    "argmax": _place("argmax"),
    "argmin": _place("argmin"),
    "last_argmax": _place("argmax", last=True),
    "last_argmin": _place("argmin", last=True),
    "bucketize": _bucketize,
}
