"""Writing text with a GPT: pure filters on logits, and a generator that yields one token per text and step."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import torch
from torch import Tensor

from model.cache import KVCache
from model.gpt import GPT
from model.sampling_config import SamplingConfig, problems


def penalise_repetition(logits: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """logits [..., V] with those of the tokens in seen [..., V] bool made less likely (for a penalty above 1)."""
    return torch.where(seen, torch.where(logits > 0, logits / penalty, logits * penalty), logits)


def top_k(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of logits [..., V] and their token ids, both [..., k], in the order of the ids.

    Which of several equals at the border belong to them is left to the library.
    """
    ids = logits.topk(min(k, logits.shape[-1]), sorted=False).indices.sort(dim=-1).values
    return logits.gather(-1, ids), ids


def keep_top_p(logits: Tensor, p: float) -> Tensor:
    """logits [..., V] with -inf outside the smallest set of likeliest tokens whose probabilities sum to at least p."""
    ordered, order = logits.sort(descending=True, stable=True)
    probabilities = ordered.softmax(dim=-1)
    likelier = probabilities.cumsum(dim=-1) - probabilities  # [..., V]: probability of all tokens before this one
    ordered = ordered.masked_fill(likelier >= p, float("-inf"))  # the likeliest has 0 before it and stays
    return torch.empty_like(logits).scatter_(-1, order, ordered)


def keep_min_p(logits: Tensor, fraction: float) -> Tensor:
    """logits [..., V] with -inf for tokens less likely than `fraction` times the likeliest one."""
    likeliest = logits.amax(dim=-1, keepdim=True)  # [..., 1]
    return logits.masked_fill((logits - likeliest).exp() < fraction, float("-inf"))


def choose(logits: Tensor, uniform: Tensor, config: SamplingConfig, seen: Tensor | None = None) -> Tensor:
    """One token per row, [R] int64, for logits [R, V].

    uniform [R] float64 in [0, 1) is the chance that decides: the same numbers choose the same tokens. seen [R, V] bool:
    tokens that the row's text already holds, needed for the repetition penalty.
    """
    if seen is not None:
        logits = penalise_repetition(logits, seen, config.repetition_penalty)
    if config.temperature == 0:
        return logits.argmax(dim=-1)
    ids: Tensor | None = None
    if config.top_k is not None and config.top_k < logits.shape[-1]:
        logits, ids = top_k(logits, config.top_k)  # first: what follows then has k entries to look at, not V
    logits = logits.float() / config.temperature
    if config.top_p is not None:
        logits = keep_top_p(logits, config.top_p)
    if config.min_p is not None:
        logits = keep_min_p(logits, config.min_p)
    # The first token at which the summed probability passes the drawn share; one of probability 0 never does.
    summed = logits.softmax(dim=-1).cumsum(dim=-1, dtype=torch.float64)  # [R, V], or [R, k]
    share = (uniform * summed[:, -1]).unsqueeze(-1)  # [R, 1]
    place = torch.searchsorted(summed, share, right=True)  # [R, 1]
    return (place if ids is None else ids.gather(-1, place)).squeeze(-1)


class _Chances:
    """Numbers from [0, 1) for each text, from a generator of its own: drawn for many steps at a time."""

    STEPS = 64

    def __init__(self, texts: int, seed: int) -> None:
        self.generators = [torch.Generator().manual_seed(seed + text) for text in range(texts)]
        self.drawn = torch.empty(texts, 0)
        self.step = 0

    def next(self, live: list[int]) -> Tensor:
        """One number for each of the `live` texts, [R] float64 on the CPU."""
        place = self.step % self.STEPS
        if place == 0:
            draws = [torch.rand(self.STEPS, generator=g, dtype=torch.float64) for g in self.generators]
            self.drawn = torch.stack(draws)  # [texts, STEPS]
        self.step += 1
        column = self.drawn[:, place]
        return column if len(live) == len(column) else column[live]


