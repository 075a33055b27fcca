"""An emulator of PTX, for kernels that use `ldmatrix` and `mma.sync`: the places where threads have
numbers are those of the PTX manual ("Matrix Fragments for mma.m16n8k16"), written down as it does.

It knows the instructions that such kernels are made of, and all threads of a block must branch
alike. A register is an array of the threads' bits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.int64]
_DTYPES = {"f16": "float16", "s8": "int8", "f32": "float32", "s32": "int32"}
_STATEMENT = re.compile(r"(?:@(!?%\w+)\s+)?([\w.]+)\s*([^;]*);|(\$\w+):", re.DOTALL)
_OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+")


def run_ptx(text: str, arrays: Sequence[NDArray[Any]], block: tuple[int, int, int]) -> None:
    """Run the only kernel of a text, for one thread block, on arrays that it may change."""
    machine = _Machine(block)
    places = [machine.place(array.tobytes()) for array in arrays]
    for name, size in re.findall(r"\.shared \.align \d+ \.b8 ([\w$]+)\[(\d+)\]", text):
        machine.names[name] = machine.place(bytes(int(size)))
    (head, body) = text.split(".entry ", 1)[1].split("{", 1)
    for name, place in zip(re.findall(r"(\w+_param_\d+)", head), places, strict=True):
        machine.names[name] = place
    machine.run(re.sub(r"(?m)//.*|^\s*\.(reg|shared)[^;]*;", "", body))
    for array, place in zip(arrays, places, strict=True):
        data = machine.memory[place : place + array.nbytes].tobytes()
        array[...] = np.frombuffer(data, array.dtype).reshape(array.shape)


class _Machine:
    def __init__(self, block: tuple[int, int, int]) -> None:
        z, y, x = np.indices(block[::-1]).reshape(3, -1)
        self.count = len(x)
        self.registers: dict[str, Bits] = {"%tid.x": x, "%tid.y": y, "%tid.z": z}
        for axis in "xyz":
            self.registers[f"%ctaid.{axis}"] = np.zeros(self.count, np.int64)
        self.memory = np.zeros(256, np.uint8)
        self.names: dict[str, int] = {}

    def place(self, data: bytes) -> int:
        start = len(self.memory)
        room = np.zeros(-(-len(data) // 256) * 256, np.uint8)
        room[: len(data)] = np.frombuffer(data, np.uint8)
        self.memory = np.concatenate([self.memory, room])
        return start

    def run(self, body: str) -> None:
        statements = [match.groups() for match in _STATEMENT.finditer(body)]
        labels = {label: k for k, (*_, label) in enumerate(statements) if label}
        at = 0
        while at < len(statements):
            guard, name, operands, _ = statements[at]
            at += 1
            if name == "ret":
                return
            if name == "bra":
                taken = self.value(guard) if guard else np.ones(1)
                assert len(set(taken.tolist())) == 1, "threads branch differently"
                at = labels[operands.strip()] if taken[0] else at
            elif name is not None and name != "bar.sync":
                assert guard is None, f"{name} has a guard"
                self.step(name.split("."), _OPERAND.findall(operands))

    def value(self, text: str) -> Bits:
        if text.startswith("%"):
            return self.registers[text]
        if text in self.names:
            number = self.names[text]
        else:
            number = int(text[2:], 16) if text.startswith("0f") else int(text.rstrip("U"), 0)
        return np.full(self.count, number)

    def values(self, text: str) -> list[Bits]:
        return [self.value(name) for name in _OPERAND.findall(text.strip("{}"))]

    def put(self, text: str, values: Sequence[Bits]) -> None:
        for name, value in zip(_OPERAND.findall(text.strip("{}")), values, strict=True):
            width = 64 if name.startswith("%rd") else 32
            self.registers[name] = value if width == 64 else value & 0xFFFFFFFF

    def bytes_at(self, address: str, count: int) -> Bits:
        """Return the positions in memory of so many bytes of each thread, from [base+offset]."""
        base, _, offset = address.strip("[]").partition("+")
        starts = self.value(base) + int(offset or 0)
        assert not (starts % count).any(), f"{count} bytes at {address} are not aligned"
        return starts[:, None] + np.arange(count)

    def step(self, name: list[str], operands: list[str]) -> None:
        first, *rest = operands
        kind = next((part for part in reversed(name) if re.fullmatch(r"[bsuf]\d+|pred", part)), "")
        if name[0] == "ldmatrix":
            self.ldmatrix(first, self.bytes_at(rest[0], 16), "trans" in name)
        elif name[0] == "mma":
            self.mma(name[3], name[-4:], operands)
        elif name[:2] == ["ld", "param"]:
            self.put(first, [self.value(rest[0].strip("[]"))])
        elif name[0] in ("ld", "st"):
            size = int(kind[1:]) // 8
            register, address = (first, rest[0]) if name[0] == "ld" else (rest[0], first)
            held = _OPERAND.findall(register.strip("{}"))
            at = self.bytes_at(address, size * len(held)).reshape(self.count, -1, size)
            shifts = np.arange(size) * 8
            if name[0] == "ld":
                found = (self.memory[at].astype(np.int64) << shifts).sum(-1)
                self.put(register, list(found.T))
            else:
                data = np.stack(self.values(register), 1)[..., None] >> shifts
                self.memory[at] = data.astype(np.uint8)
        else:
            self.put(first, [self.arithmetic(name, kind, [self.value(x) for x in rest])])

    def arithmetic(self, name: list[str], kind: str, values: list[Bits]) -> Bits:
        a, *rest = values
        if name[0] in ("mov", "cvt"):
            return _signed(a) if name[-1] == "s32" else a
        if name[0] == "selp":
            return np.where(rest[1], a, rest[0])
        if name[0] == "prmt":
            pair, chosen = a | rest[0] << 32, int(rest[1][0])
            picks = [chosen >> 4 * k & 7 for k in range(4)]
            return sum((pair >> 8 * pick & 255) << 8 * k for k, pick in enumerate(picks))
        if kind == "s32":
            a, *rest = map(_signed, values)
        if name[0] in ("mul", "mad"):
            return a * rest[0] + (rest[1] if name[0] == "mad" else 0)
        simple = {
            "add": np.add, "sub": np.subtract, "and": np.bitwise_and, "or": np.bitwise_or,
            "shl": np.left_shift, "shr": np.right_shift, "setp": np.not_equal,
        }  # fmt: skip
        assert name[0] != "setp" or name[1] == "ne"
        return simple[name[0]](a, rest[0]).astype(np.int64)

    def ldmatrix(self, registers: str, rows: Bits, is_trans: bool) -> None:
        """Load four matrices of 8 rows of 16 bytes; threads 8 m to 8 m + 7 have those of matrix m."""
        lane = np.arange(32)
        pairs = self.memory[rows].reshape(-1, 4, 8, 8, 2).astype(np.int64)
        numbers = pairs[..., 0] | pairs[..., 1] << 8
        if is_trans:
            numbers = numbers.swapaxes(-1, -2)
        row, column = lane // 4, lane % 4 * 2
        both = numbers[..., row, column] | numbers[..., row, column + 1] << 16
        self.put(registers, list(both.swapaxes(0, 1).reshape(4, -1)))

    def mma(self, shape: str, dtypes: list[str], operands: list[str]) -> None:
        out, left, right, sums = dtypes
        m, n, k = (16, 8, 32) if shape == "m16n8k32" else (16, 8, 16)
        steps = 4 if k == 32 else 2
        factors = []
        for text, dtype, size in ((operands[1], left, m * k), (operands[2], right, k * n)):
            factors.append(_numbers(self.values(text), dtype, size // 32))
        group, member = np.arange(32)[:, None] // 4, np.arange(32)[:, None] % 4
        i = np.arange(m * k // 32)
        upper = i // steps % 2 == 1
        a = np.empty((self.count // 32, m, k), factors[0].dtype)
        a[:, group + 8 * upper, member * steps + i % steps + k // 2 * (i >= 2 * steps)] = factors[0]
        i = np.arange(k * n // 32)
        b = np.empty((self.count // 32, k, n), factors[1].dtype)
        b[:, member * steps + i % steps + k // 2 * (i >= steps), group + 0 * i] = factors[1]
        i = np.arange(4)
        at = group + 8 * (i >= 2), member * 2 + i % 2
        wide = np.float32 if out[0] == "f" else np.int32
        total = np.empty((self.count // 32, m, n), wide)
        total[:, *at] = _numbers(self.values(operands[3]), sums, 4)
        total += a.astype(wide) @ b.astype(wide)
        found = total[:, *at].astype(_DTYPES[out]).reshape(self.count, -1)
        self.put(operands[0], list(found.view(np.uint32).astype(np.int64).T))


def _numbers(registers: list[Bits], dtype: str, count: int) -> NDArray[Any]:
    """Return the numbers of each thread of each warp that registers have."""
    packed = np.stack(registers, 1).astype(np.uint32)
    if dtype == "bf16":
        numbers = (packed.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    else:
        numbers = packed.view(_DTYPES[dtype])
    return numbers.reshape(-1, 32, count)


def _signed(bits: Bits) -> Bits:
    return (bits & 0xFFFFFFFF).astype(np.uint32).view(np.int32).astype(np.int64)
