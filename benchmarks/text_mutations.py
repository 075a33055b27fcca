"""Texts that are almost right: scripts with tokens, characters and lines changed at random."""

from __future__ import annotations

import keyword
import random
import re
from collections.abc import Sequence

_TOKEN = re.compile(
    r"[A-Za-z_]\w*|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\"[^\"\n]*\"|\*\*|//|[<>=!]=|->|\S"
)

_SPELLINGS = """
0 1 -1 2 4294967296 9223372036854775807 -9223372036854775808 1e400 0.5 1_000 0x1f 10**30 "float32"
"int8" "handle" "" "float99" True False None ( ) [ ] { } , : ; . = == != < <= >> << + - * / // %
** @ ~ & | ^ -> := and or not if else for in while with as def class return assert pass lambda
break continue yield import from global try del is await match T I T.serial T.grid T.block T.axis
T.axis.remap T.axis.spatial T.init T.reads T.writes T.where T.Buffer T.match_buffer T.alloc_buffer
T.decl_buffer T.allocate T.let T.Let T.int8 T.int32 T.int64 T.uint8 T.float16 T.float32 T.bool
T.handle T.Ptr T.Range T.if_then_else T.Select T.max T.exp T.Cast T.reinterpret T.Ramp T.Broadcast
T.Shuffle T.evaluate T.ret T.attr T.Assert T.meta_var T.launch_thread T.env_thread T.index_map
T.block_attr T.func_attr T.unroll T.vectorized T.parallel T.thread_binding T.Add T.call_extern
T.call_intrin T.address_of T.tvm_access_ptr T.undef T.infinity T.min_value I.ir_module
I.module_attrs R.function R.Tensor R.Tuple R.Shape R.Prim R.Callable R.Object R.call_tir R.const
R.call_tir_inplace R.call_dps_packed R.call_packed R.call_pure_packed R.dataflow R.output R.tuple
R.match_cast R.shape R.prim_value R.str R.dtype R.array R.func_attr R.memory R.builtin metadata
I.GlobalVar out_sinfo sinfo_args tir_vars dtype ndim x y lv
self cls __class__ __import__ eval A B C n vi
"""
_TOKENS = tuple(_SPELLINGS.split())
_CHARACTERS = "\t\n\r\x00 \\\"'#\u00e9\u2028\u00b2\U0001f600()[]{}:,.;=@0a_"


def mutated(text: str, others: Sequence[str], rng: random.Random) -> str:
    """Return a text with one to a few random changes; pieces may come from `others`."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 6))):
        change = rng.choices(_CHANGES, _WEIGHTS)[0]
        text = change(text, others, rng)
    return text


def _spans(text: str) -> list[tuple[int, int]]:
    return [m.span() for m in _TOKEN.finditer(text)] or [(0, 0)]


def _replace_token(text: str, others: Sequence[str], rng: random.Random) -> str:
    low, high = rng.choice(_spans(text))
    return text[:low] + rng.choice(_TOKENS) + text[high:]


def _similar_token(text: str, others: Sequence[str], rng: random.Random) -> str:
    """Put another name in the place of a name, a number for a number, a sign for a sign."""
    low, high = rng.choice(_spans(text))
    kind = _kind(text[low:high])
    known = {text[a:b] for a, b in _spans(text)} | {*_TOKENS}
    return text[:low] + rng.choice(sorted(w for w in known if _kind(w) == kind)) + text[high:]


def _kind(word: str) -> str:
    first = word[:1]
    if first.isalpha() or first == "_":
        return "keyword" if keyword.iskeyword(word) else "attribute" if "." in word else "name"
    return "number" if first.isdigit() else "string" if first == '"' else "sign"


def _borrow_token(text: str, others: Sequence[str], rng: random.Random) -> str:
    low, high = rng.choice(_spans(text))
    other = rng.choice((text, rng.choice(others)))
    first, last = rng.choice(_spans(other))
    return text[:low] + other[first:last] + text[high:]


def _delete_tokens(text: str, others: Sequence[str], rng: random.Random) -> str:
    spans = _spans(text)
    k = rng.randrange(len(spans))
    last = min(k + rng.choice((0, 0, 0, 1, 3)), len(spans) - 1)
    return text[: spans[k][0]] + text[spans[last][1] :]


def _insert_token(text: str, others: Sequence[str], rng: random.Random) -> str:
    place = rng.choice(_spans(text))[rng.randrange(2)]
    return f"{text[:place]} {rng.choice(_TOKENS)} {text[place:]}"


def _swap_tokens(text: str, others: Sequence[str], rng: random.Random) -> str:
    (a, b), (c, d) = sorted(rng.choice(_spans(text)) for _ in range(2))
    return text if c < b else text[:a] + text[c:d] + text[b:c] + text[a:b] + text[d:]


def _wrap_tokens(text: str, others: Sequence[str], rng: random.Random) -> str:
    """Put what stands between two near tokens in brackets, some of them very many."""
    spans = _spans(text)
    k = rng.randrange(len(spans))
    low, high = spans[k][0], spans[min(k + rng.randrange(6), len(spans) - 1)][1]
    before, after = rng.choice((("(", ")"), ("[", "]"), ("{", "}"), ("T.exp(", ")"), ("-", "")))
    times = rng.choice((1, 1, 1, 2, 5, 3000))
    return text[:low] + before * times + text[low:high] + after * times + text[high:]


def _change_character(text: str, others: Sequence[str], rng: random.Random) -> str:
    place = rng.randrange(len(text) + 1)
    return text[:place] + rng.choice(_CHARACTERS) + text[place + rng.randrange(2) :]


def _change_lines(text: str, others: Sequence[str], rng: random.Random) -> str:
    """Leave out, repeat, swap, borrow, indent or cut off lines."""
    lines = text.split("\n")
    k = rng.randrange(len(lines))
    what = rng.randrange(7)
    if what == 0:
        del lines[k]
    elif what == 1:
        lines.insert(rng.randrange(len(lines)), lines[k])
    elif what == 2:
        other = rng.randrange(len(lines))
        lines[k], lines[other] = lines[other], lines[k]
    elif what == 3:
        lines.insert(k, rng.choice(rng.choice(others).split("\n")))
    elif what == 4:
        lines[k] = "    " + lines[k]
    elif what == 5:
        lines[k] = lines[k][min(4, len(lines[k]) - len(lines[k].lstrip())) :]
    else:
        del lines[k + 1 :]
    return "\n".join(lines)


_CHANGES = (
    _similar_token,
    _replace_token,
    _borrow_token,
    _delete_tokens,
    _insert_token,
    _swap_tokens,
    _wrap_tokens,
    _change_character,
    _change_lines,
)
_WEIGHTS = (20, 6, 5, 4, 4, 2, 1, 2, 4)
