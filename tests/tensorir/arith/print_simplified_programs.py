"""Print 300 random programs, simplified, with their hashes: run by `test_forms_are_reproducible`.

The argument is a seed of what else is allocated meanwhile; the programs do not depend on it.
"""

import random
import sys

from tensorir import Var, simplify, structural_hash
from tensorir.arith import detect_iter_map
from tensorir.function import PrimFunc
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Range, decl_buffer
from tensorir.nodes.ops import bitwise_or, bitwise_xor, const, if_then_else, max_, min_

PROGRAMS = 300


class Writer:
    """Writes programs over two loops, two sizes and three buffers."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.sizes = [Var("n"), Var("m")]
        self.loops = [Var("i"), Var("j")]
        self.buffers = [decl_buffer((64,), "int32", name) for name in ("A", "B", "C")]

    def value(self, depth):
        rng = self.rng
        if depth == 0 or rng.random() < 0.1:
            leaf = rng.choice([*self.loops, *self.loops, *self.sizes, rng.randint(-3, 9)])
            return const(leaf, "int32") if isinstance(leaf, int) else leaf
        kind = rng.choice("sssslllpdrmcbh")
        a = self.value(depth - 1)
        if kind == "l":
            return rng.choice(self.buffers)[a]
        if kind in "dr":
            return (a // rng.choice((2, 3, 8))) if kind == "d" else a % rng.choice((2, 3, 8))
        b = self.value(depth - 1)
        if kind == "s":
            return rng.choice((a + b, a - b, a + b * 2))
        if kind == "m":
            return rng.choice((min_, max_))(a, b)
        if kind == "c":
            return if_then_else(e.LT(a, b), self.value(depth - 1), b)
        if kind == "b":
            return rng.choice((bitwise_xor, bitwise_or))(a, b)
        return e.FloorDiv(a, b) if kind == "h" else a * b

    def program(self):
        a, b, c = self.buffers
        data = [Var(buffer.name.lower(), "handle") for buffer in self.buffers]
        index = [self.value(1) % 64, self.value(2)]
        loads = [self.rng.choice(self.buffers)[self.value(1)] for _ in range(3)]
        value = sum(loads, self.value(2))
        body: s.Stmt = s.BufferStore(c, value, [index[0]])
        guard = e.And(e.LT(index[1], self.value(2)), e.EQ(self.value(1), self.value(1)))
        body = s.IfThenElse(guard, body)
        for var, extent in zip(self.loops, (8, self.sizes[0]), strict=True):
            body = s.For(var, const(0), extent + const(0), "serial", body)
        buffers = dict(zip(data, (a, b, c), strict=True))
        return PrimFunc([*data, *self.sizes], body, buffer_map=buffers)


def iter_map(writer):
    """Return what a random index is read as over the loops of a program."""
    i, j = writer.loops
    factor = writer.rng.choice((2, 4, 8))
    split = writer.rng.choice((i * 8 + j, j * 8 + i))
    index = [split // factor, split % factor]
    return detect_iter_map(index, {i: Range(8), j: Range(8)}).indices


def main():
    allocation = random.Random(int(sys.argv[1]))
    held = []
    for seed in range(PROGRAMS):
        held.append(
            [bytearray(allocation.randrange(1, 300)) for _ in range(allocation.randrange(9))]
        )
        if len(held) > 20:
            held.pop(allocation.randrange(20))
        writer = Writer(seed)
        program = writer.program()
        simple = simplify(program)
        pieces = [
            (split.lower_factor, split.extent) for sum in iter_map(writer) for split in sum.args
        ]
        sys.stdout.write(f"{structural_hash(simple)} {pieces} {simple.script()!r}\n")


if __name__ == "__main__":
    main()