class _Texts:
    """The texts being written: the tokens that each still sees, and the cache that holds them."""

    def __init__(self, model: GPT, prompts: Sequence[Sequence[int]], max_tokens: int) -> None:
        self.model = model
        self.context = model.config.context
        self.capacity = min(self.context, max(map(len, prompts)) + max_tokens)
        self.device = next(model.parameters()).device
        self.windows = [list(prompt[-self.context :]) for prompt in prompts]
        self.cache, self.logits = self._read(self.windows)  # logits [R, V] of the next token of each text

    def extend(self, tokens: list[int]) -> None:
        """Append one token to each text. A text that fills the context first forgets all but its last half."""
        full = [row for row, window in enumerate(self.windows) if len(window) == self.context]
        if full:
            for row in full:
                self.windows[row] = self.windows[row][-(self.context // 2) :]
            cache, _ = self._read([self.windows[row] for row in full])
            self.cache.replace_rows(torch.tensor(full, device=self.device), cache)
            self.cache.set_lengths([len(window) for window in self.windows])
        for window, token in zip(self.windows, tokens, strict=True):
            window.append(token)
        inputs = torch.tensor(tokens, device=self.device).unsqueeze(1)  # [R, 1]
        self.logits = self.model(inputs, self.cache)[:, -1]

    def keep(self, rows: list[int]) -> None:
        """Go on with these texts only."""
        self.windows = [self.windows[row] for row in rows]
        self.cache.keep(torch.tensor(rows, device=self.device))
        self.cache.set_lengths([len(window) for window in self.windows])

    def _read(self, windows: list[list[int]]) -> tuple[KVCache, Tensor]:
        """A cache filled with the windows, and the logits [R, V] after each. Padding on the right is seen by nobody."""
        lengths = [len(window) for window in windows]
        tokens = torch.zeros(len(windows), max(lengths), dtype=torch.int64)
        for row, window in enumerate(windows):
            tokens[row, : len(window)] = torch.tensor(window)
        cache = self.model.new_cache(self.capacity)
        features = self.model.features(tokens.to(self.device), cache)  # [R, T, C]
        cache.set_lengths(lengths)
        last = torch.tensor(lengths, device=self.device) - 1
        return cache, self.model.logits(features[torch.arange(len(windows), device=self.device), last])


@torch.inference_mode()
def generate(
    model: GPT,
    prompts: Sequence[Sequence[int]],
    config: SamplingConfig,
    *,
    seed: int = 0,
    stop_ids: Collection[int] = (),
    banned_ids: Collection[int] = (),
) -> Iterator[list[int | None]]:
    """Continue every prompt; yields, step by step, the new token of each text, None once it has ended.

    prompts: token ids, at least one each, of any lengths. A text ends with a token of `stop_ids`, which is not yielded,
    or after `config.max_tokens`. Tokens of `banned_ids` are never written.

    Text r draws its chances from a CPU generator of its own, whatever the model's device, seeded with `seed` + r: it
    depends on its prompt and that number, never on the other texts.

    Texts may outgrow the context. Of a prompt that is too long the last `context` tokens are seen; when a text has
    filled the context, its last `context // 2` tokens are read anew and it goes on from there: a token costs one step
    and, once per half context, one short pass.

    Raises ValueError for an empty prompt, an impossible `config`, or a model that is not in evaluation mode.
    """
    found = problems(config)
    if model.training:
        found.append("the model must be in evaluation mode: call model.eval()")
    found += [f"prompt {row} has no tokens" for row, prompt in enumerate(prompts) if not prompt]
    if found:
        raise ValueError("; ".join(found))
    device = next(model.parameters()).device
    chances = _Chances(len(prompts), seed)
    banned = torch.tensor(sorted(banned_ids), dtype=torch.int64, device=device)
    seen: Tensor | None = None
    if config.repetition_penalty != 1.0:
        seen = torch.zeros(len(prompts), model.vocab_size, dtype=torch.bool, device=device)
        for row, prompt in enumerate(prompts):
            seen[row, torch.tensor(prompt, device=device)] = True

    texts = _Texts(model, prompts, config.max_tokens)
    live = list(range(len(prompts)))
    for step in range(config.max_tokens):
        logits = texts.logits.index_fill_(-1, banned, float("-inf")) if banned_ids else texts.logits
        chosen = choose(logits, chances.next(live).to(device), config, None if seen is None else seen[live])
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
