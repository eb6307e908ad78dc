"""Sampling: continue prompts with a GPT, one token per text and step.

Read `generate` first; it calls what follows: `Sequences` runs the model, `next_token` chooses from its logits, and
`UniformDraws` supplies the random numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from generation.config import SamplingConfig, sampling_problems
from model.cache import KVCache
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
) -> Iterator[list[int | None]]:
    """Continue every prompt; yield the new token of each text at each step, or None once the text has ended.

    prompts: token ids, at least one each, of any length. A text ends with a token in `stop_ids`, which is not yielded
    and is exempt from the repetition penalty, or after `config.max_tokens`. Tokens in `banned_ids` are never generated.

    Whatever device the model is on, text r uses its own CPU generator, seeded with `seed` + r: the text depends only on
    its prompt and this seed, never on the other texts.

    Texts may outgrow the context. If a prompt is too long, its last `context` tokens are used. When a text fills the
    context, it continues from its last `context // 2` tokens, whose keys and values are recomputed.

    Raises ValueError for an empty prompt, an invalid `config`, or a model that is not in evaluation mode.
    """
    check_request(model, prompts, config)
    draws = UniformDraws(len(prompts), seed)
    banned = torch.tensor(sorted(banned_ids), dtype=torch.int64)
    seen = None if config.repetition_penalty == 1.0 else tokens_in(prompts, model.vocab_size, stop_ids)
    # The whole prompt in one pass: from here on the cache has its keys and values, and a step reads one token.
    sequences, active = Sequences(model, prompts, config.max_tokens), list(range(len(prompts)))
    for step in range(1, config.max_tokens + 1):
        # Choose on the CPU, also for a model on a GPU: float64, which Apple's GPUs lack, makes the choice the same.
        logits = sequences.logits.cpu()
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
        # Yield before the model runs again, so that a token is shown as soon as it is chosen.
        yield result
        if not unfinished or step == config.max_tokens:
            return
        # Texts that have ended leave the batch, so that a step costs only what the others need.
        if len(unfinished) < len(active):
            sequences.keep(unfinished)
            active = [active[row] for row in unfinished]
        sequences.extend([tokens[row] for row in unfinished])


def check_request(model: GPT, prompts: Sequence[Sequence[int]], config: SamplingConfig) -> None:
    """Raise ValueError with all reasons why `generate` cannot continue the prompts."""
    problems = sampling_problems(config)
    if model.training:
        problems.append("the model must be in evaluation mode: call model.eval()")
    problems += [f"prompt {row} has no tokens" for row, prompt in enumerate(prompts) if not prompt]
    if problems:
        raise ValueError("; ".join(problems))


def tokens_in(prompts: Sequence[Sequence[int]], vocab_size: int, stop_ids: Collection[int]) -> Tensor:
    """Return which tokens the repetition penalty applies to, [R, V] bool on the CPU: those of each prompt."""
    seen = torch.zeros(len(prompts), vocab_size, dtype=torch.bool)
    for row, prompt in enumerate(prompts):
        seen[row, torch.tensor(prompt)] = True
    seen[:, list(stop_ids)] = False  # otherwise the eos before a prompt would be penalised, and texts would not end
    return seen


class Sequences:
    """A batch of token sequences that grow by one token per step, with their KV cache and the logits that follow."""

    def __init__(self, model: GPT, prompts: Sequence[Sequence[int]], max_tokens: int) -> None:
        self.model = model
        self.context = model.config.context
        self.capacity = min(self.context, max(map(len, prompts)) + max_tokens)
        self.device = next(model.parameters()).device
        self.windows = [list(prompt[-self.context :]) for prompt in prompts]
        self.cache, self.logits = self._prefill(self.windows)  # logits [R, V] of the next token of each sequence

    def extend(self, tokens: list[int]) -> None:
        """Append one token to each sequence and run the model on the new tokens."""
        # A full context has no room for the token, and its positions go no further than the model has been trained.
        self.shift_context()
        for window, token in zip(self.windows, tokens, strict=True):
            window.append(token)
        # One token per sequence: the cache supplies the keys and values of all tokens before it.
        inputs = torch.tensor(tokens, device=self.device).unsqueeze(1)  # [R, 1]
        self.logits = self.model(inputs, self.cache)[:, -1]

    def keep(self, rows: list[int]) -> None:
        """Keep only these sequences."""
        self.windows = [self.windows[row] for row in rows]
        self.cache.keep(torch.tensor(rows, device=self.device))
        self.cache.set_lengths([len(window) for window in self.windows])

    def shift_context(self) -> None:
        """Truncate sequences that fill the context to their last half, and recompute keys and values."""
        full = [row for row, window in enumerate(self.windows) if len(window) == self.context]
        if full:
            # Half, not all but one token: the pass over the window is then paid once in `context // 2` steps.
            for row in full:
                self.windows[row] = self.windows[row][-(self.context // 2) :]
            cache, _ = self._prefill([self.windows[row] for row in full])
            self.cache.replace_rows(torch.tensor(full, device=self.device), cache)
            self.cache.set_lengths([len(window) for window in self.windows])

    def _prefill(self, windows: list[list[int]]) -> tuple[KVCache, Tensor]:
        """Return a cache filled with the R windows, and the logits [R, V] after each."""
        # The samples of one prompt begin alike: the model reads each prompt once, however many texts continue it.
        distinct = list(map(list, dict.fromkeys(map(tuple, windows))))
        cache, logits = self._prefill_distinct(distinct)
        if len(distinct) < len(windows):
            rows = torch.tensor([distinct.index(window) for window in windows], device=self.device)
            cache.keep(rows)
            cache.set_lengths([len(window) for window in windows])
            logits = logits[rows]
        return cache, logits

    def _prefill_distinct(self, windows: list[list[int]]) -> tuple[KVCache, Tensor]:
        """Run `_prefill` without deduplicating windows. Causal attention never sees the padding on the right."""
        lengths = [len(window) for window in windows]
        tokens = pad_sequence([torch.tensor(window) for window in windows], batch_first=True)  # [R, T]
        cache = self.model.new_cache(self.capacity)
        features = self.model.features(tokens.to(self.device), cache)  # [R, T, C]
        cache.set_lengths(lengths)
        last = torch.tensor(lengths, device=self.device) - 1
        return cache, self.model.logits(features[torch.arange(len(windows), device=self.device), last])


def next_token(logits: Tensor, uniform: Tensor, config: SamplingConfig, seen: Tensor | None = None) -> Tensor:
    """Sample one token per row, [R] int64, from logits [R, V].

    uniform [R] float64 in [0, 1) selects by inverse transform sampling: the same numbers select the same tokens. seen
    [R, V] bool: tokens that are already in the row's text, needed for the repetition penalty.
    """
    if seen is not None:
        logits = penalise_repetition(logits, seen, config.repetition_penalty)
    if config.temperature == 0:
        return logits.argmax(dim=-1)
    # Top-k first: the temperature does not change the order, and the other filters then sort k entries instead of V.
    ids: Tensor | None = None
    if config.top_k is not None and config.top_k < logits.shape[-1]:
        logits, ids = top_k(logits, config.top_k)
    logits = logits.float() / config.temperature
    if config.top_p is not None:
        logits = keep_top_p(logits, config.top_p)
    if config.min_p is not None:
        logits = keep_min_p(logits, config.min_p)
    # Not torch.multinomial, whose numbers depend on the device and on the other rows: each row brings its own number,
    # and the first token whose cumulative probability exceeds it is chosen; a token of probability 0 never is.
    cumulative = logits.softmax(dim=-1).cumsum(dim=-1, dtype=torch.float64)  # [R, V], or [R, k]
    share = (uniform * cumulative[:, -1]).unsqueeze(-1)  # [R, 1]
    place = torch.searchsorted(cumulative, share, right=True)  # [R, 1]
    return (place if ids is None else ids.gather(-1, place)).squeeze(-1)


def penalise_repetition(logits: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """Make the tokens in seen [..., V] bool less likely (penalty above 1) in logits [..., V] (Keskar et al. 2019):
    positive logits are divided by the penalty, negative logits multiplied."""
    return torch.where(seen, torch.where(logits > 0, logits / penalty, logits * penalty), logits)


def top_k(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest of logits [..., V] and their token ids, [..., k] each, ordered by id; torch breaks ties."""
    ids = logits.topk(min(k, logits.shape[-1]), sorted=False).indices.sort(dim=-1).values
    return logits.gather(-1, ids), ids


