"""Batched sampling from a GPT: a generator that yields one token per text and step."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import torch
from torch import Tensor

from generation.config import SamplingConfig, sampling_problems
from generation.cuda.sampling import GraphSampling
from generation.ensemble import Ensemble
from generation.next_token import UniformDraws, next_token
from generation.sequences import Sequences
from model.gpt import GPT


@torch.inference_mode()
def generate(
    model: GPT,
    prompts: Sequence[Sequence[int]],
    config: SamplingConfig,
    *,
    seed: int = 0,
    stop_ids: Collection[int] = (),
    banned_ids: Collection[int] = (),
    static_shapes: bool | None = None,
) -> Iterator[list[int | None]]:
    """Continue every prompt; yield the new token of each text at each step, or None once the text has ended.

    prompts: token ids, at least one each, of any length. A text ends with a token in `stop_ids`, which is not yielded
    and is exempt from the repetition penalty, or after `config.max_tokens`. Tokens in `banned_ids` are never generated.

    Whatever device the model is on, text r uses its own CPU generator, seeded with `seed` + r: the text depends only on
    its prompt and this seed, never on the other texts.

    Texts may outgrow the context. If a prompt is too long, its last `context` tokens are used. When a text fills the
    context, it continues from its last `context // 2` tokens, whose keys and values are recomputed.

    static_shapes: if true, sample with `GraphSampling`, whose steps have one shape; if false, the batch shrinks as
    texts end. None enables it when `GraphSampling.applies`.

    Raises ValueError for an empty prompt, an invalid `config`, or a model that is not in evaluation mode.
    """
    found = sampling_problems(config)
    if model.training:
        found.append("the model must be in evaluation mode: call model.eval()")
    found += [f"prompt {row} has no tokens" for row, prompt in enumerate(prompts) if not prompt]
    if found:
        raise ValueError("; ".join(found))
    device = next(model.parameters()).device
    draws = UniformDraws(len(prompts), seed)
    if static_shapes is None:
        static_shapes = GraphSampling.applies(device) and not isinstance(model, Ensemble)
    # Otherwise on the CPU: `next_token` accumulates in float64, which Apple's GPUs do not support.
    sampling_device = device if static_shapes else torch.device("cpu")
    banned = torch.tensor(sorted(banned_ids), dtype=torch.int64, device=sampling_device)
    seen: Tensor | None = None
    if config.repetition_penalty != 1.0:
        seen = torch.zeros(len(prompts), model.vocab_size, dtype=torch.bool, device=sampling_device)
        for row, prompt in enumerate(prompts):
            seen[row, torch.tensor(prompt, device=sampling_device)] = True
        seen[:, list(stop_ids)] = False  # otherwise the eos before a prompt would be penalised, and texts would not end
    if static_shapes:
        yield from until_all_end(GraphSampling(model, prompts, config, draws, banned, seen).steps(), stop_ids)
        return
    sequences, active = Sequences(model, prompts, config.max_tokens), list(range(len(prompts)))
    for step in range(1, config.max_tokens + 1):
        logits = sequences.logits.to(sampling_device)
        if banned_ids:
            logits.index_fill_(-1, banned, float("-inf"))
        sampled = next_token(logits, draws.next(active), config, None if seen is None else seen[active])
        tokens: list[int] = sampled.tolist()
        unfinished = [row for row, token in enumerate(tokens) if token not in stop_ids]
        result: list[int | None] = [None] * len(prompts)
        for row in unfinished:
            result[active[row]] = tokens[row]
        if seen is not None:
            seen[active, sampled] = True
        yield result
        if not unfinished or step == config.max_tokens:
            return
        if len(unfinished) < len(active):
            sequences.keep(unfinished)
            active = [active[row] for row in unfinished]
        sequences.extend([tokens[row] for row in unfinished])


def until_all_end(steps: Iterator[list[int]], stop_ids: Collection[int]) -> Iterator[list[int | None]]:
    """Yield the tokens of each step, None for texts that have ended, until all texts have ended."""
    ended: set[int] = set()
    for tokens in steps:
        ended.update(row for row, token in enumerate(tokens) if token in stop_ids)
        yield [None if row in ended else token for row, token in enumerate(tokens)]
        if len(ended) == len(tokens):
            return
