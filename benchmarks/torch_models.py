"""Networks of torch with random weights from a seed, for benchmarks and for tests of front ends.

Each is written down as its paper has it, without any other package than torch. `MODELS` has the
ones that are timed, by name: a function that gives the module and its inputs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from inspect import signature
from itertools import pairwise
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# ---------------------------------------------------------------------------------- convolutions


def conv_bn(
    inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    """A convolution that keeps the size but for its stride, and the normalisation of a batch."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    )


class Basic(nn.Module):
    """Two convolutions of 3x3 and a shortcut (He et al., 2015)."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.first = conv_bn(inputs, width, 3, stride)
        self.second = conv_bn(width, width, 3)
        is_same = stride == 1 and inputs == width
        self.shortcut = nn.Identity() if is_same else conv_bn(inputs, width, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.second(F.relu(self.first(x))) + self.shortcut(x))


class Bottleneck(nn.Module):
    """Convolutions of 1x1, 3x3 and 1x1, and a shortcut (He et al., 2015)."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.first = conv_bn(inputs, width, 1)
        self.second = conv_bn(width, width, 3, stride)
        self.third = conv_bn(width, outputs, 1)
        is_same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if is_same else conv_bn(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        inner = F.relu(self.second(F.relu(self.first(x))))
        return F.relu(self.third(inner) + self.shortcut(x))


class ResNet(nn.Module):
    """A residual network: four stages of so many blocks."""

    def __init__(
        self,
        block: type[Basic] | type[Bottleneck],
        counts: Sequence[int],
        width: int = 64,
        classes: int = 1000,
    ) -> None:
        super().__init__()
        self.stem = conv_bn(3, width, 7, 2)
        blocks: list[nn.Module] = []
        channels = width
        for stage, count in enumerate(counts):
            for k in range(count):
                stride = 2 if stage > 0 and k == 0 else 1
                blocks.append(block(channels, width << stage, stride))
                channels = (width << stage) * block.expansion
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.stem(x)), 3, 2, 1)
        x = F.adaptive_avg_pool2d(self.blocks(x), 1)
        return self.head(torch.flatten(x, 1))


class Inverted(nn.Module):
    """Wider by 1x1, depthwise, narrower by 1x1, and a shortcut (Sandler et al., 2018)."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        layers: list[nn.Module] = []
        if expansion != 1:
            layers += [conv_bn(inputs, hidden, 1), nn.ReLU6(inplace=True)]
        layers += [conv_bn(hidden, hidden, 3, stride, hidden), nn.ReLU6(inplace=True)]
        layers += [conv_bn(hidden, outputs, 1)]
        self.layers = nn.Sequential(*layers)
        self.is_residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.is_residual else self.layers(x)


class MobileNetV2(nn.Module):
    """Inverted residuals; rows of (expansion, channels, count, stride)."""

    ROWS: Final = (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
        (6, 160, 3, 2), (6, 320, 1, 1),
    )  # fmt: skip

    def __init__(self, rows: Sequence[tuple[int, int, int, int]] = ROWS, last: int = 1280) -> None:
        super().__init__()
        layers: list[nn.Module] = [conv_bn(3, 32, 3, 2), nn.ReLU6(inplace=True)]
        channels = 32
        for expansion, outputs, count, stride in rows:
            for k in range(count):
                layers.append(Inverted(channels, outputs, stride if k == 0 else 1, expansion))
                channels = outputs
        layers += [conv_bn(channels, last, 1), nn.ReLU6(inplace=True)]
        self.layers = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(last, 1000))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(x).mean([2, 3]))


class MobileNetV3Block(nn.Module):
    """An inverted residual with hard swish, whose channels are weighed (Howard et al., 2019)."""

    def __init__(self, channels: int = 16, hidden: int = 24, size: int = 5) -> None:
        super().__init__()
        self.widen = nn.Sequential(conv_bn(channels, hidden, 1), nn.Hardswish())
        self.depth = nn.Sequential(conv_bn(hidden, hidden, size, 1, hidden), nn.Hardswish())
        self.weigh = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(hidden, 8, 1),
            nn.ReLU(),
            nn.Conv2d(8, hidden, 1),
            nn.Hardsigmoid(),
        )
        self.narrow = conv_bn(hidden, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.depth(self.widen(x))
        return x + self.narrow(y * self.weigh(y))


# ---------------------------------------------------------------------------------- transformers


class Attention(nn.Module):
    """Attention of several heads; `causal` lets nothing look ahead."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def _split(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        return x.view(batch, length, self.heads, width // self.heads).transpose(1, 2)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = (self._split(layer(x)) for layer in (self.query, self.key, self.value))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(x.shape))


