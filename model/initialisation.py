"""Initialise every parameter of a model."""

from __future__ import annotations

import torch
from torch import nn

from model.attention import Attention
from model.blocks import Block, DecoderBlock, EncoderBlock, blocks_of
from model.embedding import LanguageModel, LearnedPositions


@torch.no_grad()
def initialise(model: LanguageModel) -> None:
    """Draw the weights of a model from torch's default generator; gains are set where they are defined.

    parameter                              standard deviation     why
    token embedding, untied `head`         0.02                   GPT-2 (Radford et al. 2019): small initial logits
    token embedding, sinusoidal positions  C^-½                   magnitude 1 after the √C scaling of `Embedding`
    learned positions                      0.02                   GPT-2
    linear layers                          fan_in^-½              preserves activation scale at any width
    last linear layer of a residual branch fan_in^-½ · N^-½       the sum of the N branches of a stack keeps scale 1
    norm gains, biases                     constants 1 and 0
    gain of the token shift                constant ½

    N counts two branches per block, three with cross-attention; the scaling is GPT-2's.
    """
    config, head = model.config, model.head
    for module in model.modules():
        if isinstance(module, nn.Linear) and module is not head:
            nn.init.normal_(module.weight, std=module.in_features**-0.5)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=config.width**-0.5 if config.position == "sinusoidal" else 0.02)
        elif isinstance(module, LearnedPositions):
            nn.init.normal_(module.weight, std=0.02)
    if not config.tie_embeddings:
        nn.init.normal_(head.weight, std=0.02)
    if head.bias is not None:
        nn.init.zeros_(head.bias)
    for kind in (EncoderBlock, DecoderBlock):  # the latter also with cross-attention
        outputs = [layer for block in blocks_of(model) if isinstance(block, kind) for layer in residual_outputs(block)]
        for layer in outputs:
            layer.weight.mul_(len(outputs) ** -0.5)


def residual_outputs(block: Block) -> list[nn.Linear]:
    """Return the layers of a block whose output is added to the residual stream."""
    attentions = [module.output for module in block.children() if isinstance(module, Attention)]
    return [*attentions, block.feed_forward.project]
