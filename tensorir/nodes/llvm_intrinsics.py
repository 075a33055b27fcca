"""The names of the LLVM intrinsics that no machine has to itself.

From the LLVM Language Reference, "Intrinsic Functions", without those that mark up debugging,
garbage collection, exceptions and coroutines. What belongs to a machine (`llvm.x86...`) is known to
the code generator for it.
"""

from __future__ import annotations

import difflib
import re
from typing import Final

from tensorir.errors import IRValueError

_NAMES: Final = frozenset(
    """
    sqrt powi sin cos tan asin acos atan atan2 sinh cosh tanh sincos pow exp exp2 exp10 ldexp frexp
    log log10 log2 fma fmuladd fabs minnum maxnum minimum maximum minimumnum maximumnum copysign
    floor ceil trunc rint nearbyint round roundeven lround llround lrint llrint canonicalize
    is.fpclass abs smax smin umax umin scmp ucmp
    bitreverse bswap ctpop ctlz cttz fshl fshr
    sadd.with.overflow uadd.with.overflow ssub.with.overflow usub.with.overflow
    smul.with.overflow umul.with.overflow
    sadd.sat uadd.sat ssub.sat usub.sat sshl.sat ushl.sat fptosi.sat fptoui.sat
    smul.fix umul.fix smul.fix.sat umul.fix.sat sdiv.fix udiv.fix sdiv.fix.sat udiv.fix.sat
    convert.to.fp16 convert.from.fp16
    vector.reduce.add vector.reduce.fadd vector.reduce.mul vector.reduce.fmul vector.reduce.and
    vector.reduce.or vector.reduce.xor vector.reduce.smax vector.reduce.smin vector.reduce.umax
    vector.reduce.umin vector.reduce.fmax vector.reduce.fmin vector.reduce.fmaximum
    vector.reduce.fminimum vector.insert vector.extract vector.reverse vector.splice
    vector.interleave2 vector.deinterleave2 vector.partial.reduce.add stepvector
    matrix.transpose matrix.multiply matrix.column.major.load matrix.column.major.store
    masked.load masked.store masked.gather masked.scatter masked.expandload masked.compressstore
    get.active.lane.mask vscale
    memcpy memcpy.inline memmove memset memset.inline prefetch
    stacksave stackrestore lifetime.start lifetime.end invariant.start invariant.end
    readcyclecounter readsteadycounter get.rounding set.rounding get.fpenv set.fpenv reset.fpenv
    assume expect expect.with.probability trap debugtrap ubsantrap donothing sideeffect
    is.constant objectsize thread.pointer returnaddress addressofreturnaddress frameaddress
    ptrmask threadlocal.address
    """.split()
)
_MACHINES: Final = re.compile(
    r"llvm\.(x86|aarch64|arm|riscv|ppc|s390|hexagon|nvvm|amdgcn|r600|loongarch|wasm|mips|spv|ve)\."
)
_TYPE: Final = re.compile(r"\.(nxv\d+|v\d+)?(f\d+|bf16|i\d+|p\d+)$")


def check_llvm_intrinsic(name: str) -> None:
    """Raise IRValueError for a name that no LLVM intrinsic has, which gives the nearest that one has."""
    base = name
    while found := _TYPE.search(base):
        base = base[: found.start()]
    known = base.removeprefix("llvm.")
    if _MACHINES.match(name) or (base != known and known in _NAMES):
        return
    close = difflib.get_close_matches(known, _NAMES, 1)
    hint = f"; did you mean llvm.{close[0]}?" if close else "; names begin with llvm., as llvm.sqrt"
    raise IRValueError(f"unknown LLVM intrinsic {name!r}{hint}")
