"""The machine and options to compile for: `Target("llvm -mcpu=cascadelake -num-cores=4")`."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from contextvars import ContextVar
from functools import cached_property
from typing import Any, ClassVar, Final

from codegen.errors import TargetError
from codegen.target import host
from codegen.target.cpu_cores import CORES, Core, common_core
from codegen.target.gpu import (
    DEFAULTS,
    FEATURES,
    GPU_NUMBERS,
    TRIPLES,
    GpuLimits,
    check_architecture,
    limits_of,
)
from codegen.target.host import CacheSizes, architecture
from codegen.target.llvm_names import check_names
from codegen.target.presets import BASELINE_FEATURES, CPU_FEATURES, KNOWN_FEATURES, PRESETS
from tensorir.text_table import html_table

_NOTES: Final = ("device", "libs", "model", "tag")
"""Options in TVM's target texts that are stored but ignored here."""
_LISTS: Final = ("keys", "libs", "mattr")
_CPU_NUMBERS: Final = {"num-cores": (1, 1 << 16), "opt-level": (0, 3), "vector-width": (64, 2048)}
_NUMBERS: Final = {**_CPU_NUMBERS, **GPU_NUMBERS}
_OPTIONS: Final[dict[str, tuple[str, ...]]] = {
    "llvm": ("keys", "mcpu", "mattr", "mtriple", *_CPU_NUMBERS, *_NOTES),
    "cuda": ("keys", "arch", *GPU_NUMBERS, *_NOTES),
    "rocm": ("keys", "mcpu", "mtriple", *GPU_NUMBERS, *_NOTES),
    "opencl": ("keys", *GPU_NUMBERS, *_NOTES),
}
"""The options of each kind of target."""

_stack: ContextVar[tuple[Target, ...]] = ContextVar("target_stack", default=())


