"""Compare recording all attention maps of one sentence pair with transformers' `output_attentions`.

Our recorder also checks the maps against the fused kernel, measures the norms of the heads' outputs, and stores losses
and the most likely next tokens. "with the file" also writes the recording to disk, as in every evaluation of a training
run. `recording_cost` measures the fraction of a real run's time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.contender import Benchmark, Comparison, Contender, Step
from benchmarks.harness import MeasureSettings, measure

LAYERS, HEADS, WIDTH, LENGTH, VOCABULARY = 6, 8, 256, 128, 1000


@dataclass
class RecordingSettings(MeasureSettings):
    """Settings of `recording`."""

    seconds: float = 1.0
    warm_up: float = 1.0


def recording(settings: RecordingSettings) -> None:
    """Measure recordings of all attention maps of one sentence pair per second: ours, transformers."""

    def ours(label: str, **arguments: Any) -> Contender:
        return Contender(label, f"{__name__}:ours", arguments, True)

    contenders = (
        ours("ours", file=False, precision="auto"),
        ours("ours in float32", file=False, precision="float32"),
        ours("ours with the file", file=True, precision="auto"),
        Contender("transformers Marian output_attentions float32", f"{__name__}:marian"),
    )
    shape = f"{LAYERS}+{LAYERS} layers x {HEADS} heads, {LENGTH} tokens a side"
    what = f"Recording all attention maps of a pair ({shape}); the peer only returns them"
    comparison = Comparison(what, ("ours",), (contenders[-1].name,))
    title = f"Every attention map of one sentence pair, {shape}"
    measure(Benchmark("recording", title, "recordings", contenders, "ours", (comparison,)), settings)


def ours(file: bool, precision: str) -> Step:
    """Return a step that records a newly initialised model; if `file`, each recording is saved, replacing the last."""
    from attention_maps.files import store
    from attention_maps.record.example import Example
    from benchmarks.ours import folder_until_exit
    from interpretability.recorder import record
    from model.config import ModelConfig
    from model.encoder_decoder import EncoderDecoder
    from training.hardware.device import choose_hardware

    hardware = choose_hardware("auto", precision, None)
    torch.manual_seed(1)
    config = ModelConfig(layers=LAYERS, heads=HEADS, width=WIDTH, context=LENGTH)
    model = EncoderDecoder(config, VOCABULARY, VOCABULARY, shared=True).to(hardware.device, hardware.dtype).eval()
    source, target, following = torch.randint(4, VOCABULARY, (3, LENGTH)).tolist()
    pieces = [f"#{number}" for number in range(LENGTH)]
    example = Example(target, pieces, following, pieces, source, pieces)
    folder = folder_until_exit()

    def step() -> int:
        recorded = record(model, [example], special_ids=range(4), step=0, max_tokens=LENGTH)
        if file:
            store.save(recorded, folder)
        return 1

    return step


def marian() -> Step:
    """Return a forward pass of MarianMTModel with explicit attention that returns all attention weights."""
    from benchmarks.device import device
    from benchmarks.peers.translation import marian_model

    torch.manual_seed(1)
    model = marian_model(VOCABULARY, LAYERS, HEADS, WIDTH, LENGTH, dropout=0.0).to(device()).eval()
    model.set_attn_implementation("eager")  # fused attention does not return the weights
    source, target = torch.randint(4, VOCABULARY, (2, 1, LENGTH), device=device())

    @torch.no_grad()
    def step() -> int:
        found = model(input_ids=source, decoder_input_ids=target, output_attentions=True, use_cache=False)
        maps = (*found.encoder_attentions, *found.decoder_attentions, *found.cross_attentions)
        return int(len([each.float().cpu() for each in maps]) == 3 * LAYERS)

    return step
