"""Show in a script that compile time or memory grows faster than the program. The script starts itself once for each
size and prints the cost of compiling that many copies of the program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from driftline.report.scripts.recipe import Check

# What a program returned, whatever it is packed into. Without braces: it is a part of texts that are formatted.
TENSORS = """\
def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    values = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    return [found for one in values for found in tensors(one)]
"""
REPEATED = f'''\
{TENSORS}

class Repeated(torch.nn.Module):
    """The program so many times: each copy takes the result of the one before, or they stand side by side."""

    def __init__(self, function, inputs, copies):
        super().__init__()
        self.function, self.copies = function, copies
        with torch.no_grad():
            result = tensors(function(*(x.clone() for x in inputs)))[0]
        alike = (at for at, x in enumerate(inputs) if x.shape == result.shape and x.dtype == result.dtype)
        self.place = next(alike, None)

    def forward(self, *inputs):
        inputs, results = list(inputs), []
        for copy in range(self.copies):
            if self.place is None:
                results += tensors(self.function(*(x + copy if x.is_floating_point() else x for x in inputs)))
            else:
                results = tensors(self.function(*inputs))
                inputs[self.place] = results[0]
        return tuple(results)
'''
# Of an ONNX model without subgraphs, one of whose inputs takes its result.
REPEATED_MODEL = '''\
def repeated_model(model, place, copies):
    """The model so many times in a row: the input `place` of each copy is the result of the one before."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    del made.graph.node[:], made.graph.value_info[:], made.graph.output[1:]
    own, names = {name for node in model.graph.node for name in node.output if name}, {}
    for copy in range(copies):
        given = {place: names[model.graph.output[0].name]} if names else {}
        names = {name: f"{name}__{copy}" for name in own}
        for node in model.graph.node:
            copied = made.graph.node.add()
            copied.CopyFrom(node)
            copied.name = ""
            copied.input[:] = [{**names, **given}.get(name, name) for name in node.input]
            copied.output[:] = [names.get(name, name) for name in node.output]
    result = made.graph.output[0]
    result.name = names[result.name]
    for at, size in enumerate(result.type.tensor_type.shape.dim):
        if not size.dim_value:
            size.dim_param = f"size{at}"  # another one than that of the input
    return made
'''
_MEASURED = '''\
def used():
    """CPU seconds, those of compilers that were started included, and the most MiB so far."""
    return sum(os.times()[:4]), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(copies):
    """CPU seconds and MiB of compiling so many copies, in a process of its own."""
    ran = subprocess.run([sys.executable, __file__, str(copies)], stdout=subprocess.PIPE, text=True, check=True)
    return [float(word) for word in ran.stdout.split()[-2:]]


def exponent(sizes, values):
    """With which values grow over the larger sizes, less what the smallest needs."""
    grown = [(size - sizes[0], max(value - values[0], 1e-9)) for size, value in zip(sizes, values)]
    (size, value), (last, most) = grown[-3], grown[-1]
    return math.log(most / value) / math.log(last / size)
'''


@dataclass(frozen=True)
class Compiling:
    """The parts of a script that repeats a program and compiles it: a definition, lines that run before measuring (they
    use `copies`), and an expression that compiles and runs the program once.
    """

    definition: str
    prepare: tuple[str, ...]
    compile: str


def growth_check(compiling: Compiling, sizes: Mapping[int, int], *, memory: bool, limit: float, least: float) -> Check:
    """Return the end of the script. `sizes` maps numbers of nodes to numbers of copies. If the largest size needs less
    than `least` seconds or MiB, no bug is reported.
    """
    what, unit, place = ("memory", "MiB", 1) if memory else ("CPU time", "s", 0)
    lines = [
        "if len(sys.argv) > 1:",
        "    copies = int(sys.argv[1])",
        *(f"    {line}" for line in compiling.prepare),
        "    began, before = used()",
        f"    {compiling.compile}",
        "    ended, after = used()",
        "    print(ended - began, after - before)",
        "    sys.exit()",
        f"nodes, found = {list(sizes)}, [measured(copies) for copies in {list(sizes.values())}]",
        "for count, (seconds, mib) in zip(nodes, found):",
        '    print(f"{count} nodes: {seconds:.2f} s of CPU time, {mib:.0f} MiB to compile")',
        f"values = [one[{place}] for one in found]",
        "power = exponent(nodes, values)",
        f'bug = f"BUG: {what} grows as nodes^{{power:.2f}}, to {{values[-1]:.1f}} {unit}"',
        f"sys.exit(bug if power > {limit:g} and values[-1] > {least:g} else 0)",
    ]
    imports = ("import math", "import onnx", "import os", "import resource", "import subprocess", "import sys")
    return Check(imports, (compiling.definition, _MEASURED), tuple(lines))
