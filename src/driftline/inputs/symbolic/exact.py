"""Step 4: the exact solver Bitwuzla. Functions such as exp are refined lazily: where the solver's model of one is
wrong, the true value is added."""

from __future__ import annotations

import numpy as np

from driftline.inputs.symbolic.answers import UNKNOWN, Clock, SolverAnswer, SolverOutcome, confirms
from driftline.inputs.symbolic.evaluate import evaluate_order
from driftline.inputs.symbolic.goals import GoalKind, Query
from driftline.inputs.symbolic.smt import Encoding, UnsupportedQuery

STEP = "bitwuzla"
LARGEST = 400  # nodes; beyond that no answer comes in time


def available() -> bool:
    try:
        import bitwuzla  # noqa: F401
    except ImportError:
        return False
    return True


def solve_exactly(query: Query, left: Clock) -> SolverAnswer:
    """Return a witness, a proof, or UNKNOWN if the time runs out or the query is not supported."""
    if query.goal.kind is GoalKind.ERROR or len(query.order) > LARGEST or not available():
        return UNKNOWN
    try:
        encoding = Encoding(query)
    except UnsupportedQuery:
        return UNKNOWN
    while left() > 0:
        status, patterns = ask_bitwuzla(encoding, left)
        if status == "unsat":
            return SolverAnswer(SolverOutcome.PROOF, STEP) if encoding.proves else UNKNOWN
        if status != "sat":
            return UNKNOWN
        numbers = {node.name: node.format.of_bits(patterns[encoding.bits(node)]) for node in query.variables}
        if confirms(query, numbers):
            return SolverAnswer(SolverOutcome.WITNESS, STEP, numbers)
        if not refine(encoding, numbers):
            return UNKNOWN
    return UNKNOWN


def refine(encoding: Encoding, numbers: dict[str, float]) -> bool:
    """Add the true value of every function at the arguments that it has for these inputs. Returns False if nothing new
    was added."""
    query = encoding.query
    given = {node.name: np.asarray([numbers[node.name]], node.format.carrier) for node in query.variables}
    values = evaluate_order(query.order, given)
    told = False
    for node in encoding.functions:
        at = float(np.ravel(values[node.args[0]])[0])
        before = len(encoding.lines)
        if np.isfinite(at):
            encoding.add_point(node, at)
        told = told or len(encoding.lines) > before
    return told


def ask_bitwuzla(encoding: Encoding, left: Clock) -> tuple[str, dict[str, int]]:
    """Return `sat` with the bit patterns of the variables, `unsat`, or `unknown` if the time ran out."""
    import bitwuzla

    options = bitwuzla.Options()
    options.set(bitwuzla.Option.PRODUCE_MODELS, True)
    parser = bitwuzla.Parser(bitwuzla.TermManager(), options)
    parser.parse(encoding.text(), True, False)
    solver = parser.bitwuzla()
    solver.configure_terminator(lambda: left() <= 0)
    result = solver.check_sat()
    if result == bitwuzla.Result.SAT:
        wanted = {encoding.bits(node) for node in encoding.query.variables}
        declared = {term.symbol(): term for term in parser.get_declared_funs()}
        return "sat", {name: int(solver.get_value(declared[name]).value(10)) for name in wanted}
    return ("unsat" if result == bitwuzla.Result.UNSAT else "unknown"), {}
