"""Networks of torch, small ones, beside torch: every result within a stated tolerance."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="models of torch need the extra `torch`")

from torch.export import Dim

from benchmarks import torch_models as models
from tests.exported import check

STAGES = (1, 1, 1, 1)


def test_resnet_of_basic_blocks() -> None:
    network = models.seeded(lambda: models.ResNet(models.Basic, (2, 1, 1, 1), 8, 10))
    check(network, models.picture(33), rtol=1e-4)


def test_resnet_of_bottlenecks() -> None:
    network = models.seeded(lambda: models.ResNet(models.Bottleneck, STAGES, 8, 10))
    check(network, models.picture(32), rtol=1e-4)


def test_mobile_net_v2() -> None:
    network = models.seeded(lambda: models.MobileNetV2(((1, 16, 1, 1), (6, 24, 2, 2)), 40))
    check(network, models.picture(32), rtol=1e-4)


def test_block_of_mobile_net_v3() -> None:
    check(models.seeded(models.MobileNetV3Block), (torch.rand(1, 16, 9, 9),), rtol=1e-4)


def test_vision_transformer() -> None:
    network = models.seeded(lambda: models.ViT(2, 32, 2, 16, 8, 10))
    check(network, models.picture(16, 2), rtol=1e-4)


def test_bert_of_any_batch_and_length() -> None:
    batch, length = Dim("batch"), Dim("length", max=24)
    check(
        models.seeded(lambda: models.Bert(2, 32, 2, 50, 24)),
        models.bert_inputs(50, 16, 2),
        models.bert_inputs(50, 9, 3),
        models.bert_inputs(50, 24, 1),
        dynamic={name: {0: batch, 1: length} for name in ("ids", "segments", "mask")},
        rtol=1e-4,
    )


def test_gpt2_with_tied_weights() -> None:
    network = models.seeded(lambda: models.Gpt2(2, 32, 2, 50, 24))
    check(network, (models.text(50, 16, 2),), rtol=1e-4)


def test_gpt2_of_any_length() -> None:
    check(
        models.seeded(lambda: models.Gpt2(1, 32, 2, 50, 24)),
        (models.text(50, 16, 2),),
        (models.text(50, 5, 2),),
        dynamic={"ids": {1: Dim("length", max=24)}},
        rtol=1e-4,
    )


def test_recurrent_layers() -> None:
    check(models.seeded(models.Tagger), (torch.rand(2, 5, 8),), rtol=1e-4)


def test_linear_layers_of_any_batch() -> None:
    check(
        models.seeded(lambda: models.mlp((12, 9, 5))),
        (torch.rand(3, 12),),
        (torch.rand(1, 12),),
        (torch.rand(17, 12),),
        dynamic={"input": {0: Dim("batch")}},
    )


# ------------------------------------------------------------------------------------ transformers


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_bert_of_transformers(attention: str) -> None:
    transformers = pytest.importorskip("transformers", reason="a model of transformers")
    config = transformers.BertConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
    )
    config._attn_implementation = attention
    torch.manual_seed(0)
    model = transformers.BertModel(config).eval()
    ids, _, mask = models.bert_inputs(50, 16, 2)

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
            out = self.model(input_ids=ids, attention_mask=mask)
            return out.last_hidden_state, out.pooler_output

    check(Encoder().eval(), (ids, mask), rtol=1e-4)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_gpt2_of_transformers(attention: str) -> None:
    transformers = pytest.importorskip("transformers", reason="a model of transformers")
    config = transformers.GPT2Config(
        vocab_size=50,
        n_positions=32,
        n_embd=32,
        n_layer=1,
        n_head=2,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
    )
    config._attn_implementation = attention
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(config).eval()

    class Decoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.model(input_ids=ids).logits

    check(Decoder().eval(), (models.text(50, 16, 2),), rtol=1e-4)
