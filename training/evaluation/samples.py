"""Sample texts generated at each evaluation."""

from __future__ import annotations

from data.tokens.tokenizer import Tokenizer
from generation.config import SamplingConfig
from generation.engines.torch_engine import sampler
from generation.fast_decoding import prepare
from model.gpt import GPT
from model.size import count_parameters
from training.hardware.bfloat16 import decoding_format


def sample_documents(model: GPT, tokenizer: Tokenizer, count: int, seed: int, max_tokens: int) -> list[str]:
    """Sample `count` documents from their beginning, at most `max_tokens` tokens each, without changing the global
    random state; document r is seeded with `seed` + r. `model` is in any mode and stays as it is."""
    device = next(model.parameters()).device
    ready = prepare(model, decoding_format(device, count_parameters(model)))
    config = SamplingConfig(max_tokens=max_tokens)
    prompts = [[tokenizer.start_id]] * count
    written: list[list[int]] = [[] for _ in prompts]
    for tokens in sampler(ready)(
        ready, prompts, config, seed=seed, stop_ids=tokenizer.stop_ids, banned_ids=tokenizer.never_written
    ):
        for text, token in zip(written, tokens, strict=True):
            if token is not None:
                text.append(token)
    return [tokenizer.decode(ids) for ids in written]
