"""Beam search with a CUDA graph per step: finds the same hypotheses as the eager form in `generation.beam_search`.

Each step stores back-pointers, and the hypotheses are traced back at the end, so that the GPU never waits for Python.
"""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor
from torch.nn.attention import sdpa_kernel

from generation.beam_search import Hypothesis, beam_step, checked_limits, ranked
from generation.cuda.graph import ATTENTION_BACKENDS, GraphRunner, has_graphs
from generation.cuda.host_copy import HostCopy
from generation.cuda.static_cache import StaticBeamCache
from model.encoder_decoder import EncoderDecoder


@torch.inference_mode()
def beam_search_with_graphs(
    model: EncoderDecoder,
    source: Tensor,
    source_mask: Tensor | None = None,
    *,
    bos_id: int,
    eos_id: int,
    max_length: int | Tensor,
    beam_size: int = 4,
    length_penalty: float = 1.0,
    n_best: int = 1,
    banned_ids: Collection[int] = (),
) -> list[list[Hypothesis]]:
    """Return the `n_best` best hypotheses of each source: arguments, results and errors of `beam_search`."""
    limits = checked_limits(model, source, max_length, beam_size, n_best)
    banned = torch.tensor(sorted(banned_ids), dtype=torch.int64, device=source.device)
    ids = {"bos_id": bos_id, "eos_id": eos_id}
    search = GraphBeamSearch(model, source, source_mask, **ids, limits=limits, beam_size=beam_size, banned=banned)
    search.run()
    return [ranked(hypotheses, n_best) for hypotheses in search.hypotheses(length_penalty)]


class GraphBeamSearch:
    """A beam search whose step has a static shape and needs no input from Python; arguments as in `beam_search`.

    Finished sources stay in the batch: a step reads the same weights for few rows as for many. (The CPU version removes
    them, which is faster there.)
    """

    def __init__(
        self,
        model: EncoderDecoder,
        source: Tensor,
        source_mask: Tensor | None,
        *,
        bos_id: int,
        eos_id: int,
        limits: list[int],
        beam_size: int,
        banned: Tensor,
    ) -> None:
        """limits: maximum number of target tokens per source, within the model's context; banned [n] int64."""
        device, steps, beams = source.device, max(limits), (len(limits), beam_size)
        self.model, self.eos_id, self.banned, self.steps = model, eos_id, banned, steps
        self.cache = StaticBeamCache(steps, beam_size, device)
        with sdpa_kernel(ATTENTION_BACKENDS):
            model.cache_source(source, source_mask, self.cache)
        self.run_step = GraphRunner(device)
        # Inputs and outputs of the steps, at fixed addresses; as in `beam_search`, for all N sentences.
        self.limit = torch.tensor(limits, device=device)  # [N]
        self.count = torch.zeros_like(self.limit)  # [N]
        self.scores = torch.full(beams, float("-inf"), device=device)  # [N, K]
        self.scores[:, 0] = 0.0  # all hypotheses start equal, so only one of them counts
        self.token = torch.full(beams, bos_id, device=device)  # [N, K]
        self.unfinished = torch.ones((), dtype=torch.bool, device=device)
        # Per step: the parent of each hypothesis, its token, and the parents of those that ended.
        self.links = self.token.new_zeros(steps, 3, *beams)  # [steps, 3, N, K]
        self.ends = self.scores.new_full((steps, 2, *beams), float("-inf"))  # log-probabilities: eos, truncated

    @staticmethod
    def applies(device: torch.device, longest: int, context: int) -> bool:
        """Whether a device can do this: CUDA, within the context, which bounds the position tables."""
        return has_graphs(device) and longest <= context

    def run(self) -> None:
        """Search until all sentences are finished, which is checked while the next step runs: it changes nothing."""
        unfinished: HostCopy | None = None
        for length in range(1, self.steps + 1):
            self.cache.cover(length)
            self.run_step(self.step, self.cache.width)
            before, unfinished = unfinished, HostCopy(self.unfinished)
            if before is not None and not before.values():
                break

    @sdpa_kernel(ATTENTION_BACKENDS)
    def step(self) -> None:
        """Run the captured step: the model on the last token of each hypothesis, then `beam_step`."""
        logits = self.model.next_logits(self.token, self.cache).float()  # [N, K, V]
        log_probabilities = logits.index_fill_(-1, self.banned, float("-inf")).log_softmax(dim=-1)
        length = self.cache.steps  # [1]
        step = beam_step(log_probabilities, self.scores, self.count, self.limit == length, self.eos_id)
        self.links.index_copy_(0, length - 1, torch.stack((step.parent, step.token, step.ended_parent)).unsqueeze(0))
        self.ends.index_copy_(0, length - 1, torch.stack((step.ended, step.cut)).unsqueeze(0))
        self.cache.follow(step.parent)
        self.token.copy_(step.token)
        self.scores.copy_(step.scores)
        self.count.copy_(step.count)
        self.unfinished.copy_(step.scores.isfinite().any())

    def hypotheses(self, length_penalty: float) -> list[list[Hypothesis]]:
        """Return all finished hypotheses of each source in the order of their ends, tracing them back in parallel."""
        ends, (parents, tokens, ended_parents) = self.ends.cpu(), self.links.cpu().unbind(1)
        step, kind, sentence, rank = ends.isfinite().nonzero(as_tuple=True)  # [E] each
        by_eos = kind == 0
        last = torch.where(by_eos, step - 1, step)  # [E] step of the last token, without eos
        beam = torch.where(by_eos, ended_parents[step, sentence, rank], rank)  # [E]
        texts = tokens.new_zeros(len(step), len(tokens))  # [E, steps]
        for place in range(len(tokens) - 1, -1, -1):
            texts[:, place] = tokens[place, sentence, beam]
            beam = torch.where(place <= last, parents[place, sentence, beam], beam)
        hypotheses: list[list[Hypothesis]] = [[] for _ in range(len(self.limit))]
        logs = ends[step, kind, sentence, rank]
        for row, text, end, length, log in zip(
            sentence.tolist(), texts.tolist(), last.tolist(), step.tolist(), logs.tolist(), strict=True
        ):
            hypotheses[row].append(Hypothesis(text[: end + 1], log / (length + 1) ** length_penalty, log))
        return hypotheses
