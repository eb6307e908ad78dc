"""Writing text with a GPT: a generator that yields one token per text and step."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import torch
from torch import Tensor

from generation.cuda.sampling import LockstepTexts
from generation.growing_texts import Texts
from generation.sampling_config import SamplingConfig, problems
from generation.token_choice import Chances, choose
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
    lockstep: bool | None = None,
) -> Iterator[list[int | None]]:
    """Continue every prompt; yields, step by step, the new token of each text, None once it has ended.

    prompts: token ids, at least one each, of any lengths. A text ends with a token of `stop_ids`, which is not yielded,
    or after `config.max_tokens`; the repetition penalty leaves it alone. Tokens of `banned_ids` are never written.

    Text r draws its chances from a CPU generator of its own, whatever the model's device, seeded with `seed` + r: it
    depends on its prompt and that number, never on the other texts.

    Texts may outgrow the context. Of a prompt that is too long the last `context` tokens are seen; when a text has
    filled the context, its last `context // 2` tokens are read anew and it goes on from there: a token costs one step
    and, once per half context, one short pass.

    lockstep: write by `LockstepTexts`, in steps of one shape that a GPU replays; None means on a GPU. A CPU is faster
    with steps that shrink when texts end.

    Raises ValueError for an empty prompt, an impossible `config`, or a model that is not in evaluation mode.
    """
    found = problems(config)
    if model.training:
        found.append("the model must be in evaluation mode: call model.eval()")
    found += [f"prompt {row} has no tokens" for row, prompt in enumerate(prompts) if not prompt]
    if found:
        raise ValueError("; ".join(found))
    device = next(model.parameters()).device
    chances = Chances(len(prompts), seed)
    if lockstep is None:
        # CUDA's cumulative sums do not repeat to the last bit, and are refused where that is asked for.
        lockstep = device.type == "cuda" and not torch.are_deterministic_algorithms_enabled()
    # Tokens are chosen on the CPU unless a recorded step chooses them: `choose` adds up in float64, which Apple's GPUs
    # do not have.
    chooser = device if lockstep else torch.device("cpu")
    banned = torch.tensor(sorted(banned_ids), dtype=torch.int64, device=chooser)
    seen: Tensor | None = None
    if config.repetition_penalty != 1.0:
        seen = torch.zeros(len(prompts), model.vocab_size, dtype=torch.bool, device=chooser)
        for row, prompt in enumerate(prompts):
            seen[row, torch.tensor(prompt, device=chooser)] = True
        seen[:, list(stop_ids)] = False  # an eos stands before a prompt; counted, it would keep texts from ending

    if lockstep:
        yield from until_ended(LockstepTexts(model, prompts, config, chances, banned, seen).write(), stop_ids)
        return
    texts = Texts(model, prompts, config.max_tokens)
    live = list(range(len(prompts)))
    for step in range(config.max_tokens):
        logits = texts.logits.to(chooser)
        if banned_ids:
            logits.index_fill_(-1, banned, float("-inf"))
        chosen = choose(logits, chances.next(live), config, None if seen is None else seen[live])
        tokens: list[int] = chosen.tolist()
        going_on = [row for row, token in enumerate(tokens) if token not in stop_ids]
        result: list[int | None] = [None] * len(prompts)
        for row in going_on:
            result[live[row]] = tokens[row]
        if seen is not None:
            seen[live, chosen] = True
        yield result
        if not going_on or step + 1 == config.max_tokens:
            return
        if len(going_on) < len(live):
            texts.keep(going_on)
            live = [live[row] for row in going_on]
        texts.extend([tokens[row] for row in going_on])


def until_ended(steps: Iterator[list[int]], stop_ids: Collection[int]) -> Iterator[list[int | None]]:
    """The steps of texts that are written on after their end, with None from there; ends when all texts have."""
    ended: set[int] = set()
    for tokens in steps:
        ended.update(row for row, token in enumerate(tokens) if token in stop_ids)
        yield [None if row in ended else token for row, token in enumerate(tokens)]
        if len(ended) == len(tokens):
            return
