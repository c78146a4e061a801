"""The generator `graph`: typed random programs, built forwards from the operator table.

Each step applies an operator to an existing value; its further inputs are existing values or new leaves of exactly the
right type. So every step succeeds, and no constraints need to be solved.

The first programs of an arm are its operator alone, one for each dtype; dtypes that a target does not support there are
avoided in the longer programs that follow.
"""

from __future__ import annotations

import contextlib
import random
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from driftline.generate.base import Blueprint, Generator, GeneratorRequest, NoProgram
from driftline.generate.blueprint import LANGUAGE, blueprint, emit
from driftline.generate.graph import Graph, Leaf, Node, TensorType, value_name
from driftline.generate.operator import FLOATS, Draw, Invalid, LargeDraw, Need, Operator
from driftline.generate.table import OPERATORS
from driftline.generate.transforms import drawn_transform

MOST_ELEMENTS = 4096
MOST_OF_LARGE = 1 << 16  # elements of a value, in programs with a long axis
LARGE_SHARE = 0.12  # of the longer programs
LONGEST_OF_LARGE = 4  # operators
MOST_RESULTS = 64  # of one operator
GROWTH = 2  # how much larger the other size of a program is
_LENGTHS = (1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 10, 10, 12, 15)
_WEIGHTS = {
    "float32": 40, "float64": 12, "float16": 10, "bfloat16": 8, "int64": 9, "int32": 7, "int16": 3, "int8": 4,
    "uint8": 4, "uint16": 2, "uint32": 2, "uint64": 2, "bool": 4, "complex64": 2, "complex128": 1,
}  # fmt: skip


class RandomGraph(Generator):
    name = "graph"
    needs_framework = False

    def arms(self, form: str) -> Sequence[str]:
        language = LANGUAGE[form]
        return [name for name, operator in OPERATORS.items() if operator.form(language)]

    def make(self, request: GeneratorRequest) -> Blueprint:
        return varied(drawn_transform(random_graph(request), request), request.form)


def random_graph(request: GeneratorRequest, length: int = 0) -> Graph:
    """Return the graph of a request. `length` fixes the number of operators."""
    language = LANGUAGE[request.form]
    rng = random.Random(f"{request.seed}/{request.form}/{request.arm}/{request.number}")
    operator = OPERATORS[request.arm]
    form = operator.form(language)
    if form is None:
        raise NoProgram(f"{request.arm} has no form in {language}")
    alone = request.number < len(form.dtypes) and not length
    large = not alone and not length and _is_large(request)
    builder = GraphBuilder(language, rng, request.avoid, LargeDraw(rng) if large else None)
    builder.grad &= not operator.inplace
    dtypes = [dtype for dtype in form.dtypes if f"{operator.name} {dtype}" not in request.avoid]
    if not dtypes:
        raise NoProgram(f"{request.arm} is not supported in any dtype")
    if alone:
        builder.add_alone(operator, form.dtypes[request.number])
        return builder.finish()
    length = length or min(builder.draw.choice(_LENGTHS), LONGEST_OF_LARGE if large else max(_LENGTHS))
    turn = builder.draw.integer(0, length - 1)  # when the operator that this is about has its turn
    for step in range(length):
        if step == turn:
            builder.add_focus(operator, dtypes)
        else:
            builder.add_any()
    return builder.finish()


def _is_large(request: GeneratorRequest) -> bool:
    """True for about one request in eight. Drawn from its own seed, so that the other programs of a seed do not
    change."""
    return random.Random(f"{request.seed}/{request.arm}/{request.number}/large").random() < LARGE_SHARE


def graph_of(names: Sequence[str], request: GeneratorRequest) -> Graph:
    """Return a graph of these operators, in order, each applied to an existing value if one fits. Operators that find
    no use are left out."""
    language = LANGUAGE[request.form]
    rng = random.Random(f"{request.seed}/{request.form}/{request.arm}/{request.number}/{names}")
    builder = GraphBuilder(language, rng, request.avoid)
    builder.grad = False
    for name in names:
        form = OPERATORS[name].form(language)
        with contextlib.suppress(NoProgram):
            builder.add_focus(OPERATORS[name], form.dtypes if form else ())
    return builder.finish()


