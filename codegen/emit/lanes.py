"""Writing formulas over lanes of floats, integers and truth values.

A formula is ordinary Python over `Lane` operands; evaluating it writes LLVM instructions that work
on a scalar or on any number of lanes. Operations are never contracted or reassociated, as
error-free transformations require; `Formula.fma` requests a fused operation if the processor has
one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from codegen.emit.context import FunctionEmitter
from codegen.emit.llvm_text import float32_text, float64_text
from tensorir.nodes.dtype import DataType

Operand: TypeAlias = "Lane | float | int"

_FLOAT_OPS = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
_INT_OPS = {
    "+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor", "<<": "shl",
    ">>": "lshr",
}  # fmt: skip


def _binary(symbol: str, swap: bool = False) -> Callable[[Lane, Operand], Lane]:
    def write(lane: Lane, other: Operand) -> Lane:
        right = lane.formula.operand(other, lane.kind)
        a, b = (right, lane) if swap else (lane, right)
        return a.apply((_FLOAT_OPS if lane.kind == "f" else _INT_OPS)[symbol], b)

    return write


def _test(relation: str) -> Callable[[Lane, Operand], Lane]:
    def write(lane: Lane, other: Operand) -> Lane:
        return lane.compare(("fo" if lane.kind == "f" else "is") + relation, other)

    return write


class Lane:
    """An operand: `kind` is "f" (float), "i" (integer as wide as the float) or "m" (truth)."""

    __slots__ = ("formula", "kind", "text")

    def __init__(self, formula: Formula, kind: str, text: str) -> None:
        self.formula = formula
        self.kind = kind
        self.text = text

    __add__, __radd__ = _binary("+"), _binary("+", True)
    __sub__, __rsub__ = _binary("-"), _binary("-", True)
    __mul__, __rmul__ = _binary("*"), _binary("*", True)
    __truediv__, __rtruediv__ = _binary("/"), _binary("/", True)
    __and__, __or__, __xor__ = _binary("&"), _binary("|"), _binary("^")
    __lshift__, __rshift__ = _binary("<<"), _binary(">>")
    """A shift to the right is unsigned; for a signed shift apply "ashr"."""
    __lt__, __le__, __gt__, __ge__ = _test("lt"), _test("le"), _test("gt"), _test("ge")

    def apply(self, instruction: str, other: Operand) -> Lane:
        """Return the result of an instruction with two operands."""
        w = self.formula
        right = w.operand(other, self.kind)
        text = f"{instruction} {w.types[self.kind]} {self.text}, {right.text}"
        return Lane(w, self.kind, w.f.op(text))

    def __neg__(self) -> Lane:
        w = self.formula
        if self.kind == "f":
            return Lane(w, "f", w.f.op(f"fneg {w.types['f']} {self.text}"))
        return 0 - self

    def __invert__(self) -> Lane:
        return self ^ 1 if self.kind == "m" else self ^ -1

    def compare(self, test: str, other: Operand) -> Lane:
        """Return a mask of the lanes for which an LLVM predicate such as `folt` or `iult` holds."""
        w = self.formula
        right = w.operand(other, self.kind)
        comparison = f"{test[0]}cmp {test[1:]} {w.types[self.kind]} {self.text}, {right.text}"
        return Lane(w, "m", w.f.op(comparison))

    def equals(self, other: Operand) -> Lane:
        """Return a mask of the lanes whose operands are equal (and not NaN)."""
        return self.compare("foeq" if self.kind == "f" else "ieq", other)

    def is_nan(self) -> Lane:
        """Return a mask of the lanes whose float is NaN."""
        return self.compare("funo", self)


@dataclass(frozen=True, slots=True)
class Exponent:
    """An integer n in each lane, as the exponent of a power of two."""

    value: Lane
    """n as a float."""
    bits: Lane
    """An integer with n + 2 * bias in its low bits (as many bits as the sign and exponent of a
    float).
    """


class Formula:
    """Writes formulas over `lanes` floats or integers of `bits` bits into a function."""

    def __init__(self, f: FunctionEmitter, bits: int, lanes: int) -> None:
        self.f = f
        self.bits = bits
        self.lanes = lanes
        element = {"f": {32: "float", 64: "double"}.get(bits, ""), "i": f"i{bits}", "m": "i1"}
        self.elements = element
        self.types = {
            kind: name if lanes == 1 else f"<{lanes} x {name}>" for kind, name in element.items()
        }
        self.has_fma = "fma" in f.module.target.features

    # ---------------------------------------------------------------------------------- operands

    def value(self, text: str, kind: str = "f") -> Lane:
        """Return an existing LLVM value as an operand."""
        return Lane(self, kind, text)

    def operand(self, value: Operand, kind: str) -> Lane:
        """Return a Python number as a constant of `kind`; a Lane passes unchanged."""
        if isinstance(value, Lane):
            return value
        if kind == "f":
            text = float32_text(float(value)) if self.bits == 32 else float64_text(float(value))
        elif kind == "m":
            text = "true" if value else "false"
        else:
            number = int(value) & ((1 << self.bits) - 1)
            text = str(number - (1 << self.bits) if number >> (self.bits - 1) else number)
        return Lane(self, kind, self.f.splat(text, self.elements[kind], self.lanes))

    # -------------------------------------------------------------------------------- operations

    def fma(self, a: Operand, b: Operand, c: Operand) -> Lane:
        """Return `a * b + c`, rounded once if the processor can, else after each operation."""
        x, y, z = (self.operand(v, "f") for v in (a, b, c))
        if not self.has_fma:
            return x * y + z
        return self.intrinsic("fma", x, y, z)

    def intrinsic(self, name: str, *args: Lane) -> Lane:
        """Call `llvm.<name>` on floats."""
        dtype = DataType(f"float{self.bits}").with_lanes(self.lanes)
        return self.value(self.f.math_intrinsic(name, dtype, *(a.text for a in args)))

    def select(self, test: Lane, yes: Operand, no: Operand) -> Lane:
        """Return `yes` where `test` holds, else `no`."""
        kind = next((v.kind for v in (yes, no) if isinstance(v, Lane)), "f")
        a, b = self.operand(yes, kind), self.operand(no, kind)
        kind_type = self.types[kind]
        text = f"select {self.types['m']} {test.text}, {kind_type} {a.text}, {kind_type} {b.text}"
        return self.value(self.f.op(text), kind)

    def polynomial(self, x: Lane, coefficients: Sequence[float]) -> Lane:
        """Return the polynomial in `x`, `coefficients` starting with the constant (Horner)."""
        result = self.operand(coefficients[-1], "f")
        for coefficient in reversed(coefficients[:-1]):
            result = self.fma(result, x, coefficient)
        return result

    def abs(self, x: Lane) -> Lane:
        """Return the absolute value of a float."""
        return self.intrinsic("fabs", x)

    def copysign(self, magnitude: Lane, sign: Lane) -> Lane:
        """Return `magnitude` with the sign of `sign`."""
        return self.intrinsic("copysign", magnitude, sign)

    def at_most(self, x: Lane, limit: float) -> Lane:
        """Return the smaller of `x` and `limit`; NaN stays NaN."""
        return self.select(x > limit, limit, x)

    def clamped(self, x: Lane, low: float, high: float) -> Lane:
        """Return the nearest number to `x` from `low` to `high`; NaN stays NaN."""
        below = self.at_most(x, high)
        return self.select(below < low, low, below)

    # --------------------------------------------------------------------------- floats as bits

    @property
    def mantissa_bits(self) -> int:
        """Bits of the fraction that are stored."""
        return 23 if self.bits == 32 else 52

    @property
    def bias(self) -> int:
        """The number that is added to an exponent before it is stored."""
        return 127 if self.bits == 32 else 1023

    def bits_of(self, x: Lane) -> Lane:
        """Return the bits of a float."""
        return self.convert("bitcast", x, "i")

    def float_of_bits(self, x: Lane) -> Lane:
        """Return the float with these bits."""
        return self.convert("bitcast", x, "f")

    def convert(self, instruction: str, x: Lane, kind: str) -> Lane:
        """Return the result of a conversion instruction; the operand may have another width."""
        source = x.formula.types[x.kind]
        return self.value(self.f.op(f"{instruction} {source} {x.text} to {self.types[kind]}"), kind)

    def round_to_nearest(self, x: Lane) -> tuple[Lane, Lane]:
        """Return the integer nearest to a float of moderate size, as a float and as bits.

        Adding 1.5 * 2**mantissa_bits leaves the integer in the low bits of the sum. Unlike a
        conversion this gives no poison for NaN. The integer is right modulo 2**mantissa_bits.
        """
        magic = 1.5 * 2.0**self.mantissa_bits
        shifted = x + magic
        return shifted - magic, self.bits_of(shifted) - self.bits_of(self.operand(magic, "f"))

    def exponent(self, x: Lane, factor: float = 1.0) -> Exponent:
        """Return the integer nearest to `x * factor`, at most 1.4 * `bias`, as an exponent of 2.

        The result for NaN is unspecified.
        """
        magic = 1.5 * 2.0**self.mantissa_bits + 2 * self.bias
        shifted = x + magic if factor == 1.0 else self.fma(x, factor, magic)
        return Exponent(shifted - magic, self.bits_of(shifted))

    def power_of_two(self, n: Exponent) -> Lane:
        """Return 2**n within the range of normal floats."""
        return self.float_of_bits((n.bits - self.bias) << self.mantissa_bits)

    def scaled(self, x: Lane, n: Exponent) -> Lane:
        """Return `x * 2**n`, rounded once, into subnormals too.

        Without a scaling instruction, 2**n is the product of two factors whose biased exponents add
        up to `n.bits`; each is about half of it, so that both factors are normal.
        """
        width = self._scaling_width()
        if width:
            return self.value(self._scaled_by_instruction(x.text, n.value.text, self.lanes, width))
        half = n.bits >> 1
        first = self.float_of_bits(half << self.mantissa_bits)
        second = self.float_of_bits((n.bits - half) << self.mantissa_bits)
        return x * first * second

    def _scaling_width(self) -> int:
        """Return the register width in bits of the scaling instruction, 0 if there is none.

        The number of registers of a vector is a power of two.
        """
        features, bits = self.f.module.target.features, self.bits * self.lanes
        for width, needed in ((512, "avx512f"), (256, "avx512vl"), (128, "avx512vl")):
            count, rest = divmod(bits, width)
            fits = rest == 0 and count.bit_count() == 1
            if needed in features and fits and width <= self.f.module.target.vector_bits:
                return width
        return 0

    def _scaled_by_instruction(self, x: str, n: str, lanes: int, width: int) -> str:
        kind = f"<{lanes} x {self.elements['f']}>"
        if lanes * self.bits == width:
            operands = [(kind, x), (kind, n), (kind, "zeroinitializer")]
            operands.append((f"i{max(8, lanes)}", "-1"))
            if width == 512:
                operands.append(("i32", "4"))  # round as always
            name = f"llvm.x86.avx512.mask.scalef.{'ps' if self.bits == 32 else 'pd'}.{width}"
            return self.f.call_intrinsic(name, kind, operands)
        half = lanes // 2
        parts = []
        for start in (0, half):
            picked = range(start, start + half)
            x_part, n_part = (self.f.shuffle(kind, v, "poison", picked) for v in (x, n))
            parts.append(self._scaled_by_instruction(x_part, n_part, half, width))
        kind = f"<{half} x {self.elements['f']}>"
        return self.f.shuffle(kind, parts[0], parts[1], range(lanes))

    # ------------------------------------------------------------------------------- other widths

    def widened(self, x: Lane) -> tuple[Formula, Lane]:
        """Return a formula over doubles, and a float32 operand converted to it."""
        wide = Formula(self.f, 64, self.lanes)
        return wide, wide.convert("fpext", x, "f")
