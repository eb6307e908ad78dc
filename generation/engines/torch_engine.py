"""Decode with our own sampling and beam search, in the form that is fastest on the model's device."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

from data.tokens.tokenizer import Tokenizer
from generation.config import GenerateConfig
from generation.cuda.sampling import GraphSampling, generate_with_graphs
from generation.ensemble import Ensemble
from generation.fast_decoding import prepare
from generation.neighbours.translation_memory import TranslationMemory
from generation.sampling import generate
from generation.text_streaming import BATCH
from generation.translation import translate
from generation.translation_result import Translation
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT


class TorchEngine:
    """A copy of a model, on its device, with weights in the fastest layout; an `Engine`."""

    def __init__(
        self,
        model: GPT | EncoderDecoder,
        tokenizers: list[Tokenizer],
        config: GenerateConfig,
        weights: str,
        memory: TranslationMemory | None = None,
    ) -> None:
        """weights: float32 or bf16. memory: the pairs among which neighbours are retrieved, if any."""
        texts = min(config.samples, BATCH) if isinstance(model, GPT) else None
        self.model = prepare(model, weights, texts)
        self.tokenizers, self.config, self.memory = tokenizers, config, memory
        self.context = model.config.context

    def sample(self, prompt: list[int], texts: int, seed: int) -> Iterator[list[int | None]]:
        """Continue a prompt, as an Engine; text r depends only on the prompt and on `seed` + r."""
        assert isinstance(self.model, GPT)
        tokenizer = self.tokenizers[0]
        stop_ids, banned_ids = tokenizer.stop_ids, tokenizer.never_written
        sample = sampler(self.model)
        return sample(self.model, [prompt] * texts, self.config, seed=seed, stop_ids=stop_ids, banned_ids=banned_ids)

    def translate(self, portions: Iterable[Sequence[str]]) -> Generator[tuple[int, list[Translation]], None, None]:
        """Translate sentences, as an Engine."""
        assert isinstance(self.model, EncoderDecoder)
        return translate(self.model, self.tokenizers, portions, self.config, memory=self.memory)


def sampler(model: GPT) -> Callable[..., Iterator[list[int | None]]]:
    """Return the faster form of `generate` for this model: on a GPU with a CUDA graph per step, otherwise eager."""
    graphs = GraphSampling.applies(next(model.parameters()).device) and not isinstance(model, Ensemble)
    return generate_with_graphs if graphs else generate