def drawn_graph(
    names: Sequence[str], form: str, draw: Draw, *, dtypes: Collection[str] = (), grad: bool = False
) -> Graph:
    """Return a graph of these operators, in order, with all choices made by `draw`. New inputs are contiguous and have
    one of `dtypes`. Raises `NoProgram` if an operator finds no use."""
    language = LANGUAGE[form]
    builder = GraphBuilder(language, draw.rng, frozenset(), draw, grad=grad, layout="contiguous")
    for name in names:
        operator = OPERATORS[name]
        written = operator.form(language)
        builder.add_focus(operator, [d for d in written.dtypes if d in dtypes or not dtypes] if written else ())
    return builder.finish()


@cache
def _by_dtype(language: str) -> Mapping[str, list[Operator]]:
    """Return the operators that accept a first input of each dtype."""
    table: dict[str, list[Operator]] = defaultdict(list)
    for operator in OPERATORS.values():
        form = operator.form(language)
        for dtype in form.dtypes if form else ():
            table[dtype].append(operator)
    return table


@dataclass
class _Value:
    type: TensorType
    leaf: Leaf | None = None
    node: int = -1  # which node made it
    writable: bool = True  # may an operation overwrite it?
    memory: int = -1  # the value whose memory this one lies in
    used: bool = False


