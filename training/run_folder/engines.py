"""Load a run into a decoding engine. Imports torch only if it is needed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from configs.program import importing
from generation.config import GenerateConfig
from generation.engines.engine import Engine

if TYPE_CHECKING:
    from generation.recorded_maps import GeneratedMaps

Started = tuple[Engine, "Callable[[], GeneratedMaps] | None"]
"""The engine and, for `attention=true`, a function that creates the recorder of an answer."""


def start_engine(config: GenerateConfig) -> Started:
    """Load the run(s) of the command line into the engine that the user has chosen."""
    return start_torch(config) if config.engine == "torch" else start_ctranslate2(config)


def start_torch(config: GenerateConfig) -> Started:
    """Load the weights in the fastest format for this machine, or in the one that the user asked for."""
    with importing():
        from attention_maps.files.file_names import FOLDER
        from configs.run_contents import check_contents
        from generation.engines.torch_engine import TorchEngine
        from generation.neighbours.translation_memory import load_memory
        from generation.recorded_maps import GeneratedMaps
        from model.size import count_parameters
        from training.hardware.device import choose_hardware
        from training.hardware.number_format import decoding_format
        from training.run_folder.loaded_run import load_named

    run = load_named(str(config.run), config.checkpoint)
    if config.attention:
        check_contents(run.folder, written=FOLDER)
    device = choose_hardware(config.device, "float32", None, key="device").device
    run.model.to(device)
    weights = config.quantize or decoding_format(device, count_parameters(run.model))
    memory = load_memory(run.config.data, config.neighbours, config.reverse)
    engine = TorchEngine(run.model, run.tokenizers, config, weights, memory)

    def new_maps() -> GeneratedMaps:  # recorded with the unquantised weights
        most = run.config.attention.max_tokens
        return GeneratedMaps(run.folder, run.step, run.model, run.tokenizers, most, config.reverse)

    return engine, new_maps if config.attention else None


def start_ctranslate2(config: GenerateConfig) -> Started:
    """Export the run if that has not been done yet, and load the export."""
    with importing():
        from generation.engines.ctranslate_engine import CTranslate2Engine
        from training.run_folder.engine_folder import engine_folder
        from training.run_folder.saved_config import load_config, named_runs
        from training.run_folder.tokenizers import load_tokenizers

    ((run, checkpoint),) = named_runs(str(config.run), config.checkpoint)
    model = load_config(run).model
    folder = engine_folder(run, checkpoint, model)
    if config.quantize == "int8":
        print("note: weights and activations are rounded to 8 bits (quantize=int8)", file=sys.stderr)
    stream = sys.stdout.isatty()
    return CTranslate2Engine(folder, load_tokenizers(run), model.context, config, stream), None
