"""TorchInductor, through `torch.compile`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from driftline.backends._dynamo import compile_together_with_dynamo, compile_with_dynamo, source_file
from driftline.backends._torch import TorchBackend
from driftline.backends.base import (
    BOOLEAN,
    BOOLEAN_VALUES,
    Availability,
    Backend,
    Behaviour,
    Compiled,
    CompiledTogether,
    CompilerPass,
    Option,
    Options,
    PassTrials,
    Unsupported,
)
from driftline.backends.inductor_cache import begin_anew, build_again_what_was_cut, in_sound_cache, share_headers
from driftline.backends.inductor_options import inductor_config, inductor_settings_text
from driftline.backends.inductor_order import LOOPS_SIDE_BY_SIDE
from driftline.backends.inductor_settings import (
    SETTINGS,
    SETTINGS_WORDS,
    check_config_names,
    check_settings_here,
    vector_widths,
)
from driftline.backends.knobs import Knob
from driftline.backends.loop_settings import INDUCTOR
from driftline.core.errors import DriftlineError
from driftline.core.processor import Processor
from driftline.core.rule import NO_PASS, ONE_PASS
from driftline.core.script_call import ScriptCall
from driftline.core.target import listed
from driftline.core.tensors import Arrays
from driftline.core.text import did_you_mean
from driftline.programs.opened import OpenedProgram


class Inductor(TorchBackend):
    name = "inductor"
    start_seconds = 7.3
    keeps_code = True
    recompiles = True
    family = "inductor"
    own_random = {"fallback_random": "false"}
    threads = True
    devices = ("cpu", "cuda")
    together = 10
    batch = 60
    rungs = ("eager", "aot_eager", "aot_eager_decomp")
    options = {
        "freezing": Option("fold parameters into constants", BOOLEAN, "false"),
        "pattern_matcher": Option("graph rewrite rules", BOOLEAN, "true"),
        "epilogue_fusion": Option("fuse pointwise operations into templates", BOOLEAN, "true"),
        "constant_folding": Option("joint-graph constant folding", BOOLEAN, "true"),
        "max_autotune": Option("search for the fastest kernels", BOOLEAN, "false"),
        "layout": Option("layout optimisation of convolutions", BOOLEAN, "true"),
        "simdlen": Option("vector width in bits; 1 switches vectorisation off", ("1", "128", "256", "512")),
        "fusion_size": Option("largest number of nodes in one kernel", ("1", "8", "64")),
        "shape_padding": Option("pad matrix shapes", BOOLEAN, "true"),
        "dynamic": Option("symbolic shapes", BOOLEAN, "false"),
        "linear_folding": Option("fold arithmetic into the weights of linear layers", BOOLEAN, "false"),
        "conv_bn_eval": Option("rewrite of convolution and batch norm in eval mode", BOOLEAN, "false"),
        "b2b_gemm": Option("fuse two matrix products", BOOLEAN, "false"),
        "partitioned_scatter": Option("split scatters that collide", BOOLEAN, "false"),
        "concat_linear": Option("join linear layers that share an input", BOOLEAN, "false"),
        "fusions": Option("optional fusion passes by name, joined with '+'"),
        "forbid": Option("rewrite rules that must not fire, by id (driftline patterns list), joined with '+'"),
        ONE_PASS: Option("one pass over graphs and no other; none: none of them"),
        "inject_relu_bug": Option("Inductor's own planted bug", ("accuracy", "compile_error", "runtime_error")),
    }

    settings = SETTINGS
    settings_words = SETTINGS_WORDS

    def knobs(self, options: Options) -> list[Knob]:
        # Its planted bug is not a way of doing less.
        return [knob for knob in super().knobs(options) if knob.option != "inject_relu_bug" or not knob.value]

    def validate(self, options: Options, target: str) -> None:
        super().validate(options, target)
        check_config_names(self.name, self.options, self.own_settings(options), target)

    def varied_settings(self, processor: Processor) -> list[Options]:
        found = [options for options in super().varied_settings(processor) if "inject_relu_bug" not in options]
        return [*found, {"cpp_wrapper": "true"}]

    def loop_settings(self) -> tuple[Options, ...]:
        return INDUCTOR

    def check_settings(self, settings: Options) -> None:
        check_settings_here(settings)

    def isa_variants(self, processor: Processor) -> Sequence[Options]:
        return vector_widths(processor)

    def script_calls(self, framework: str, options: Options) -> Sequence[ScriptCall]:
        if framework != "torch" or {"forbid", ONE_PASS} & options.keys():  # rules have no switch of their own
            return ()
        config, dynamic = _settings(options)
        arguments = [f", dynamic={dynamic}"] if dynamic is not None else []
        arguments += [f", options={config!r}"] if config else []
        # It is read while the program is traced, where the `options` of torch.compile are not known.
        setup = ("torch._inductor.config.freezing = True",) if options.get("freezing") == "true" else ()
        return [ScriptCall(f"torch.compile(function{''.join(arguments)})", setup=setup)]

    def settings_text(self, options: Options) -> str:
        return inductor_settings_text(options)

    def warm(self) -> None:
        import torch

        from driftline.backends.inductor_rules.registry import registered

        share_headers()
        build_again_what_was_cut()
        registered()  # hunts ask which rules fire; before the first compilation, to see with what they are registered
        # The first compilation in a process takes seconds too; paid here, every forked worker is spared it.
        with torch.no_grad():
            in_sound_cache(lambda: torch.compile(lambda x: (x.sin() + 1).sum(-1))(torch.ones(2, 8)))
        torch._dynamo.reset()

    def begin_anew(self) -> None:
        begin_anew()

    def probe(self) -> Availability:
        """Import torch and look for the C++ compiler, without compiling anything."""
        found = super().installed()
        if not found.available:
            return found
        from torch._inductor.cpp_builder import get_cpp_compiler

        try:
            get_cpp_compiler()
        except Exception as error:
            reason = f"it finds no C++ compiler ({type(error).__name__}); install g++"
            return Availability(False, found.version, (), reason)
        return Availability(True, self.version(), self.find_devices())

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        import torch
        import torch._inductor.config

        options = _of_one_pass(options)
        config, dynamic = _settings(options)
        # Some settings (freezing) are read while Dynamo traces, which `options` do not reach; later recompilations see
        # the `options` alone.
        with torch._inductor.config.patch(config), _forbidding(options):
            run = compile_with_dynamo(program, "inductor", options, options=config or None, dynamic=dynamic)

        def watched(arrays: Arrays) -> Arrays:
            with _forbidding(options):  # other sizes are compiled anew
                return run(arrays)

        return watched if options.get("forbid") or options.get(ONE_PASS) else run

    def compile_together(
        self, programs: Sequence[OpenedProgram], samples: Sequence[Sequence[Arrays]], options: Options
    ) -> CompiledTogether | None:
        import torch._inductor.config

        if options.get("forbid") or options.get(ONE_PASS):
            return None
        config, dynamic = _settings(options)
        if options.get("device", "cpu") == "cpu":
            config |= LOOPS_SIDE_BY_SIDE
        run = compile_together_with_dynamo(programs, samples, "inductor", options, options=config, dynamic=dynamic)

        def patched(each: Sequence[Arrays]) -> list[Arrays]:
            with torch._inductor.config.patch(config):  # it compiles on the first call
                return run(each)

        return patched

    def knobs_at_work(self, program: OpenedProgram, options: Options) -> list[Knob]:
        """Return the rules that change this program, even if it does not compile."""
        import torch._inductor.config

        from driftline.backends.inductor_rules.describe import described
        from driftline.backends.inductor_rules.recorder import recorder

        config, dynamic = _settings(options)
        forbidden = frozenset(listed(options, "forbid"))
        settings = {**config, "force_disable_caches": True}
        patched, watched = torch._inductor.config.patch(settings), recorder().recording(forbidden)
        with patched, watched as seen, contextlib.suppress(Exception):
            compile_with_dynamo(program, "inductor", options, options=config or None, dynamic=dynamic)
        fired = [name for name, activity in seen.items() if activity.changed or activity.error]
        return [Knob("forbid", rule.id, rule.kind, rule.about, rule.label) for rule in described(fired)]

    def passes(self) -> Sequence[CompilerPass]:
        from driftline.backends.inductor_rules.alone import listed as listed_passes

        return listed_passes()

    def pass_trials(self, program: OpenedProgram) -> PassTrials:
        return _InductorTrials(self, program)

    @contextlib.contextmanager
    def watching(self) -> Iterator[Behaviour]:
        import torch._functorch.config
        import torch._inductor.config

        from driftline.backends.inductor_rules.recorder import recorder

        # A graph that comes out of a cache goes through no rule, and would seem to fire none.
        with (
            torch._inductor.config.patch(fx_graph_cache=False),
            torch._functorch.config.patch(enable_autograd_cache=False),
            recorder().recording(thorough=False) as activity,
        ):
            yield lambda program: sorted(
                rule for rule, one in activity.items() if one.changed and source_file(program) in one.files
            )


class _InductorTrials(PassTrials):
    """Finds which passes change a program, in one compilation with all of them."""

    def __init__(self, backend: Backend, program: OpenedProgram) -> None:
        super().__init__(backend, program)
        self._fired: frozenset[str] | None = None

    def changes(self, name: str) -> bool:
        from driftline.backends.inductor_rules.alone import all_needed, graph_passes

        if self._fired is None:
            self._fired = frozenset(knob.value for knob in self.backend.knobs_at_work(self.program, all_needed()))
        return bool(graph_passes()[name].rules & self._fired)


def _of_one_pass(options: Options) -> Options:
    """Return the options completed with those that their single pass needs to run."""
    if not options.get(ONE_PASS):
        return options
    from driftline.backends.inductor_rules.alone import graph_passes, needed_options

    name = options[ONE_PASS]
    if name != NO_PASS and name not in graph_passes():
        raise Unsupported(f"there is no pass {name!r}.{did_you_mean(name, graph_passes())} See driftline passes list")
    rest = {key: value for key, value in options.items() if key != ONE_PASS}
    return {**needed_options(name), **rest, ONE_PASS: name}


@contextlib.contextmanager
def _forbidding(options: Options) -> Iterator[None]:
    """Forbid the rules of the option `forbid` inside the block; with a single pass, all rules but its own."""
    names = frozenset(listed(options, "forbid"))
    if name := options.get(ONE_PASS):
        from driftline.backends.inductor_rules.alone import forbidden_beside

        names |= forbidden_beside(name)
    if not names:
        yield
        return
    import torch._inductor.config

    from driftline.backends.inductor_rules.outside import outside_rules
    from driftline.backends.inductor_rules.recorder import recorder
    from driftline.backends.inductor_rules.registry import registered

    known = [*(each.rule.id for each in registered()), *(rule.id for rule in outside_rules())]
    for name in names.difference(known):
        raise DriftlineError(f"forbid={name}: there is no such rule.{did_you_mean(name, known)}")
    # Compiled code is kept by the program and the configuration, to which the forbidden rules do not belong.
    with recorder().recording(names), torch._inductor.config.patch(force_disable_caches=True):
        yield


def _settings(options: Options) -> tuple[dict[str, object], bool | None]:
    return inductor_config(options), BOOLEAN_VALUES.get(options.get("dynamic", ""))