class GraphBuilder:
    """A graph under construction. Values are numbered in the order of their creation."""

    def __init__(
        self,
        language: str,
        rng: random.Random,
        avoid: frozenset[str],
        draw: Draw | None = None,
        *,
        grad: bool | None = None,
        layout: str = "",
    ) -> None:
        """`layout` is the memory layout of inputs where possible. It and `grad` are drawn at random if not given."""
        self.language = language
        self.draw = draw or Draw(rng)
        self.layout = layout
        self.avoid = avoid
        self.large = isinstance(draw, LargeDraw)
        self.grad = language == "torch" and rng.random() < 0.15 if grad is None else grad
        self.values: list[_Value] = []
        self.nodes: list[tuple[Operator, tuple[int, ...], tuple[TensorType, ...], dict[str, object]]] = []

    # -- steps -------------------------------------------------------------------------------------------------------

    def add_alone(self, operator: Operator, dtype: str) -> None:
        """Add this operator on a new leaf of the dtype. Raises `NoProgram` if no valid use is found."""
        for _ in range(20):
            first = self._new_first(operator, (dtype,))
            if self._apply(operator, first) and self._is_laid_out():
                return
            self.values.clear()
            self.nodes.clear()
        raise NoProgram(f"{operator.name} found no valid use")

    def _is_laid_out(self) -> bool:
        """True if no layout is requested, or an input has it."""
        return not self.layout or any(value.leaf and value.leaf.layout == self.layout for value in self.values)

    def add_focus(self, operator: Operator, dtypes: Sequence[str]) -> None:
        """Apply this operator to a value that fits, or to a new leaf. Raises `NoProgram` if no valid use is found."""
        fitting = [n for n, v in enumerate(self.values) if v.type.dtype in dtypes and self._may_take(operator, v)]
        for _ in range(20):
            old = bool(fitting) and self.draw.chance(0.8)
            if self._apply(operator, self.draw.choice(fitting) if old else self._new_first(operator, dtypes)):
                return
        raise NoProgram(f"{operator.name} found no valid use")

    def add_any(self) -> None:
        """Apply a random operator to a random value. Adds nothing after many failures."""
        if not self.values:
            self._new_leaf(Need(self._new_type()))
        for _ in range(30):
            # Prefer recent values: compilers fuse long chains.
            last = len(self.values) - 1
            number = last - min(int(self.draw.rng.expovariate(0.5)), last)
            operators = _by_dtype(self.language).get(self.values[number].type.dtype)
            if not operators:
                self._new_leaf(Need(self._new_type()))
                continue
            operator = self.draw.choice(operators)
            value = self.values[number]
            avoided = f"{operator.name} {value.type.dtype}" in self.avoid
            if not avoided and self._may_take(operator, value) and self._apply(operator, number):
                return

    def begin(self, operator: Operator, dtypes: Sequence[str]) -> None:
        """Apply this operator to a new leaf. Raises `NoProgram` if no valid use is found."""
        for _ in range(20):
            mark = self.mark()
            if self._apply(operator, self._new_first(operator, dtypes)):
                return
            self.undo(mark)
        raise NoProgram(f"{operator.name} found no valid use")

    def apply_to_last(self, operator: Operator) -> bool:
        """Apply this operator to the last result. Returns False if that is not possible."""
        last = len(self.values) - 1
        value = self.values[last]
        if f"{operator.name} {value.type.dtype}" in self.avoid or not self._may_take(operator, value):
            return False
        return any(self._apply(operator, last) for _ in range(4))

    def mark(self) -> tuple[int, tuple[bool, ...]]:
        """Return the state that `undo` goes back to."""
        return len(self.nodes), tuple(value.used for value in self.values)

    def undo(self, mark: tuple[int, tuple[bool, ...]]) -> None:
        """Remove everything that was added after `mark`."""
        nodes, used = mark
        del self.nodes[nodes:]
        del self.values[len(used) :]
        for value, was in zip(self.values, used, strict=True):
            value.used = was

    def _may_take(self, operator: Operator, value: _Value) -> bool:
        if operator.first_values != "any" and (value.leaf is None or value.leaf.values != operator.first_values):
            return False
        if operator.inplace and (not value.writable or self.grad):
            return False
        return operator.takes(self.language, value.type)

    def _apply(self, operator: Operator, first: int) -> bool:
        """Apply an operator to a value, and to further inputs that are found or made. Returns False if they do not
        fit."""
        drawn = self.values[first].type
        if operator.inplace and (self.grad or not self.values[first].writable):
            return False
        if operator.name in UNROLLED and max(drawn.shape, default=0) > MOST_RESULTS:
            return False
        saved = len(self.values)
        try:
            needs, attributes = operator.draw(self.draw, drawn)
            inputs = (first, *(self._find(need) for need in needs))
            types = [self.values[number].type for number in inputs]
            results = tuple(operator.infer(types, attributes))
        except Invalid:
            results = ()
        if not results or not self._may_result(operator, inputs, results):
            del self.values[saved:]
            return False
        self._add_node(operator, inputs, results, attributes)
        return True

    def _may_result(self, operator: Operator, inputs: Sequence[int], results: Sequence[TensorType]) -> bool:
        """True if the results are not too many or too large, and no operator writes to memory that it reads."""
        memory = self.values[inputs[0]].memory
        if operator.inplace and any(self.values[number].memory == memory for number in inputs[1:]):
            return False  # torch raises an error
        most = MOST_OF_LARGE if self.large else MOST_ELEMENTS
        return len(results) <= MOST_RESULTS and all(result.size <= most and result.rank <= 6 for result in results)

    def _add_node(
        self,
        operator: Operator,
        inputs: tuple[int, ...],
        results: tuple[TensorType, ...],
        attributes: dict[str, object],
    ) -> None:
        for number in inputs:
            self.values[number].used = True
        first = self.values[inputs[0]]
        writable = stays_writable(operator, first.type, results[0], first.writable)
        shares = operator.view or operator.inplace
        for result in results:
            own = len(self.values)
            self.values.append(
                _Value(result, node=len(self.nodes), writable=writable, memory=first.memory if shares else own)
            )
        self.nodes.append((operator, inputs, results, attributes))

    # -- leaves ------------------------------------------------------------------------------------------------------

    def _find(self, need: Need) -> int:
        """Return a value of this type, or a new leaf."""
        if need.values == "any" and not need.prefer and self.draw.chance(0.6):
            same = [number for number, value in enumerate(self.values) if value.type == need.type]
            if same:
                return self.draw.choice(same)
        return self._new_leaf(need)

    def _new_first(self, operator: Operator, dtypes: Sequence[str]) -> int:
        dtype = self.draw.rng.choices(dtypes, [_WEIGHTS.get(dtype, 1) for dtype in dtypes])[0]
        low, high = operator.rank
        for _ in range(50):
            made = TensorType(dtype, self.draw.shape(low, min(high, max(low, 4))))
            if operator.takes(self.language, made):
                return self._new_leaf(Need(made, operator.first_values), as_input=True)
        raise NoProgram(f"no shape found for {operator.name}")

    def _new_type(self) -> TensorType:
        known = [dtype for dtype in _WEIGHTS if dtype in _by_dtype(self.language)]
        dtype = self.draw.rng.choices(known, [_WEIGHTS[dtype] for dtype in known])[0]
        return TensorType(dtype, self.draw.shape())

    def _new_leaf(self, need: Need, as_input: bool = False) -> int:
        kind = "input"
        if not as_input and any(value.leaf and value.leaf.kind == "input" for value in self.values):
            likely = 0.7 if need.prefer == "parameter" else 0.2
            if self.draw.chance(likely):
                trainable = need.type.dtype in FLOATS and self.draw.chance(0.7)
                kind = "parameter" if trainable else "constant"
        if need.prefer == "constant" and self.grad:
            kind = "constant"
        layout = self._layout(need) if kind == "input" and self.language == "torch" else "contiguous"
        leaf = Leaf(kind, need.type, need.values, layout, self.draw.integer(0, 999))
        number = len(self.values)
        memory = self.values[int(layout[6:])].memory if layout.startswith("alias:") else number
        self.values.append(_Value(need.type, leaf, writable=may_be_written(leaf), memory=memory))
        return number

    def _layout(self, need: Need) -> str:
        """Choose the memory layout of an input: the requested one if possible, else usually contiguous."""
        if self.layout:
            return self.layout if self.layout in self._layouts(need) else "contiguous"
        options = self._layouts(need) if self.draw.chance(0.15) else []
        return self.draw.choice(options) if options else "contiguous"

    def _layouts(self, need: Need) -> list[str]:
        """Return the non-contiguous layouts that an input may have."""
        shape = need.type.shape
        if not need.type.size or need.values != "any":
            return []
        options = []
        if len(shape) >= 2:
            options.append("transposed")
        if len(shape) >= 1:
            options.append("strided")
        if len(shape) >= 1 and shape[0] > 1 and not self.grad:
            options.append("expanded")
        if len(shape) == 2 and not self.grad:
            options.append("overlapping")
        if not self.grad:
            for number, value in enumerate(self.values):
                base = value.leaf
                if base is None or base.kind != "input" or base.layout != "contiguous" or base.values != "any":
                    continue
                if base.type.dtype == need.type.dtype and base.type.size >= need.type.size:
                    options.append(f"alias:{number}")  # renumbered in `finish`
        return options

    # -- the end -----------------------------------------------------------------------------------------------------

    def finish(self) -> Graph:
        """Return the graph, renumbered with the leaves first, with outputs chosen."""
        leaves = [number for number, value in enumerate(self.values) if value.leaf]
        results = [number for number, value in enumerate(self.values) if not value.leaf]
        new = {old: at for at, old in enumerate([*leaves, *results])}
        returned = self._choose_returned(leaves, results)
        nodes = [
            Node(operator.name, tuple(new[number] for number in inputs), types, attributes)
            for operator, inputs, types, attributes in self.nodes
        ]
        made = [_renumbered(self.values[number].leaf, new) for number in leaves]
        outputs = tuple(dict.fromkeys(new[number] for number in returned))
        grad = self.grad and any(leaf.kind != "constant" and leaf.type.dtype in FLOATS for leaf in made)
        grad = grad and any(operator.differentiable for operator, *_ in self.nodes)
        return Graph(tuple(made), tuple(nodes), outputs, grad).without_unused_leaves()

    def _choose_returned(self, leaves: Sequence[int], results: Sequence[int]) -> list[int]:
        """Choose the results that nothing uses, and now and then another result and an input."""
        returned = [number for number in results if not self.values[number].used]
        if not returned:
            raise NoProgram("nothing was applied")
        if self.draw.chance(0.15):
            returned.append(self.draw.choice(results))
        if self.draw.chance(0.1):
            returned.append(self.draw.choice([n for n in leaves if self.values[n].leaf.kind == "input"]))  # type: ignore[union-attr]
        return returned


