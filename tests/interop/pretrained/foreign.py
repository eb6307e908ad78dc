"""Models of transformers with random weights, three shapes of each architecture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, PreTrainedModel

from interop.pretrained.conversion import load_weights
from interop.pretrained.folder import ARCHITECTURES, Pretrained
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT

SHAPES: dict[str, list[dict[str, Any]]] = {
    "gpt2": [
        {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 24, "vocab_size": 61},
        {"n_embd": 48, "n_layer": 3, "n_head": 3, "n_positions": 40, "vocab_size": 50, "n_inner": 40},
        {
            "n_embd": 24,
            "n_layer": 1,
            "n_head": 1,
            "n_positions": 24,
            "vocab_size": 33,
            "activation_function": "gelu",
            "layer_norm_epsilon": 1e-3,
            "tie_word_embeddings": False,
        },
    ],
    "marian": [
        {
            "d_model": 32,
            "layers": (2, 2),
            "heads": 4,
            "ffn": 64,
            "scale_embedding": True,
            "activation_function": "swish",
        },
        {"d_model": 48, "layers": (3, 1), "heads": 2, "ffn": 40, "activation_function": "relu"},
        {
            "d_model": 24,
            "layers": (1, 2),
            "heads": 3,
            "ffn": 96,
            "share_encoder_decoder_embeddings": False,
            "decoder_vocab_size": 57,
        },
    ],
    "llama": [
        {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40},
        {
            "hidden_size": 48,
            "num_hidden_layers": 3,
            "num_attention_heads": 6,
            "num_key_value_heads": 2,
            "intermediate_size": 64,
            "rms_norm_eps": 1e-4,
            "tie_word_embeddings": True,
        },
        {
            "hidden_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "intermediate_size": 96,
            "rope_parameters": {"rope_type": "default", "rope_theta": 300.0},
            "attention_bias": True,
            "mlp_bias": True,
        },
    ],
    "arcee": [
        {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40, "head_dim": 8}
    ],
    "starcoder2": [
        {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "intermediate_size": 40,
            "hidden_act": "gelu_new",
            "sliding_window": None,
        }
    ],
    "stablelm": [
        {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "intermediate_size": 40,
            "use_parallel_residual": False,
            "rope_parameters": {"rope_type": "default", "rope_theta": 300.0, "partial_rotary_factor": 1.0},
        }
    ],
    "qwen3": [
        {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "intermediate_size": 40,
            "head_dim": 8,
        }
    ],
    "apertus": [
        {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "intermediate_size": 40,
            "hidden_act": "relu2",
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        }
    ],
}
"""Settings of models of each architecture: three of those that are fine-tuned most."""

VOCABULARY, CONTEXT = 61, 24


def small_model(name: str, shape: int, **more: Any) -> PreTrainedModel:
    """Return a model with random weights, biases and gains that are far from those of a new one, in evaluation mode."""
    values = dict(SHAPES[name][shape])
    if name == "marian":
        encoder, decoder = values.pop("layers")
        heads, hidden = values.pop("heads"), values.pop("ffn")
        values |= {"encoder_layers": encoder, "decoder_layers": decoder, "pad_token_id": 60, "eos_token_id": 0}
        values |= {f"{side}_attention_heads": heads for side in ("encoder", "decoder")}
        values |= {f"{side}_ffn_dim": hidden for side in ("encoder", "decoder")} | {"decoder_start_token_id": 60}
        if "decoder_vocab_size" in values:
            values |= {"pad_token_id": 56, "decoder_start_token_id": 56}
    else:
        values |= {"bos_token_id": 0, "eos_token_id": 0}
    if name != "gpt2":
        values |= {"vocab_size": VOCABULARY, "max_position_embeddings": CONTEXT}
    config = AutoConfig.for_model(name, attn_implementation="eager", **values, **more)
    torch.manual_seed(shape)
    model: PreTrainedModel = getattr(transformers, ARCHITECTURES[name].class_name)(config)
    sharpen(model)
    with torch.no_grad():
        for layer in model.model.layers if name in ("qwen3", "apertus") else ():  # here both have one gain
            layer.self_attn.k_norm.weight.copy_(layer.self_attn.q_norm.weight)
        if name == "stablelm":  # norms with a bias, linear layers without: ours have both or neither
            for key, weight in model.named_parameters():
                if key.endswith("norm.bias"):
                    weight.zero_()
        if name == "marian":
            model.final_logits_bias.normal_()
    return model.eval()


@torch.no_grad()
def sharpen(model: PreTrainedModel) -> None:
    """Move weights, gains and biases far from those of a new model, whose predictions are uniform."""
    for weight in model.parameters():
        if weight.requires_grad:  # not the sinusoidal positions
            weight.add_(torch.randn_like(weight), alpha=0.3 if weight.dim() < 2 else 1.5 * weight.shape[-1] ** -0.5)


@dataclass(frozen=True)
class Inputs:
    """Random tokens; of a translator, with a padded source."""

    target: torch.Tensor
    source: torch.Tensor | None = None
    mask: torch.Tensor | None = None

    @property
    def ours(self) -> tuple[torch.Tensor, ...]:
        """Return the arguments of our model."""
        return (self.target,) if self.source is None else (self.source, self.target, self.mask)

    @property
    def theirs(self) -> dict[str, torch.Tensor]:
        """Return the arguments of a model of transformers."""
        if self.source is None:
            return {"input_ids": self.target}
        return {"input_ids": self.source, "attention_mask": self.mask.long(), "decoder_input_ids": self.target}


def inputs_of(name: str, rows: int = 3, length: int = 17) -> Inputs:
    """Return the same random tokens at every call."""
    draw = torch.Generator().manual_seed(5)
    target = torch.randint(33 if name == "gpt2" else 50, (rows, length), generator=draw)
    if name != "marian":
        return Inputs(target)
    source = torch.randint(1, 50, (rows, 11), generator=draw)
    return Inputs(target, source, torch.arange(11) < torch.tensor([[11], [4], [1]]))


def saved(model: PreTrainedModel, folder: Path) -> Path:
    """Save a model as its users have it."""
    model.save_pretrained(folder)
    return folder


def built(source: Pretrained) -> GPT | EncoderDecoder:
    """Return our model with the weights of a folder."""
    shapes, config = source.shapes, source.config
    model: GPT | EncoderDecoder = (
        GPT(config, shapes.target_vocab)
        if source.architecture.task == "gpt"
        else EncoderDecoder(config, shapes.source_vocab, shapes.target_vocab, shared=config.share_embeddings)
    )
    weights = load_weights(source)
    assert weights.keys() == dict(model.named_parameters()).keys()
    model.load_state_dict(weights, strict=False)
    return model.eval()
