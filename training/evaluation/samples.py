"""Sample texts generated at each evaluation."""

from __future__ import annotations

from data.tokens.tokenizer import Tokenizer
from generation.config import SamplingConfig
from generation.sampling import generate
from model.fast.decoding import prepare
from model.gpt import GPT
from training.hardware.number_format import decoding_format


def write_samples(model: GPT, tokenizer: Tokenizer, prompt: str, count: int, seed: int, max_tokens: int) -> list[str]:
    """Generate `count` texts from one prompt (empty: a new document), without changing the global random state."""
    ready = prepare(model, decoding_format(next(model.parameters()).device, sum(p.numel() for p in model.parameters())))
    config = SamplingConfig(max_tokens=max_tokens)
    prompts = [[tokenizer.start_id, *tokenizer.encode(prompt)] for _ in range(count)]
    written: list[list[int]] = [[] for _ in prompts]
    for tokens in generate(
        ready, prompts, config, seed=seed, stop_ids=tokenizer.stop_ids, banned_ids=tokenizer.never_written
    ):
        for text, token in zip(written, tokens, strict=True):
            if token is not None:
                text.append(token)
    return [prompt + tokenizer.decode(ids) for ids in written]