class PostNormLayer(nn.Module):
    """A layer of BERT: normalised behind the sums."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads, causal=False)
        self.norm1, self.norm2 = nn.LayerNorm(width, 1e-12), nn.LayerNorm(width, 1e-12)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class PreNormLayer(nn.Module):
    """A layer of GPT-2 and ViT: normalised in front of attention and of the two linear layers."""

    def __init__(self, width: int, heads: int, causal: bool, approximate: str) -> None:
        super().__init__()
        self.attention = Attention(width, heads, causal)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x), None)
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate=self.approximate))


class Bert(nn.Module):
    """An encoder of words, places and segments (Devlin et al., 2018)."""

    def __init__(
        self, layers: int = 2, width: int = 768, heads: int = 12, words: int = 30522,
        places: int = 512,
    ) -> None:  # fmt: skip
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(places, width)
        self.segments = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, 1e-12)
        self.layers = nn.ModuleList(PostNormLayer(width, heads) for _ in range(layers))
        self.pooler = nn.Linear(width, width)
        self.register_buffer("position_ids", torch.arange(places)[None], persistent=False)
        self.position_ids: Tensor

    def forward(self, ids: Tensor, segments: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        x = self.words(ids) + self.segments(segments)
        x = self.norm(x + self.places(self.position_ids[:, : ids.shape[1]]))
        keep = mask[:, None, None, :] != 0
        for layer in self.layers:
            x = layer(x, keep)
        return x, torch.tanh(self.pooler(x[:, 0]))


class Gpt2(nn.Module):
    """A decoder whose last matrix is that of the words (Radford et al., 2019)."""

    def __init__(
        self, layers: int = 1, width: int = 768, heads: int = 12, words: int = 50257,
        places: int = 1024,
    ) -> None:  # fmt: skip
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(places, width)
        self.layers = nn.ModuleList(PreNormLayer(width, heads, True, "tanh") for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class LlamaStep(nn.Module):
    """The step of a decoder layer that adds a token (Touvron et al., 2023), with grouped heads.

    `keys` and `values` are buffers, in which it stores those of the token at `position`.
    """

    def __init__(
        self, width: int = 1024, heads: int = 8, shared: int = 2, depth: int = 128,
        places: int = 32768,
    ) -> None:  # fmt: skip
        super().__init__()
        self.heads, self.shared, self.depth = heads, shared, depth
        self.query = nn.Linear(width, heads * depth, bias=False)
        self.key, self.value = (nn.Linear(width, shared * depth, bias=False) for _ in range(2))
        self.out = nn.Linear(heads * depth, width, bias=False)
        self.gate, self.up = (nn.Linear(width, 8 * width // 3, bias=False) for _ in range(2))
        self.down = nn.Linear(8 * width // 3, width, bias=False)
        self.norm1, self.norm2 = nn.RMSNorm(width, 1e-5), nn.RMSNorm(width, 1e-5)
        frequencies = 10000.0 ** (-torch.arange(0, depth, 2) / depth)
        angles = torch.outer(torch.arange(places), torch.cat([frequencies, frequencies]))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        for name in ("keys", "values"):
            cache = torch.rand(1, shared, places, depth) - 0.5
            self.register_buffer(name, cache)

    def _heads(self, x: Tensor, heads: int) -> Tensor:
        return x.view(1, 1, heads, self.depth).transpose(1, 2)

    def _rotated(self, x: Tensor, position: Tensor) -> Tensor:
        first, second = x.chunk(2, -1)
        turned = torch.cat([-second, first], -1)
        return x * self.cos[position] + turned * self.sin[position]

    def forward(self, x: Tensor, position: Tensor) -> Tensor:
        y = self.norm1(x)
        q = self._rotated(self._heads(self.query(y), self.heads), position)
        k = self._rotated(self._heads(self.key(y), self.shared), position)
        self.keys.index_copy_(2, position, k)
        self.values.index_copy_(2, position, self._heads(self.value(y), self.shared))
        mask = (torch.arange(self.keys.shape[2]) <= position)[None]
        y = F.scaled_dot_product_attention(q, self.keys, self.values, mask, enable_gqa=True)
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class ViT(nn.Module):
    """An encoder of patches of a picture (Dosovitskiy et al., 2020)."""

    def __init__(
        self, layers: int = 12, width: int = 768, heads: int = 12, size: int = 224,
        patch: int = 16, classes: int = 1000,
    ) -> None:  # fmt: skip
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.places = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width) * 0.02)
        self.layers = nn.Sequential(
            *(PreNormLayer(width, heads, False, "none") for _ in range(layers))
        )
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.norm(self.layers(x))[:, 0])


# --------------------------------------------------------------------------------------- others


class Tagger(nn.Module):
    """An LSTM that reads both ways, and a GRU behind it."""

    def __init__(self, inputs: int = 8, width: int = 16) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, width, 2, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(2 * width, width, batch_first=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, _ = self.lstm(x)
        return self.gru(y)


def mlp(sizes: Sequence[int] = (784, 256, 10)) -> nn.Sequential:
    """Linear layers, and ReLU between them."""
    layers: list[nn.Module] = []
    for k, (inputs, outputs) in enumerate(pairwise(sizes)):
        layers += [nn.ReLU()] * (k > 0) + [nn.Linear(inputs, outputs)]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Convolutions at three sizes, and back up beside those of each size (Ronneberger, 2015)."""

    def __init__(self, widths: Sequence[int] = (32, 64, 128, 256)) -> None:
        super().__init__()
        self.down = nn.ModuleList(
            [self._two(a, b) for a, b in pairwise((3, *widths))],
        )
        self.up = nn.ModuleList(
            [nn.ConvTranspose2d(b, a, 2, 2) for a, b in pairwise(widths)],
        )
        self.join = nn.ModuleList([self._two(2 * a, a) for a in widths[:-1]])
        self.last = nn.Conv2d(widths[0], 2, 1)

    @staticmethod
    def _two(inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(
            conv_bn(inputs, outputs, 3), nn.ReLU(), conv_bn(outputs, outputs, 3), nn.ReLU()
        )

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for k, step in enumerate(self.down):
            x = step(x if k == 0 else F.max_pool2d(x, 2))
            kept.append(x)
        for up, join, beside in zip(
            reversed(self.up), reversed(self.join), reversed(kept[:-1]), strict=True
        ):
            x = join(torch.cat([beside, up(x)], 1))
        return self.last(x)


# --------------------------------------------------------------------------------------- by name


def seeded(make: Callable[[], nn.Module], seed: int = 0) -> nn.Module:
    """Return a module for inference whose weights and kept statistics are random from a seed."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = make().eval()
        for part in module.modules():
            if isinstance(part, nn.BatchNorm2d):
                part.running_mean = torch.randn_like(part.weight.detach()) * 0.1
                part.running_var = torch.rand_like(part.weight.detach()) + 0.5
    return module


def picture(size: int, batch: int = 1) -> tuple[Tensor]:
    """Return pictures of random pixels."""
    return (torch.rand(batch, 3, size, size, generator=torch.Generator().manual_seed(1)),)


def text(words: int, length: int, batch: int = 1) -> Tensor:
    """Return texts of random words."""
    return torch.randint(words, (batch, length), generator=torch.Generator().manual_seed(1))


def bert_inputs(words: int, length: int, batch: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """Return a text, its two segments, and a mask that leaves its end out."""
    ids = text(words, length, batch)
    segments = (torch.arange(length) >= length // 2).long().expand(batch, length).contiguous()
    mask = (torch.arange(length) < length - length // 8).long().expand(batch, length).contiguous()
    return ids, segments, mask


Made = tuple[nn.Module, tuple[Tensor, ...]]

MODELS: Final[dict[str, Callable[[], Made]]] = {
    "ResNet-18": lambda: (seeded(lambda: ResNet(Basic, (2, 2, 2, 2))), picture(224)),
    "ResNet-50": lambda: (seeded(lambda: ResNet(Bottleneck, (3, 4, 6, 3))), picture(224)),
    "MobileNetV2": lambda: (seeded(MobileNetV2), picture(224)),
    "BERT-2": lambda: (seeded(Bert), bert_inputs(30522, 128)),
    "U-Net": lambda: (seeded(UNet), picture(128)),
    "MLP": lambda: (seeded(mlp), (torch.rand(1, 784),)),
    "GPT": lambda: (seeded(lambda: Gpt2(2, 512, 8, 5000, 512)), (text(5000, 64),)),
    "LSTM": lambda: (seeded(Tagger), (torch.rand(1, 32, 8),)),
    "Llama": lambda: (seeded(LlamaStep), (torch.rand(1, 1, 1024), torch.tensor([32000]))),
}
"""The models that are timed, as their papers have them, at a batch of 1."""


def model_named(name: str) -> Made:
    """Return a model of `MODELS`, or a classifier of torchvision; SystemExit for another name."""
    if name in MODELS:
        return MODELS[name]()
    try:
        from torchvision import models  # noqa: PLC0415 - not everybody has it

        make = models.get_model_builder(name)
    except (ImportError, ValueError) as error:
        raise SystemExit(
            f"unknown network {name!r} ({error}); expected {', '.join(MODELS)}, a network of "
            "torchvision, or a model of benchmarks.model_zoo"
        ) from error
    without = {name: None for name in signature(make).parameters if name.startswith("weights")}
    return seeded(lambda: make(**without)), picture(224)


# ----------------------------------------------------------------------------------- ONNX files


def onnx_file(name: str, folder: Path) -> Path:
    """Return the ONNX file of `model_named(name)`; torch's exporter writes it if it is missing."""
    path = folder / f"{name}.onnx"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        module, inputs = model_named(name)
        unfinished = path.with_suffix(".unfinished")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the exporter recommends another one
            try:
                torch.onnx.export(
                    module,
                    inputs,
                    str(unfinished),
                    dynamo=False,
                    opset_version=17,
                    input_names=[f"x{k}" for k in range(len(inputs))],
                )
            except torch.onnx.errors.OnnxExporterError as error:
                reason = str(error).split("\n", 1)[0]
                raise SystemExit(f"{name} cannot be written as an ONNX file: {reason}") from error
        unfinished.replace(path)
    return path
