"""Images that are resized, sampled and rearranged."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tensorir import relax
from tensorir.nodes.ops import floordiv
from tensorir.relax import op
from tests.operator_cases import Case, check
from tests.window_references import padded, windows

RNG = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def tensor(*shape: Any, dtype: str = "float32") -> relax.Var:
    return relax.Var("x", relax.TensorStructInfo(shape, dtype))


# ---------------------------------------------------------------------------------------- resizing


def place_of(mode: str, x: int, n: int, m: int, scale: float) -> float:
    """Return where element `x` of `m` is on an axis of `n`."""
    length = scale * n
    match mode:
        case "align_corners":
            return 0.0 if length == 1 else x * (n - 1) / (length - 1)
        case "asymmetric":
            return x / scale
        case "tf_half_pixel_for_nn":
            return (x + 0.5) / scale
        case "half_pixel_symmetric":
            return n / 2 * (1 - m / length) + (x + 0.5) / scale - 0.5
        case "pytorch_half_pixel" if m == 1:
            return -0.5
        case _:
            return (x + 0.5) / scale - 0.5


def keys(distance: float, a: float) -> float:
    d = abs(distance)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def resize_matrix(
    n: int,
    m: int,
    mode: str,
    method: str,
    scale: float | None,
    rounding: str = "round_prefer_ceil",
    exclude: bool = False,
    antialias: bool = False,
) -> np.ndarray:
    """Return the `[m, n]` weights of elements in those of the result."""
    ratio = m / n if scale is None else scale
    result = np.zeros((m, n))
    for x in range(m):
        at = place_of(mode, x, n, m, ratio)
        if method == "nearest_neighbor":
            places = {
                "floor": np.floor(at + 1e-9),
                "ceil": np.ceil(at - 1e-9),
                "round_prefer_floor": np.ceil(at - 0.5 - 1e-9),
                "round_prefer_ceil": np.floor(at + 0.5 + 1e-9),
            }
            result[x, int(np.clip(places[rounding], 0, n - 1))] = 1
            continue
        narrow = min(ratio, 1.0) if antialias else 1.0
        reach = int((1 if method == "linear" else 2) / narrow) + 1
        near = range(int(np.floor(at)) - reach, int(np.floor(at)) + reach + 1)
        weights = {}
        for k in near:
            d = (at - k) * narrow
            weights[k] = max(0.0, 1 - abs(d)) if method == "linear" else keys(d, -0.75)
        if exclude:
            weights = {k: w for k, w in weights.items() if 0 <= k < n}
        total = sum(weights.values())
        for k, w in weights.items():
            result[x, int(np.clip(k, 0, n - 1))] += w / total
    return result


MODES = [
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
]


@pytest.mark.parametrize("mode", MODES)
def test_resizing(mode: str) -> None:
    """Longer and shorter axes, by sizes and by scales that the sizes are rounded from."""
    cases = []
    for n, m, scale in [(4, 3, None), (4, 9, 2.3), (6, 4, 0.7)]:
        kinds: list[tuple[str, dict[str, Any]]] = [
            ("linear", {}),
            ("cubic", {"exclude": True}),
            ("cubic", {"antialias": True}),
            ("nearest_neighbor", {"rounding": "floor" if scale else "ceil"}),
            ("nearest_neighbor", {"rounding": f"round_prefer_{'floor' if scale else 'ceil'}"}),
        ]
        for method, options in kinds:
            renamed = {"exclude": "cubic_exclude", "rounding": "rounding_method"}
            given: dict[str, Any] = {renamed.get(k, k): v for k, v in options.items()}
            given |= {"method": method, "scales": None if scale is None else (scale,)}

            def call(x: Any, m: int = m, given: Any = given) -> Any:
                return op.image.resize1d(x, (m,), coordinate_transformation_mode=mode, **given)

            weights = resize_matrix(n, m, mode, method, scale, **options).T

            def reference(x: Any, weights: Any = weights) -> Any:
                return (x @ weights).astype("float32")

            name = f"{mode} {method} {n} to {m} {options}"
            cases.append(Case(name, call, reference, floats(1, 2, n), rtol=1e-4, atol=1e-4))
    check(cases)


def doubled(x: np.ndarray) -> np.ndarray:
    rows = resize_matrix(4, 8, "half_pixel", "linear", None)
    columns = resize_matrix(6, 12, "half_pixel", "linear", None)
    return rows @ x @ columns.T


def test_other_forms_of_resizing() -> None:
    x, bytes_ = floats(2, 2, 4, 6), RNG.integers(0, 256, (1, 1, 4, 6)).astype("uint8")
    line, cube = floats(2, 2, 4), floats(1, 1, 4, 4, 6)

    def cropped(x: np.ndarray) -> np.ndarray:
        """From 1/3 of the rows to behind the last, the outer columns the wrong way around."""
        rows = [x[..., 1, :], x[..., 3, :], np.full_like(x[..., 0, :], 7)]
        picked = np.stack(rows, -2)
        return picked[..., [5, 0]]

    check(
        [
            Case("any sizes",
                 lambda x, sizes: op.image.resize2d(x, (sizes["h"] * 2, sizes["w"] * 2)),
                 lambda x: doubled(x).astype("float32"), x, shapes=[("n", 2, "h", "w")], atol=1e-5),
            Case("any sizes, nearest",
                 lambda x, sizes: op.image.resize2d(x, (sizes["h"] * 2, sizes["w"] * 2), method="nearest_neighbor",
                                                    coordinate_transformation_mode="asymmetric",
                                                    rounding_method="floor"),
                 lambda x: x.repeat(2, 2).repeat(2, 3), x, shapes=[("n", 2, "h", "w")]),
            *(Case(f"any sizes, perhaps one element: {n}",
                   lambda x, sizes: op.image.resize1d(
                       x, (floordiv(sizes["n"], 2),), scales=(0.5,),
                       coordinate_transformation_mode="pytorch_half_pixel"),
                   lambda x, n=n: (x @ resize_matrix(n, n // 2, "pytorch_half_pixel", "linear", 0.5).T).astype("float32"),
                   floats(1, 2, n), shapes=[(1, 2, "n")], atol=1e-5) for n in (2, 3, 6)),
            Case("NHWC", lambda x: op.image.resize2d(x, (8, 12), layout="NHWC"),
                 lambda x: doubled(x.transpose(0, 3, 1, 2)).transpose(0, 2, 3, 1).astype("float32"),
                 x.transpose(0, 2, 3, 1), atol=1e-5),
            Case("integers are rounded to", lambda x: op.image.resize2d(x, (8, 12)),
                 lambda x: np.rint(doubled(x)).astype("uint8"), bytes_),
            Case("one axis", lambda x: op.image.resize1d(x, (8,)),
                 lambda x: (x @ resize_matrix(4, 8, "half_pixel", "linear", None).T).astype("float32"), line, atol=1e-5),
            Case("three axes", lambda x: op.image.resize3d(x, (4, 8, 12)),
                 lambda x: doubled(x).astype("float32"), cube, atol=1e-5),
            Case("any axes", lambda x: op.image.resize(x, (8, 12), [-2, 3]), lambda x: doubled(x).astype("float32"), x,
                 atol=1e-5),
            Case("the same size", lambda x: op.image.resize2d(x, (4, 6)), lambda x: x, x),
            Case("a part", lambda x: op.image.resize2d(x, (3, 2), roi=[1 / 3, 1, 5 / 3, 0], extrapolation_value=7.0,
                                                       coordinate_transformation_mode="tf_crop_and_resize"),
                 cropped, x, atol=1e-4),
        ]
    )  # fmt: skip


@pytest.mark.parametrize("mode", [*MODES, "tf_crop_and_resize"])
def test_scales_that_are_known_when_it_runs(mode: str) -> None:
    """They give what those give that are known before."""
    x, roi = floats(1, 2, 6), np.array([0.25, 1.125], "float32")
    sizes = [(13, 2.3), (4, 0.7)]
    options = {"coordinate_transformation_mode": mode, "extrapolation_value": 7.0}
    kinds: list[dict[str, Any]] = [
        {"method": "linear"},
        {"method": "cubic", "exclude_outside": True},
        {"method": "nearest_neighbor", "rounding_method": "round_prefer_floor"},
    ]

    def both(x: Any, s: Any, r: Any) -> list[Any]:
        found = []
        for kind, (m, scale) in itertools.product(kinds, sizes):
            t = op.strided_slice(s, [0], [sizes.index((m, scale))], [sizes.index((m, scale)) + 1])
            first = op.image.dynamic_resize(x, (m,), t, r, axes=[2], **options, **kind)
            second = op.image.resize(x, (m,), [2], roi.tolist(), [scale], **options, **kind)
            found.append(op.subtract(first, second))
        return relax.Tuple(found)

    nothing = [np.zeros((1, 2, m), "float32") for _ in kinds for m, _ in sizes]
    scales = np.array([scale for _, scale in sizes], "float32")
    check([Case(mode, both, lambda *_: nothing, x, scales, roi, atol=1e-5)])


# ---------------------------------------------------------------------------------------- sampling


def sampled(x: np.ndarray, grid: np.ndarray, method: str, padding: str, align: bool) -> np.ndarray:
    """Return `x[n, c, h, w]` at places of `grid[n, h, w, 2]`, element by element."""
    sizes = x.shape[2:]
    result = np.zeros((*x.shape[:2], *grid.shape[1:-1]))

    def mirrored(p: float, n: int) -> float:
        low, span = (0.0, n - 1.0) if align else (-0.5, float(n))
        times, rest = divmod(abs(p - low), span)
        return float(np.clip((span - rest if times % 2 else rest) + low, 0, n - 1))

    def inside(p: float, n: int) -> float:
        if padding == "zeros":
            return p
        return float(np.clip(p, 0, n - 1)) if padding == "border" else mirrored(p, n)

    def load(at: tuple[int, ...], places: tuple[int, ...]) -> np.ndarray:
        if padding == "zeros" and not all(0 <= p < n for p, n in zip(places, sizes, strict=True)):
            return np.zeros(x.shape[1])
        brought = [int(inside(p, n)) for p, n in zip(places, sizes, strict=True)]
        return x[(at[0], slice(None), *brought)].astype("float64")

    for at in np.ndindex(*grid.shape[:-1]):
        exact = []
        for g, n in zip(grid[at][::-1], sizes, strict=True):
            p = (g + 1) / 2 * (n - 1) if align else ((g + 1) * n - 1) / 2
            exact.append(float(p) if method == "bicubic" else inside(float(p), n))
        if method == "nearest":
            value = load(at, tuple(round(p) for p in exact))
        else:
            taps = range(-1, 3) if method == "bicubic" else range(2)
            value = np.zeros(x.shape[1])
            for offsets in itertools.product(taps, repeat=len(sizes)):
                places = tuple(int(np.floor(p)) + o for p, o in zip(exact, offsets, strict=True))
                weight = 1.0
                for p, k in zip(exact, places, strict=True):
                    weight *= keys(p - k, -0.75) if method == "bicubic" else 1 - abs(p - k)
                value = value + weight * load(at, places)
        result[(at[0], slice(None), *at[1:])] = value
    return result.astype("float32")


@pytest.mark.parametrize("rank", [2, 3])
def test_sampling(rank: int) -> None:
    x = floats(2, 3, *(5, 6, 4)[:rank])
    grid = RNG.uniform(-1.4, 1.4, (2, *(4, 3, 5)[:rank], rank)).astype("float32")
    cases = []
    for method in ("bilinear", "nearest", "bicubic")[: 5 - rank]:
        for k, padding in enumerate(("zeros", "border", "reflection")):
            align = (k + len(method)) % 2 == 0
            options = {"method": method, "padding_mode": padding, "align_corners": align}

            def call(x: Any, g: Any, options: dict[str, Any] = options) -> Any:
                return op.image.grid_sample(x, g, **options)

            def reference(x: Any, g: Any, own: Any = (method, padding, align)) -> Any:
                return sampled(x, g, *own)

            cases.append(Case(str(options), call, reference, x, grid, rtol=1e-4, atol=1e-4))
    check(cases)


def grid_of(theta: np.ndarray, sizes: tuple[int, ...], align: bool) -> np.ndarray:
    axes = [
        np.linspace(-1, 1, n) if align else (2 * np.arange(n) + 1) / n - 1 for n in sizes
    ]  # fmt: skip
    places = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(sizes)], -1)
    return np.einsum("nij,...j->n...i", theta, places).astype("float32")


def test_grids() -> None:
    check(
        [
            Case(
                f"{sizes} {align}",
                lambda t, s=sizes, a=align: op.image.affine_grid(t, s, a),
                lambda t, s=sizes, a=align: grid_of(t, s, a),
                floats(2, len(sizes), len(sizes) + 1),
                atol=1e-5,
            )
            for sizes in ((4, 5), (3, 4, 2))
            for align in (False, True)
        ]
    )


def aligned(
    x: np.ndarray, rois: np.ndarray, batch: np.ndarray, mode: str, half: bool
) -> np.ndarray:
    """Return parts resampled to 3 x 4 bins of 2 x 2 samples, at half the size."""
    result = np.zeros((len(rois), x.shape[1], 3, 4), "float32")
    height, width = x.shape[2:]
    for r, c, py, px in np.ndindex(*result.shape):
        x1, y1, x2, y2 = rois[r] * 0.5 - (0.5 if half else 0)
        h, w = (y2 - y1, x2 - x1) if half else (max(y2 - y1, 1), max(x2 - x1, 1))
        values = []
        for iy, ix in itertools.product(range(2), repeat=2):
            y = y1 + (py + (iy + 0.5) / 2) * h / 3
            z = x1 + (px + (ix + 0.5) / 2) * w / 4
            if not (-1 <= y <= height and -1 <= z <= width):
                values.append([0.0])
                continue
            y, z = np.clip(y, 0, height - 1), np.clip(z, 0, width - 1)
            low = min(int(y), height - 2), min(int(z), width - 2)
            ly, lz = y - low[0], z - low[1]
            image = x[batch[r], c]
            values.append(
                [
                    (1 - ly if a == 0 else ly) * (1 - lz if b == 0 else lz) * image[low[0] + a, low[1] + b]
                    for a, b in itertools.product(range(2), repeat=2)
                ]
            )  # fmt: skip
        if mode == "avg":
            result[r, c, py, px] = sum(map(sum, values)) / 4
        else:
            result[r, c, py, px] = max(map(max, values))
    return result


def test_parts_of_feature_maps() -> None:
    x = floats(2, 1, 9, 10)
    rois = np.array([[1, 2, 4.5, 7], [-2, -3, 5, 20]], "float32")
    batch = np.array([1, 0])
    check(
        [
            Case("samples as many as elements", lambda x, r, b: op.vision.roi_align(x, r, b, (2, 2)),
                 lambda x, r, b: x[:, :, :4, :4].reshape(2, 1, 2, 2, 2, 2).mean((3, 5)),
                 x.round() * 0 + 3, np.array([[0, 0, 4, 4]] * 2, "float32"), np.array([0, 1]), atol=1e-5),
            Case("max", lambda x, r, b: op.vision.roi_align(x, r, b, (3, 4), 0.5, 2, True, "max"),
                 lambda x, r, b: aligned(x, r, b, "max", True), x, rois, batch, atol=1e-5),
        ]
    )  # fmt: skip


# ------------------------------------------------------------------------------------- rearranging


def test_padding() -> None:
    x = floats(3, 4, 5)
    cases = []
    for mode in ("constant", "reflect", "symmetric", "edge", "wrap"):
        for w in [(0, 0, 1, 2, 2, 1), (2, 0, 3, 3, 4, 4), (7, 9, 0, 0, 5, 11)]:
            pairs = list(zip(w[::2], w[1::2], strict=True))
            more = {"constant_values": 1.5} if mode == "constant" else {}
            cases.append(
                Case(
                    f"{mode} {w}",
                    lambda x, w=w, m=mode: op.nn.pad(x, w, m, 1.5 if m == "constant" else 0.0),
                    lambda x, p=pairs, m=mode, more=more: np.pad(x, p, m, **more),
                    x,
                )
            )
    check(
        [
            *cases,
            Case("cut off", lambda x: op.nn.pad(x, (-1, 0, 2, -1, 0, -2)),
                 lambda x: np.pad(x[1:, :-1, :-2], [(0, 0), (2, 0), (0, 0)]), x),
            Case("cut off and mirrored", lambda x: op.nn.pad(x, (-1, 0, 2, -1, 0, 0), "reflect"),
                 lambda x: np.pad(x, [(0, 0), (2, 0), (0, 0)], "reflect")[1:, :-1], x),
            Case("nothing", lambda x: op.nn.pad(x, (0,) * 6), lambda x: x, x),
            Case("any sizes", lambda x: op.nn.pad(x, (0, 0, 1, 2, 7, 9), "reflect"),
                 lambda x: np.pad(x, [(0, 0), (1, 2), (7, 9)], "reflect"), x, shapes=[("a", "b", "c")]),
            Case("bools", lambda x: op.nn.pad(x, (1, 1), "constant", True),
                 lambda x: np.pad(x, 1, constant_values=True), np.array([False, True])),
        ]
    )  # fmt: skip


def shuffled(x: np.ndarray) -> np.ndarray:
    n, c, h, w = x.shape
    return (
        x.reshape(n, c // 4, 2, 2, h, w)
        .transpose(0, 1, 4, 2, 5, 3)
        .reshape(n, c // 4, 2 * h, 2 * w)
    )


def by_depth(x: np.ndarray) -> np.ndarray:
    n, c, h, w = x.shape
    return (
        x.reshape(n, 2, 2, c // 4, h, w)
        .transpose(0, 3, 4, 1, 5, 2)
        .reshape(n, c // 4, 2 * h, 2 * w)
    )


def columns(x: np.ndarray) -> np.ndarray:
    source = padded(x, [(1, 1), (1, 1)])
    parts = [window.reshape(len(x), -1) for _, window in windows(source, (3, 2), 2, 2)]
    return np.stack(parts, 2)


def test_rearranging() -> None:
    x, y = floats(2, 8, 3, 4), floats(2, 3, 6, 7)
    count = columns(y).shape[2]
    counts = columns(np.ones_like(y)).astype("float32")
    options = {"strides": 2, "padding": 1, "dilation": 2}

    def places(c: np.ndarray) -> np.ndarray:
        """Add up columns by where the elements of an image of their numbers went."""
        numbers = np.arange(1, y[0].size + 1, dtype="float64").reshape(1, *y.shape[1:])
        flat = np.zeros((len(c), y[0].size + 1))
        for at, number in np.ndenumerate(columns(numbers)[0]):
            flat[:, int(number)] += c[(slice(None), *at)]
        return flat[:, 1:].reshape(len(c), *y.shape[1:]).astype("float32")

    check(
        [
            Case("depth_to_space", lambda x: op.nn.depth_to_space(x, 2), by_depth, x),
            Case("depth_to_space, CRD", lambda x: op.nn.depth_to_space(x, 2, mode="CRD"), shuffled, x),
            Case("there and back", lambda x: op.nn.space_to_depth(op.nn.depth_to_space(x, 2), 2), lambda x: x, x),
            Case("there and back, CRD",
                 lambda x: op.nn.space_to_depth(op.nn.depth_to_space(x, 2, mode="CRD"), 2, mode="CRD"), lambda x: x, x),
            Case("pixel_shuffle", lambda x: op.nn.pixel_shuffle(x, 2), shuffled, x, shapes=[("n", 8, "h", 4)]),
            Case("pixel_unshuffle", lambda x: op.nn.pixel_unshuffle(op.nn.pixel_shuffle(x, 2), 2), lambda x: x, x),
            Case("channel_shuffle", lambda x: op.nn.channel_shuffle(x, 4),
                 lambda x: x.reshape(2, 4, 2, 3, 4).swapaxes(1, 2).reshape(x.shape), x),
            Case("im2col", lambda x: op.nn.im2col(x, (3, 2), **options), columns, y),
            Case("col2im", lambda c: op.nn.col2im(c, (6, 7), (3, 2), **options), places, floats(2, 18, count),
                 atol=1e-5),
            Case("col2im of ones", lambda c: op.nn.col2im(c, (6, 7), (3, 2), **options), places, counts),
        ]
    )  # fmt: skip