UNROLLED = ("lstm_sequence", "gru_sequence", "rnn_tanh_sequence")  # compilers write their steps out, one by one
_STRETCHING = ("as_strided", "unfold", "expand", "broadcast_to")


def may_be_written(leaf: Leaf) -> bool:
    """True if a program may overwrite the leaf: an input whose elements do not share memory. Weights may not be
    overwritten."""
    return leaf.kind == "input" and leaf.layout not in ("expanded", "overlapping")


def stays_writable(operator: Operator, first: TensorType, result: TensorType, before: bool) -> bool:
    """True if the result of an operator may be overwritten. For a view: if its base may, and the view is not
    expanded."""
    stretched = operator.view and (result.size > first.size or operator.name in _STRETCHING)
    return not stretched and (before or not operator.view)


def _renumbered(leaf: Leaf | None, new: Mapping[int, int]) -> Leaf:
    assert leaf
    if leaf.layout.startswith("alias:"):
        return replace(leaf, layout=f"alias:{new[int(leaf.layout[6:])]}")
    return leaf


def varied(graph: Graph, form: str) -> Blueprint:
    """Return the program. If it is valid at another size too, it is sometimes compiled once and run at both sizes."""
    rng = random.Random(repr(graph))
    inputs = [graph.leaves[number] for number in graph.inputs]
    fixed = {size for leaf in graph.leaves if leaf.kind != "input" for size in leaf.type.shape}
    sizes = sorted({size for leaf in inputs for size in leaf.type.shape if size > 4 and size not in fixed})
    plain = not graph.grad and all(leaf.layout == "contiguous" for leaf in inputs)
    if plain and sizes and rng.random() < 0.3:
        old = rng.choice(sizes)
        grown = resized(graph, old, old + GROWTH)
        if grown is not None and _same_text(replace(graph, varying=old), replace(grown, varying=old + GROWTH), form):
            shapes = {value_name(grown, number): grown.leaves[number].type.shape for number in grown.inputs}
            return blueprint(replace(graph, varying=old), form, (shapes,))
    return blueprint(graph, form)