class Target:
    """A description of the machine to compile for.

    It is built from text in the way of TVM (`"llvm -mcpu=skylake-avx512 -mattr=+avx2,-fma
    -num-cores=4"`, one or two dashes, `=` or a space), from a mapping with the same keys
    (`{"kind": "llvm", "num-cores": 4}`), from the name of a preset (`"host"`, `"x86-64-v3"`, ...)
    or from another target. A GPU is one of the kinds `cuda`, `rocm` and `opencl`
    (`"cuda -arch=sm_90a -max_shared_memory_per_block=101376"`, `"nvidia/nvidia-a100"`).
    A CPU without `mcpu`, or with `native`, is the machine this process runs on. Code for another
    machine can be built, inspected and exported, but not run here.

    `num_cores` limits the threads of a parallel loop; None leaves their number to the OpenMP
    runtime. Targets are values: they are hashable and compare by content. `with target:` makes one
    current.

    Raises TargetError (a ValueError) for an unknown kind, option, preset, CPU or feature.
    """

    KINDS: ClassVar[tuple[str, ...]] = tuple(_OPTIONS)

    def __init__(self, description: str | Mapping[str, Any] | Target = "llvm") -> None:
        if isinstance(description, Target):
            options = description._options
        elif isinstance(description, str):
            options = _from_text(description)
        elif isinstance(description, Mapping):
            options = _from_mapping(description)
        else:
            raise TargetError(
                f"a target must be text, a mapping or a Target, got {type(description).__name__}"
            )
        self._options: dict[str, Any] = options
        self.kind: str = options["kind"]
        is_gpu = self.kind in DEFAULTS
        self.keys: tuple[str, ...] = options.get("keys", (self.kind, "gpu") if is_gpu else ("cpu",))
        self.mattr: tuple[str, ...] = options.get("mattr", ())
        """Features switched on (`+avx2`) or off (`-fma`) beyond those of the CPU model."""
        self.mtriple: str | None = options.get("mtriple", TRIPLES.get(self.kind))
        self.num_cores: int | None = options.get("num-cores")
        self.opt_level: int = options.get("opt-level", 2)
        self.gpu: GpuLimits | None = limits_of(self.kind, options)
        """The resources of the GPU; None for a CPU."""
        if not isinstance(description, Target):
            if is_gpu:
                check_architecture(self.kind, options)
            else:
                self._check_cpu()

    def _check_cpu(self) -> None:
        if self._options.get("mcpu") == "native":
            if self.architecture != host.machine():
                raise TargetError(
                    f"-mcpu=native is the CPU of this machine, which is {host.machine()}, but the "
                    f"target is of {self.architecture}; name a CPU of {self.architecture}"
                )
            del self._options["mcpu"]
        check_names(self.mtriple, self.architecture, self._options.get("mcpu"), self.mattr)

    @staticmethod
    def host() -> Target:
        """Return the target of this machine, with all its physical cores."""
        return Target({"kind": "llvm", "num-cores": host.physical_cores()})

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """Return the target of the innermost `with`, None or TargetError if there is none."""
        stack = _stack.get()
        if stack:
            return stack[-1]
        if allow_none:
            return None
        raise TargetError("no target is current; wrap the call in `with Target(...):`")

    def __enter__(self) -> Target:
        _stack.set((*_stack.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _stack.set(_stack.get()[:-1])

    # ------------------------------------------------------------------------------ what it can do

    @property
    def is_host(self) -> bool:
        """True if the target is the CPU of this machine, without another model or architecture."""
        is_named = self.gpu is not None or "mcpu" in self._options
        return not is_named and self.architecture == host.machine()

    @property
    def arch(self) -> str:
        """The architecture of a GPU, such as `sm_90a` or `gfx90a`; "" for a CPU and for OpenCL."""
        if self.gpu is None:
            return ""
        known = {**DEFAULTS[self.kind], **self._options}
        return str(known.get("arch", known.get("mcpu", "")))

    @property
    def architecture(self) -> str:
        """The architecture, such as `x86_64` or `aarch64`."""
        return host.machine() if self.mtriple is None else architecture(self.mtriple.split("-")[0])

    @cached_property
    def mcpu(self) -> str:
        """The CPU model by LLVM's name.

        Without a name, LLVM detects this machine's CPU; a CPU of another architecture is generic.
        """
        if self.gpu is not None:
            return self.arch
        named: str | None = self._options.get("mcpu")
        if named is not None:
            return named
        return host.cpu_name() if self.is_host else "generic"

    @cached_property
    def features(self) -> frozenset[str]:
        """The CPU features that code generation may rely on, under LLVM's names.

        A CPU model that is not in the table has its `mattr` and the features of all CPUs of its
        architecture.
        """
        if self.gpu is not None:
            return FEATURES
        common = BASELINE_FEATURES.get(self.architecture, frozenset())
        if self.is_host:
            found = {*host.cpu_features(), *common}
        else:
            found = set(CPU_FEATURES.get(self.mcpu, common))
        for change in self.mattr:
            if change[0] == "-":
                found.discard(change[1:])
            else:
                found.add(change.removeprefix("+"))
        return frozenset(found)

    @cached_property
    def required_features(self) -> frozenset[str]:
        """The features beyond the architecture's baseline that code for this target needs."""
        known = KNOWN_FEATURES.get(self.architecture, frozenset())
        common = BASELINE_FEATURES.get(self.architecture, frozenset())
        asked = {change[1:] for change in self.mattr}
        return frozenset((self.features & (known | asked)) - common)

    @cached_property
    def vector_bits(self) -> int:
        """Bits of the widest vector register that code uses: at most `vector-width`.

        A thread of a GPU has vectors as long as its widest access.
        """
        if self.gpu is not None:
            return 8 * self.gpu.max_vector_bytes
        widest = 128
        if "avx" in self.features:
            widest = 512 if "avx512f" in self.features else 256
        asked: int = self._options.get("vector-width", widest)
        return min(widest, asked)

    @cached_property
    def vector_registers(self) -> int:
        """The number of vector registers of `vector_bits`."""
        if "neon" in self.features:
            return 32
        encoded = "avx512f" if self.vector_bits == 512 else "avx512vl"
        return 32 if encoded in self.features else 16

    @cached_property
    def core(self) -> Core:
        """The operations of one core in a cycle, by CPU model; common figures for unknown models.

        The figures do not depend on the machine that compiles, nor on its speed.
        """
        known = CORES.get(self.mcpu)
        return common_core(self.vector_bits, "fma" in self.features) if known is None else known

    @property
    def fma_units(self) -> float:
        """The multiply-adds of vectors of `vector_bits` that a core starts each cycle."""
        return self.core.units(self.vector_bits)

    @property
    def fma_latency(self) -> int:
        """The cycles from one update of an accumulator to the next."""
        return self.core.fma_latency

    @property
    def updates_in_flight(self) -> int:
        """The accumulators that keep all multiply-add units busy: units times latency."""
        return math.ceil(self.fma_units * self.fma_latency)

    @cached_property
    def caches(self) -> CacheSizes:
        """Data cache sizes in bytes as one core sees them, smallest first; none is 0.

        For this machine they are its real sizes, else those of the CPU model.
        """
        known, usual = host.cache_sizes() if self.is_host else CacheSizes(), self.core.caches
        l1, l2, l3 = known.l1 or usual.l1, known.l2 or usual.l2, known.l3 or usual.l3
        return CacheSizes(l1, max(l1, l2), max(l1, l2, l3))

    def vector_lanes(self, bits: int) -> int:
        """Return the number of `bits`-bit elements in the widest vector register."""
        return max(1, self.vector_bits // bits)

    # ------------------------------------------------------------------------------------- as text

    def to_dict(self) -> dict[str, Any]:
        """Return the options as plain data that `Target` accepts and JSON can hold."""
        plain = {k: list(v) if isinstance(v, tuple) else v for k, v in self._options.items()}
        return {**plain, "keys": list(self.keys)}

    def export(self) -> dict[str, Any]:
        """Return `to_dict()`, under TVM's name."""
        return self.to_dict()

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        words = [self.kind, f"-keys={','.join(self.keys)}"]
        for key in sorted(self._options.keys() - {"kind", "keys"}):
            value = self._options[key]
            words.append(f"-{key}={','.join(value) if isinstance(value, tuple) else value}")
        return " ".join(words)

    def __repr__(self) -> str:
        return f'Target("{self}")'

    def _repr_html_(self) -> str:
        rows = [(name, _in_words(value)) for name, value in self.to_dict().items()]
        return html_table([("target", ""), *rows])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[type[Target], tuple[str]]:
        """Pickle as text."""
        return (Target, (str(self),))


def _in_words(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def as_target(target: str | Mapping[str, Any] | Target | None) -> Target:
    """Return `target` as a Target; None means the current one, or `llvm` if there is none."""
    if isinstance(target, Target):
        return target
    if target is None:
        return Target.current() or Target("llvm")
    return Target(target)


def _from_text(text: str) -> dict[str, Any]:
    if text.strip() == "host":
        return Target.host()._options
    if text.strip() in PRESETS:
        return _from_mapping(PRESETS[text.strip()])
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise TargetError(f"target {text!r}: {error}; close the quotation or remove it") from error
    if not words:
        raise TargetError("the target is empty; write for example 'llvm'")
    options: dict[str, Any] = {"kind": words[0]}
    _check_kind(words[0])
    position = 1
    while position < len(words):
        word = words[position]
        if not word.startswith("-"):
            raise TargetError(
                f"target {text!r}: expected an option such as -mcpu=..., got {word!r}"
            )
        key, equals, value = word.lstrip("-").partition("=")
        if not equals:
            position += 1
            if position == len(words):
                raise TargetError(f"target {text!r}: option -{key} needs a value")
            value = words[position]
        if key in options:
            raise TargetError(f"target {text!r}: option -{key} is given twice")
        options[key] = value
        position += 1
    return _from_mapping(options)


def _check_kind(kind: object) -> None:
    if kind not in Target.KINDS:
        known = [*Target.KINDS, "host", *(name for name in PRESETS if "/" not in name)]
        raise TargetError(
            f"unknown target {kind!r}; known kinds and presets are {', '.join(known)}, aws/cpu/c5.*"
        )


def _from_mapping(mapping: Mapping[str, Any]) -> dict[str, Any]:
    kind = mapping.get("kind", "llvm")
    _check_kind(kind)
    options: dict[str, Any] = {"kind": kind}
    for key, value in mapping.items():
        if key == "kind" or value is None or (key in _NOTES and not value):
            continue
        if key not in _OPTIONS[kind]:
            raise TargetError(
                f"unknown option -{key} of target kind {kind}; its options are "
                + ", ".join(f"-{name}" for name in _OPTIONS[kind])
            )
        options[key] = _option_value(key, value)
    return options


def _option_value(key: str, value: Any) -> Any:
    if key in _NUMBERS:
        low, high = _NUMBERS[key]
        try:
            number = int(value)
        except (TypeError, ValueError, OverflowError):
            number = low - 1
        whole = "a power of two" if key == "vector-width" else "an integer"
        fits = low <= number <= high and (key != "vector-width" or number.bit_count() == 1)
        if not fits:
            raise TargetError(
                f"target option -{key} must be {whole} from {low} to {high}, got {value!r}"
            )
        return number
    if key in _LISTS:
        items = value.split(",") if isinstance(value, str) else value
        if not isinstance(items, (list, tuple)):
            raise TargetError(f"target option -{key} must be a list of texts, got {value!r}")
        names = tuple(str(item).strip() for item in items if str(item).strip())
        if key == "mattr" and any(name[0] not in "+-" for name in names):
            raise TargetError(f"target option -mattr must list +feature or -feature, got {value!r}")
        return names
    if not isinstance(value, str) or not value:
        raise TargetError(f"target option -{key} must be text, got {value!r}")
    return value
