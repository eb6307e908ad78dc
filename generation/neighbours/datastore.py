"""Predict the next token of a translation from similar training pairs (kNN-MT).

As in Khandelwal et al. 2021 (arXiv 2010.00710), a datastore maps decoder states to the tokens that follow them. As in
Dai et al. 2023 (arXiv 2302.12188), each sentence has a small datastore of its own, of the training pairs whose sources
are most similar: all its states are compared with that of each hypothesis, and no index is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from data.batches.batch import IGNORED
from data.batches.epoch_order import Ints, sorted_batches
from data.batches.pairs import Pairs
from data.batches.source_sentences import source_ids
from data.tokens.token_rows import token_rows_of
from data.tokens.tokenizer import Tokenizer
from generation.config import NeighbourConfig, TranslationConfig
from generation.neighbours.translation_memory import TranslationMemory
from model.encoder_decoder import EncoderDecoder

BATCH_TOKENS = 4096
"""Maximum number of source and target tokens, including padding, in a forward pass over neighbours."""


@dataclass(frozen=True)
class Datastore:
    """For each of N sentences, E decoder states of its neighbours and the token that follows each of them."""

    states: Tensor
    """Output projection's inputs, float32 [N, E, C]."""

    tokens: Tensor
    """The token after each state, int64 [N, E]."""

    real: Tensor
    """False at padding, bool [N, E]."""

    squared_length: Tensor
    """Mean squared length of the states of a sentence, [N]: the unit of distances."""

    config: NeighbourConfig

    def mix(self, log_probabilities: Tensor, states: Tensor) -> Tensor:
        """Return log((1 - λ) p_model + λ p_kNN) for log p_model [N, K, V] and the states [N, K, C] of K hypotheses.

        p_kNN(y) ∝ Σ exp(-d / T), summed over the states that y follows (T: `temperature`). d is the squared Euclidean
        distance from the hypothesis' state, divided by the mean squared length of the sentence's states, so that T fits
        any model. λ = `weight` · exp(-d₀ / T), where d₀ is the distance of the nearest state: what follows a state
        unlike the present one says little. (Dai et al. also lower λ with this distance.) Without neighbours, λ = 0.
        """
        real = self.real.unsqueeze(1)  # [N, 1, E]
        squares = torch.cdist(states.float(), self.states).square()  # [N, K, E]
        distances = (squares / self.squared_length.view(-1, 1, 1)).masked_fill(~real, float("inf"))
        closeness = -distances / self.config.temperature
        weight = self.config.weight * closeness.amax(dim=-1, keepdim=True).exp()  # [N, K, 1]
        shares = closeness.softmax(dim=-1).masked_fill(~real, 0.0)  # [N, K, E]
        tokens = self.tokens.unsqueeze(1).expand_as(shares)
        retrieved = torch.zeros_like(log_probabilities).scatter_add_(-1, tokens, shares)  # [N, K, V]
        return torch.log((1 - weight) * log_probabilities.exp() + weight * retrieved)

    def select(self, rows: Tensor) -> Datastore:
        """Return the datastore of the sentences `rows` [N'] int64."""
        parts = {name: getattr(self, name)[rows] for name in ("states", "tokens", "real", "squared_length")}
        return replace(self, **parts)


@torch.inference_mode()
def build_datastore(
    model: EncoderDecoder,
    tokenizers: Sequence[Tokenizer],
    memory: TranslationMemory,
    sentences: Sequence[str],
    config: TranslationConfig,
) -> Datastore | None:
    """Find the neighbours of each sentence and run the model on them; None if no sentence has a neighbour."""
    neighbours = [memory.nearest(sentence, config.neighbours.sentences) for sentence in sentences]
    distinct, places = np.unique(np.concatenate(neighbours), return_inverse=True)
    if not len(distinct):
        return None
    pairs = teacher_forced(model, tokenizers, memory, distinct, config.reverse)
    of_sentence = np.split(places, np.cumsum([len(rows) for rows in neighbours])[:-1])
    no_states, no_tokens = (side[:0] for side in pairs[0])  # for a sentence without neighbours
    joined = [torch.cat([no_states, *(pairs[place][0] for place in rows)]) for rows in of_sentence]
    states = pad_sequence(joined, batch_first=True)
    tokens = pad_sequence(
        [torch.cat([no_tokens, *(pairs[place][1] for place in rows)]) for rows in of_sentence], batch_first=True
    )
    lengths = torch.tensor([len(part) for part in joined], device=states.device)
    real = torch.arange(states.shape[1], device=states.device) < lengths.unsqueeze(1)
    squared_length = states.square().sum(dim=(1, 2)) / lengths.clamp(min=1)
    return Datastore(states, tokens, real, squared_length, config.neighbours)


def teacher_forced(
    model: EncoderDecoder, tokenizers: Sequence[Tokenizer], memory: TranslationMemory, rows: Ints, reverse: bool = False
) -> list[tuple[Tensor, Tensor]]:
    """Run the model on pairs of the memory, with the target as its input (teacher forcing) -> for each pair its decoder
    states, float32 [T, C], and the token after each state, int64 [T]. Tokens that are never written are left out.
    reverse: whether the sources of the memory are in the target language of the training data."""
    source, target = tokenizers[0], tokenizers[-1]
    pairs = Pairs(
        token_rows_of(source_ids(source, [memory.sources[row] for row in rows], reverse), source.vocab_size),
        token_rows_of(target.encode_batch([memory.targets[row] for row in rows]), target.vocab_size),
        source,
        target,
    )
    context, device = model.config.context, next(model.parameters()).device
    unwritten = torch.tensor([IGNORED, *target.never_written], device=device)
    lengths = [np.minimum(side.lengths + 1, context) for side in (pairs.source, pairs.target)]
    states_and_tokens: dict[int, tuple[Tensor, Tensor]] = {}
    for chosen in sorted_batches(lengths[0], lengths[1], BATCH_TOKENS):
        batch = pairs.batch(chosen, context).to(device)
        states = model.features(*batch.model_inputs).float()  # type: ignore[arg-type]  # they fit the model
        written = ~torch.isin(batch.targets, unwritten)
        for row, its_states, tokens, real in zip(chosen.tolist(), states, batch.targets, written, strict=True):
            states_and_tokens[row] = its_states[real], tokens[real]
    return [states_and_tokens[row] for row in range(len(rows))]
