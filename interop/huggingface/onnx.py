"""Write a trained model as an ONNX graph: the logits of whole texts, by way of its model in transformers."""

from __future__ import annotations

import io
import logging
import warnings
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import onnxruntime
import torch
from torch import Tensor
from torch.export import Dim
from transformers import PreTrainedModel
from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter

from configs.errors import UserError
from interop.huggingface.check import LARGEST, random_tokens
from interop.huggingface.export import in_transformers, save_tokenizers
from interop.huggingface.imported import is_imported
from interop.model_card import Usage, model_card
from interop.settings import ExportSettings
from interop.trained import Trained
from model.encoder_decoder import EncoderDecoder

GRAPH = "model.onnx"

USE = """```python
NUMPYimport onnxruntime
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("FOLDER", trust_remote_code=False)
session = onnxruntime.InferenceSession("FOLDER/model.onnx")
inputs = dict(tokenizer("TEXT", return_tensors="np"))
TARGETlogits = session.run(["logits"], inputs)[0]
```

The graph computes the logits of whole texts of any length up to the context, without a cache of keys and
values.INPUTS"""

TRANSLATING = """ The input `decoder_input_ids` begins with the id of bos, BOS, and goes on with the tokens
written so far; the last row of the logits belongs to the next one."""


def write_onnx(trained: Trained, folder: Path, settings: ExportSettings) -> list[str]:
    """Write graph, weights, tokenizer and model card; as `interop.formats.Exporter`."""
    if is_imported(trained):
        fix = "use format=huggingface, and OnnxExporter of transformers on that folder"
        raise UserError(f"format=onnx: the model came from transformers (init_from): {fix}")
    theirs = in_transformers(trained)
    theirs.generation_config = None  # which is not part of a graph
    save_graph(theirs, inputs(trained, 7, 9), folder)
    save_tokenizers(trained, folder)
    checks = [check_graph(trained, folder)]
    use = Usage("onnx", ["onnxruntime"], usage(trained))
    (folder / "README.md").write_text(model_card(trained, use, checks), encoding="utf-8")
    return [f"{settings.to}: {GRAPH} for ONNX Runtime and others", *checks, "README.md: how to use it"]


def usage(trained: Trained) -> str:
    """Return the Markdown of how to use the graph."""
    values = {"NUMPY": "", "TEXT": "Once upon a time", "TARGET": "", "INPUTS": ""}
    if isinstance(trained.model, EncoderDecoder):
        first = 'inputs["decoder_input_ids"] = numpy.array([[BOS]])\n'
        values = {"NUMPY": "import numpy\n", "TEXT": "I like apples.", "TARGET": first, "INPUTS": TRANSLATING}
    text = USE
    for name, value in values.items():
        text = text.replace(name, value)
    return text.replace("BOS", str(trained.tokenizers[-1].bos_id))


def inputs(trained: Trained, source: int, target: int) -> dict[str, Tensor]:
    """Return random inputs of the graph: sources of `source` tokens and targets, or texts, of `target` tokens."""
    model = trained.model
    tokens = random_tokens(model.vocab_size, target)
    if not isinstance(model, EncoderDecoder):
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    sources = random_tokens(model.source_vocab, source)
    return {"input_ids": sources, "attention_mask": torch.ones_like(sources), "decoder_input_ids": tokens}


def save_graph(theirs: PreTrainedModel, sample: dict[str, Tensor], folder: Path) -> None:
    """Trace a model and write the graph, in which the sizes of the inputs are variables."""
    theirs.config.use_cache = False
    sizes = {name: dict.fromkeys(range(value.dim()), Dim.AUTO) for name, value in sample.items()}
    noisy = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in noisy]
    try:
        for logger in noisy:
            logger.setLevel(logging.ERROR)
        with redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exported = OnnxExporter().export(theirs, sample, config=OnnxConfig(dynamic_shapes=sizes))
            if hasattr(exported, "save_pretrained"):
                exported.save_pretrained(folder)
            else:  # before transformers 5.23: the ONNXProgram of torch
                exported.save(folder / GRAPH, external_data=True)
    finally:
        for logger, level in zip(noisy, levels, strict=True):
            logger.setLevel(level)


@torch.no_grad()
def check_graph(trained: Trained, folder: Path) -> str:
    """Compare the logits of the graph, run by ONNX Runtime, with ours, on inputs of other sizes than those traced.
    Raises UserError if they differ."""
    model = trained.model
    context = model.config.context
    sample = inputs(trained, max(1, context // 2), context)
    session: Any = onnxruntime.InferenceSession(str(folder / GRAPH))
    found = torch.from_numpy(session.run(["logits"], {name: value.numpy() for name, value in sample.items()})[0])
    if isinstance(model, EncoderDecoder):
        expected = model(sample["input_ids"], sample["decoder_input_ids"])
    else:
        expected = model(sample["input_ids"])
    difference = float((found - expected).abs().max() / expected.abs().max().clamp(min=1))
    version = f"ONNX Runtime {onnxruntime.__version__}"
    if not difference <= LARGEST:
        raise UserError(f"{version} computes other logits (they differ by {difference:.2g}): the export is wrong")
    return f"logits equal Chumoku's within {difference:.1g} on {len(expected)} random inputs ({version}, float32)"