def _same_text(graph: Graph, other: Graph, form: str) -> bool:
    """True if the program's text is the same at both sizes. Some operators contain sizes, as `expand` does."""
    texts = [emit(one, form) for one in (graph, other)]
    if isinstance(texts[0], bytes):
        return texts[0] == texts[1]
    return len({str(text).partition("def program")[0] for text in texts}) == 1


def resized(graph: Graph, old: int, new: int, most: int | None = None) -> Graph | None:
    """Return the graph with one size of its inputs replaced by another; None if it is then invalid, or has a value of
    more than `most` elements."""
    limit = most_elements(graph) if most is None else most
    leaves = tuple(
        replace(leaf, type=leaf.type.with_shape(new if size == old else size for size in leaf.type.shape))
        if leaf.kind == "input"
        else leaf
        for leaf in graph.leaves
    )
    types = [leaf.type for leaf in leaves]
    nodes = []
    for node in graph.nodes:
        try:
            results = tuple(OPERATORS[node.op].infer([types[number] for number in node.inputs], node.attributes))
        except (Invalid, IndexError, KeyError, TypeError, ValueError):
            return None
        if any(result.size > limit for result in results):
            return None
        types.extend(results)
        nodes.append(replace(node, outputs=results))
    return replace(graph, leaves=leaves, nodes=tuple(nodes))


def most_elements(graph: Graph) -> int:
    """Return how many elements a value may have when this graph is changed."""
    return MOST_OF_LARGE if any(kind.size > MOST_ELEMENTS for kind in graph.types()) else MOST_ELEMENTS
