"""Epsilon sampling: draw several translations of each source, without the improbable tail of the vocabulary."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from generation.beam_search import Hypothesis, rows_to_keep
from generation.config import SamplingConfig
from generation.neighbours.datastore import Datastore
from generation.sampling import next_token
from model.encoder_decoder import EncoderDecoder

UNFILTERED = SamplingConfig(temperature=1.0)


def keep_epsilon(log_probabilities: Tensor, epsilon: float) -> Tensor:
    """Set log-probabilities [..., V] of tokens with a probability below epsilon to -inf, except that of the most likely
    token (Hewitt et al. 2022)."""
    largest = log_probabilities.amax(dim=-1, keepdim=True)  # [..., 1]
    bound = math.log(epsilon) if epsilon else float("-inf")
    unlikely = (log_probabilities < bound) & (log_probabilities < largest)
    return log_probabilities.masked_fill(unlikely, float("-inf"))


@torch.inference_mode()
def epsilon_sampling(
    model: EncoderDecoder,
    source: Tensor,
    source_mask: Tensor | None = None,
    *,
    bos_id: int,
    eos_id: int,
    max_length: Tensor,
    samples: int,
    epsilon: float,
    seeds: Sequence[int],
    length_penalty: float = 1.0,
    banned_ids: Collection[int] = (),
    neighbours: Datastore | None = None,
) -> list[list[Hypothesis]]:
    """Draw `samples` translations of each source, with repetitions.

    source [B, S] int64; source_mask [B, S] bool, True = real token, or None. max_length [B]: maximum number of target
    tokens per source, at least 1; a translation of that length is truncated. banned_ids are never generated; the
    remaining probabilities are renormalised. neighbours: as in `beam_search`.

    seeds: of one CPU generator per source, so that the samples of a source do not depend on the other sources.

    The probability and score of a sample are those that `beam_search` would give it: of the model, not of the
    distribution without its tail. Raises ValueError if the model is not in evaluation mode.
    """
    if model.training:
        raise ValueError("the model must be in evaluation mode: call model.eval()")
    device = source.device
    # float64 to select a token, which Apple's GPUs do not support
    sampling_device = torch.device("cpu") if device.type == "mps" else device
    banned = torch.tensor(sorted(banned_ids), dtype=torch.int64, device=device)
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    drawn: list[list[Hypothesis]] = [[] for _ in generators]

    longest = int(max_length.max())
    cache = model.new_beam_cache(longest, samples)  # a sample is a hypothesis that always continues itself
    model.cache_source(source, source_mask, cache)
    # A row is a source; N of them are in the batch. Samples that have ended have score -inf.
    sentence = torch.arange(len(generators), device=device)  # [N]
    limit = max_length.to(device)  # [N]
    scores = torch.zeros(len(generators), samples, device=device)  # [N, K] log-probabilities
    written = torch.full((len(generators), samples, 1), bos_id, device=device)  # [N, K, T], bos included

    for length in range(1, longest + 1):
        states = model.next_features(written[:, :, -1], cache)  # [N, K, C]
        logits = model.logits(states).float()  # [N, K, V]
        log_probabilities = logits.index_fill_(-1, banned, float("-inf")).log_softmax(dim=-1)
        if neighbours is not None:
            log_probabilities = neighbours.mix(log_probabilities, states)
        draws = [torch.rand(samples, generator=generators[row], dtype=torch.float64) for row in sentence.tolist()]
        filtered = keep_epsilon(log_probabilities, epsilon).flatten(0, 1).to(sampling_device)  # [N K, V]
        token = next_token(filtered, torch.cat(draws).to(sampling_device), UNFILTERED).to(device).view_as(scores)
        scores = scores + log_probabilities.gather(-1, token.unsqueeze(-1)).squeeze(-1)
        written = torch.cat((written, token.unsqueeze(-1)), dim=-1)

        ends = token == eos_id
        over = scores.isfinite() & (ends | (limit == length).unsqueeze(1))  # [N, K]
        for row, sample in over.nonzero().tolist():
            tokens = written[row, sample, 1:].tolist()
            log_probability = float(scores[row, sample])
            text = tokens[:-1] if tokens[-1] == eos_id else tokens
            drawn[int(sentence[row])].append(
                Hypothesis(text, log_probability / length**length_penalty, log_probability)
            )
        scores = scores.masked_fill(over, float("-inf"))

        rows = rows_to_keep(scores)
        if len(rows) == 0:
            break
        if len(rows) < len(scores):
            cache.keep(rows)
            sentence, limit, scores, written = (x[rows] for x in (sentence, limit, scores, written))
            neighbours = None if neighbours is None else neighbours.select(rows)
    return drawn


def seed_of(sentence: str) -> int:
    """Return the seed of a sentence's samples, from its text: they do not depend on batch, worker or process."""
    return int.from_bytes(hashlib.sha256(sentence.encode("utf-8", "surrogatepass")).digest()[:8], "little")
