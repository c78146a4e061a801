"""TorchInductor's cache on disk: the location of headers, repair of interrupted builds, and clearing."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from driftline.core.compiler_caches import after_move, is_damaged, remove_all

_SIZE = ".size"  # a file beside a finished build, with its size in bytes


def share_headers() -> None:
    """Keep precompiled C++ headers in the cache of the nursery, where workers find them by links. Inductor puts
    headers into the temporary folder, which costs half a minute in each run."""
    lasting = keep_headers()
    if lasting is None:
        return

    def moved() -> None:
        if own := keep_headers():
            _link_files(lasting, own)

    after_move.append(moved)


def keep_headers() -> Path | None:
    """Keep precompiled headers in the present cache, and return their folder; `None` where Inductor has none."""
    from torch._inductor import codecache

    cache = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    if not cache or not hasattr(codecache, "_HEADER_DIR"):
        return None
    folder = Path(cache) / "precompiled_headers"
    codecache._HEADER_DIR = str(folder)
    codecache._HEADER_LOCK_DIR = str(folder / "locks")
    return folder


def _link_files(source: Path, target: Path) -> None:
    """Make a link below `target` to each file below `source`, but locks, that is not there yet."""
    for path in source.rglob("*"):
        link = target / path.relative_to(source)
        if path.is_file() and path.suffix != ".lock":
            link.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                link.symlink_to(path)


def build_again_what_was_cut() -> None:
    """Have Inductor delete the remains of a killed build of a library or header, under the lock of that build. Inductor
    itself takes every existing file for a finished one."""
    from torch._inductor import codecache

    build = getattr(codecache, "_worker_compile_cpp", None)
    if build is None or hasattr(build, "__wrapped__"):
        return

    @functools.wraps(build)
    def build_whole(lock_path: str, builders: Any, *rest: Any) -> Any:
        from torch.utils._filelock import FileLock

        every = builders if isinstance(builders, Sequence) else (builders,)  # torch 2.7 builds one at a time
        targets = [Path(builder.get_target_file_path()) for builder in every]
        with FileLock(lock_path, timeout=codecache.LOCK_TIMEOUT):
            for target in targets:
                if _is_cut(target):
                    target.unlink()
        result = build(lock_path, builders, *rest)
        with FileLock(lock_path, timeout=codecache.LOCK_TIMEOUT):
            for target in targets:
                _note_size(target)
        return result

    codecache._worker_compile_cpp = build_whole


def in_sound_cache(compile_first: Callable[[], object]) -> None:
    """Compile the first program of a process. If that fails, empty the cache and try again: a damaged entry would stop
    every later process."""
    import torch._dynamo

    try:
        compile_first()
    except Exception:
        cache = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
        if not cache or not remove_all([Path(cache)]):
            raise
        _clear_caches()
        _forget_headers()
        torch._dynamo.reset()
        compile_first()


def _clear_caches() -> None:
    """Clear TorchInductor's in-memory caches; the function has another name in torch 2.7."""
    from torch._inductor import utils

    clear = "clear_caches" if hasattr(utils, "clear_caches") else "clear_inductor_caches"
    getattr(utils, clear)()


def begin_anew() -> None:
    """Forget this process's knowledge of cached code, since the cache is a new empty folder. Headers are not
    precompiled again, which would take longer than a single compilation."""
    import torch._inductor.config

    _clear_caches()
    _forget_headers()
    keep_headers()
    if hasattr(torch._inductor.config, "cpp_cache_precompile_headers"):
        torch._inductor.config.cpp_cache_precompile_headers = False


def _forget_headers() -> None:
    from torch._inductor import codecache

    precompile: Any = getattr(codecache, "_precompile_header", None)
    if forget := getattr(precompile, "cache_clear", None):
        forget()


def _is_cut(target: Path) -> bool:
    if not target.exists():
        return False
    try:
        return target.stat().st_size != int(_beside(target).read_text())
    except (OSError, ValueError):  # built before sizes were noted, or killed before that
        return target.suffix == ".gch" or is_damaged(target)


def _note_size(target: Path) -> None:
    size = _beside(target)
    told = str(target.stat().st_size) if target.exists() else ""
    if not size.exists() or size.read_text() != told:
        part = size.with_name(f"{size.name}.{os.getpid()}")
        part.write_text(told)
        part.replace(size)


def _beside(target: Path) -> Path:
    return target.with_name(target.name + _SIZE)
