"""Write a trained GPT as a GGUF file for llama.cpp and Ollama."""

from __future__ import annotations

import math
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray
from torch import nn

from configs.errors import UserError
from data.tokens.tokenizer import Tokenizer
from interop.export_input import Trained
from interop.gguf.architecture import architecture
from interop.gguf.tensors import tensors
from interop.gguf.vocabulary import Vocabulary, vocabulary
from interop.model_card import Usage, model_card
from interop.settings import ExportSettings
from model.config import ModelConfig
from model.gpt import GPT
from model.layers import RMSNorm

FILE = "model.gguf"

ALPHA_P, ALPHA_N, BETA, EPS = math.log(math.e - 1), -1e4, 0.0, -1e-6
"""Parameters with which xIELU (Huang & Schlag 2024), the activation of Apertus, is relu(z)²: softplus(alpha_p) z² +
beta z for positive z, and (expm1(min(z, eps)) - z) softplus(alpha_n) + beta z for others, where softplus(alpha_n) is
0."""

USAGE = """```
llama-cli -m FOLDER/model.gguf -p "Once upon a time"
ollama create my-model -f FOLDER/Modelfile && ollama run my-model "Once upon a time"
llama-quantize FOLDER/model.gguf model-q8_0.gguf q8_0
```

The weights are float32. llama.cpp stores keys and values in float16 by default (`-ctk f32 -ctv f32` changes this),
and does not exclude the tokens that a text never contains (padding, unknown, begin of a translation)."""

GELU = " Its GELU is the approximation by tanh, read from a table in float16."

MODELFILE = 'FROM ./model.gguf\nTEMPLATE "{{ .Prompt }}"\nPARAMETER temperature 0.8\n'


def write_gguf(trained: Trained, folder: Path, settings: ExportSettings) -> list[str]:
    """Write model file, Ollama's Modelfile and model card; as `interop.formats.Exporter`."""
    model = trained.model
    if not isinstance(model, GPT):
        raise UserError("format=gguf: llama.cpp has no encoder-decoder like ours; export a translator as ctranslate2")
    kind = write_file(model, trained.tokenizers[0], folder / FILE, trained.run.name)
    text = USAGE + (GELU if kind == "gpt2" else "")
    (folder / "Modelfile").write_text(MODELFILE, encoding="utf-8")
    (folder / "README.md").write_text(model_card(trained, Usage("gguf", ["gguf", kind], text), []), encoding="utf-8")
    return [f"{settings.to}/{FILE}: a model for llama.cpp and Ollama, in float32", "README.md: how to use it"]


def write_file(model: GPT, tokenizer: Tokenizer, path: Path, name: str) -> str:
    """Write the file -> the architecture. Raises UserError naming each option that llama.cpp does not have."""
    words = vocabulary(tokenizer)
    kind = architecture(model.config)
    weights = tensors(model, kind, words.byte_rows, tokenizer.unk_id)
    writer = gguf.GGUFWriter(path, kind)
    writer.add_name(name)
    add_shape(writer, model, kind)
    add_vocabulary(writer, words, tokenizer)
    write(writer, weights)
    return kind


def add_shape(writer: gguf.GGUFWriter, model: GPT, kind: str) -> None:
    """Add the metadata of the architecture."""
    config: ModelConfig = model.config
    writer.add_context_length(config.context)
    writer.add_embedding_length(config.width)
    writer.add_block_count(config.layers)
    writer.add_feed_forward_length(config.hidden_width)
    writer.add_head_count(config.heads)
    writer.add_head_count_kv(config.key_value_heads)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    if isinstance(model.norm, nn.LayerNorm):
        writer.add_layer_norm_eps(model.norm.eps)
        return
    assert isinstance(model.norm, RMSNorm)
    writer.add_layer_norm_rms_eps(model.norm.eps)
    writer.add_rope_dimension_count(config.head_width)
    writer.add_rope_freq_base(10000.0)
    if kind == "apertus":
        writer.add_xielu_alpha_p([ALPHA_P] * config.layers)
        writer.add_xielu_alpha_n([ALPHA_N] * config.layers)
        writer.add_xielu_beta([BETA] * config.layers)
        writer.add_xielu_eps([EPS] * config.layers)


def add_vocabulary(writer: gguf.GGUFWriter, words: Vocabulary, tokenizer: Tokenizer) -> None:
    """Add the tokens; a text begins with the token that begins each document in training."""
    writer.add_vocab_size(len(words.tokens))
    writer.add_tokenizer_model(words.kind)
    writer.add_tokenizer_pre("default")
    writer.add_token_list(words.tokens)
    writer.add_token_scores(words.scores)
    writer.add_token_types(words.types)
    writer.add_bos_token_id(tokenizer.start_id)
    writer.add_eos_token_id(tokenizer.eos_id)
    writer.add_unk_token_id(tokenizer.unk_id)
    writer.add_pad_token_id(tokenizer.pad_id)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(False)
    writer.add_remove_extra_whitespaces(False)


def write(writer: gguf.GGUFWriter, weights: dict[str, NDArray[np.float32]]) -> None:
    """Write metadata and tensors, and close the file."""
    for name, array in weights.items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