def keep_top_p(logits: Tensor, p: float) -> Tensor:
    """Set logits [..., V] outside the nucleus to -inf. The nucleus is the smallest set of most likely tokens whose
    probabilities sum to at least p (Holtzman et al. 2020)."""
    ordered, order = logits.sort(descending=True, stable=True)
    probabilities = ordered.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities  # [..., V]: total probability of all more likely tokens
    # Compare the total before a token: then the token that crosses p is kept, as is the most likely one, with 0 before.
    p = max(p, torch.finfo(before.dtype).tiny)  # a smaller p is rounded to 0
    ordered = ordered.masked_fill(before >= p, float("-inf"))
    return torch.empty_like(logits).scatter_(-1, order, ordered)


def keep_min_p(logits: Tensor, fraction: float) -> Tensor:
    """Set logits [..., V] of tokens less likely than `fraction` of the maximum to -inf (Nguyen et al. 2024)."""
    largest = logits.amax(dim=-1, keepdim=True)  # [..., 1]
    return logits.masked_fill((logits - largest).exp() < fraction, float("-inf"))


class UniformDraws:
    """Uniform random numbers in [0, 1) from one CPU generator per text, drawn for `STEPS` steps at a time."""

    STEPS = 64

    def __init__(self, texts: int, seed: int) -> None:
        self.generators = [torch.Generator().manual_seed(seed + text) for text in range(texts)]
        self.drawn = torch.empty(texts, 0)
        self.step = 0

    def draw(self) -> Tensor:
        """Draw the numbers of the next `STEPS` steps, [texts, STEPS] float64 on the CPU."""
        return torch.stack([torch.rand(self.STEPS, generator=g, dtype=torch.float64) for g in self.generators])

    def next(self, rows: list[int]) -> Tensor:
        """Draw one number for each of the texts `rows`, [R] float64 on the CPU."""
        # Many steps at once: otherwise each step would call one generator for every text.
        place = self.step % self.STEPS
        if place == 0:
            self.drawn = self.draw()
        self.step += 1
        column = self.drawn[:, place]
        return column if len(rows) == len(column) else column[rows]
