"""QK and OV circuits against attention and attribution of real forward passes."""

from __future__ import annotations

import pytest
import torch

from interpretability.circuits import TokenTable, circuits
from interpretability.residual_stream import record_residual_stream
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from model.recording import record_attention
from tests.interpretability.test_head_behaviours import DRAWN, induction_model

IDS = torch.arange(20)
OPTIONS = [
    {"position": "rotary", "qk_norm": True, "kv_heads": 2},
    {"position": "rotary", "norm": "layer", "bias": True},
    {"position": "rotary", "norm": "layer", "block": "post_norm"},
]


def randomised(model: torch.nn.Module) -> None:
    """Give every parameter, also gains and biases, random values."""
    torch.manual_seed(0)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.eval()


@pytest.mark.parametrize("options", OPTIONS, ids=["rms", "layer", "post_norm"])
@torch.no_grad()
def test_first_layer_circuits_match_the_model(options: dict) -> None:
    """Guards against a wrong head, group, norm, rotation, scale or projection."""
    model = GPT(ModelConfig(layers=2, heads=4, width=32, context=16, **options), vocab_size=20)
    randomised(model)
    for head in (0, 3):
        head_circuits = circuits(model, "decoder", 0, head, IDS, IDS, 2)
        scores, logits = head_circuits.attends.values(), head_circuits.writes.values()
        ratios = []
        for key in (5, 9):
            with record_attention(model) as seen:
                model(torch.tensor([[key, 1, 7]]))
            weights = seen.weights["decoder", 0][0, head, 2].log()
            ratios.append(float(weights[0] - weights[1]))
        assert ratios[1] - ratios[0] == pytest.approx(float(scores[7, 9] - scores[7, 5]), abs=1e-4)
        differences = []
        for token in (5, 9):
            with record_residual_stream(model) as stream:
                model(torch.tensor([[token]]))
            place = [(part.kind, part.layer, part.head) for part in stream.parts()].index(("decoder", 0, head))
            scale = torch.ones(())  # of all norms after the head
            for norm, x in stream.before_norms.items():
                centred = x if model.config.norm == "rms" else x - x.mean(dim=-1, keepdim=True)
                scale = scale * (centred.square().mean() + norm.eps).rsqrt()
            both = stream.attribution(torch.tensor([[[3, 11]]]))[place, 0, 0] / scale
            differences.append(float(both[0] - both[1]))
        expected = (logits[5, 3] - logits[5, 11]) - (logits[9, 3] - logits[9, 11])
        assert differences[0] - differences[1] == pytest.approx(float(expected), abs=1e-3)


@torch.no_grad()
def test_cross_attention_links_the_two_vocabularies() -> None:
    """Guards against exchanged sides: rows are target tokens and columns source tokens, of other sizes."""
    model = EncoderDecoder(ModelConfig(layers=1, heads=2, width=16, context=16), 12, 20)
    randomised(model)
    head_circuits = circuits(model, "cross", 0, 1, torch.arange(12), IDS, 0)
    assert head_circuits.attends.values().shape == (20, 12)
    assert head_circuits.writes is not None
    assert head_circuits.writes.values().shape == (12, 20)
    assert head_circuits.copying is None
    encoder = circuits(model, "encoder", 0, 0, torch.arange(12), IDS, -1)
    assert encoder.attends.values().shape == (12, 12)
    assert encoder.writes is None


def test_a_copying_head_has_the_highest_score_and_random_heads_none() -> None:
    """Guards the score of a head from its weights alone: at least .95 for the hand-built induction head."""
    drawn = torch.tensor(DRAWN)
    head_circuits = circuits(induction_model(), "decoder", 1, 0, drawn, drawn, 1)
    assert head_circuits.copying is not None
    assert head_circuits.copying >= 0.95
    assert head_circuits.writes is not None
    assert head_circuits.writes.share_on_diagonal() == 1.0
    torch.manual_seed(0)
    model = GPT(ModelConfig(layers=4, heads=2, width=128, context=16), vocab_size=200).eval()
    ids = torch.arange(200)
    scores = [
        circuits(model, "decoder", layer, head, ids, ids, 1).copying or 0.0 for layer in range(4) for head in (0, 1)
    ]
    assert abs(sum(scores) / len(scores)) <= 0.05


def test_the_strongest_pairs_are_found_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against pairs that are lost between blocks, and eigenvalues of the thin product."""
    torch.manual_seed(0)
    table = TokenTable(torch.randn(50, 4), torch.randn(50, 4))
    monkeypatch.setattr("interpretability.circuits.BLOCK", 7)
    values = table.values()
    expected = values.flatten().topk(10)
    assert [value for *_, value in table.strongest(10)] == pytest.approx(expected.values.tolist())
    assert [row * 50 + column for row, column, _ in table.strongest(10)] == expected.indices.tolist()
    assert table.share_on_diagonal() == pytest.approx(float((values.argmax(1) == torch.arange(50)).float().mean()))
    eigenvalues = torch.linalg.eigvals(values.double())
    assert table.sum_of_eigenvalues() == pytest.approx(
        float(eigenvalues.sum().real / eigenvalues.abs().sum()), abs=1e-4
    )
