"""Nearest-neighbour retrieval compared with its formula, computed sentence by sentence without batches."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from data.config import DataConfig, TokenizerConfig
from data.token_cache import prepare
from data.tokens.tokenizer import Tokenizer
from generation.config import NeighbourConfig, TranslationConfig
from generation.ensemble import TranslatorEnsemble
from generation.neighbours.datastore import Datastore, build_datastore, teacher_forced
from generation.neighbours.translation_memory import TranslationMemory
from generation.translation import best_translations, translate_part
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder

NEAR = NeighbourConfig(sentences=3, weight=0.6, temperature=0.3)
DECODING = TranslationConfig(2, neighbours=NEAR)

Translator = tuple[EncoderDecoder, list[Tokenizer], TranslationMemory]


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    """Return a tiny untrained model, its tokenizers, and a memory of the built-in corpus."""
    data = DataConfig(sentences=300, cache=str(tmp_path_factory.mktemp("cache")))
    prepared = prepare("translate", data, TokenizerConfig(kind="bpe", vocab_size=500), 64, 1)
    return model_of(prepared.tokenizers, 32), prepared.tokenizers, TranslationMemory.of_rows(prepared.rows("train"))


def model_of(tokenizers: list[Tokenizer], width: int) -> EncoderDecoder:
    torch.manual_seed(width)
    size = tokenizers[0].vocab_size
    model = EncoderDecoder(ModelConfig(layers=1, heads=2, width=width, context=64), size, size, shared=True)
    for parameter in model.parameters():
        parameter.data *= 3.0 if parameter.dim() > 1 else 1.0  # so that the states of different words differ
    return model.eval()


def by_definition(
    store: Datastore, row: int, log_probabilities: list[float], state: Tensor, config: NeighbourConfig
) -> Tensor:
    """Return the mixed log-probabilities [V] of one hypothesis of sentence `row`."""
    keys, tokens = store.states[row][store.real[row]].double(), store.tokens[row][store.real[row]].tolist()
    mixed = torch.tensor(log_probabilities).double().exp()
    if not len(keys):
        return mixed.log()
    unit = sum(float(key @ key) for key in keys) / len(keys)
    distances = [float((key - state) @ (key - state)) / unit for key in keys]
    closeness = [torch.tensor(-d / config.temperature).double().exp() for d in distances]
    shares: defaultdict[int, Tensor] = defaultdict(lambda: torch.zeros(()).double())
    for token, each in zip(tokens, closeness, strict=True):
        shares[token] += each / sum(closeness)
    weight = config.weight * max(closeness)
    mixed *= 1 - weight
    for token, share in shares.items():
        mixed[token] += weight * share
    return mixed.log()


def test_the_mixture_is_that_of_the_formula(translator: Translator) -> None:
    """Guards against padding that counts as a neighbour, a token that is lost where two states predict it, and a
    sentence without neighbours that gets NaN."""
    model, tokenizers, memory = translator
    sentences = [memory.sources[3], memory.sources[80], "Unheard indeed"]
    store = build_datastore(model, tokenizers, memory, sentences, DECODING)
    assert store is not None
    assert store.real.sum(dim=1).tolist()[2] == 0
    states = store.states[:2, :4].repeat(2, 1, 1)[:3] + 0.3 * torch.randn(3, 4, 32)
    logs = torch.randn(3, 4, tokenizers[0].vocab_size).log_softmax(-1)
    mixed = store.mix(logs, states)
    torch.testing.assert_close(mixed.exp().sum(-1), torch.ones(3, 4))
    for row in range(3):
        for beam in range(4):
            expected = by_definition(store, row, logs[row, beam].tolist(), states[row, beam].double(), NEAR)
            torch.testing.assert_close(mixed[row, beam].double(), expected, rtol=1e-4, atol=1e-4)
    chosen = store.select(torch.tensor([1]))
    torch.testing.assert_close(chosen.mix(logs[1:2], states[1:2]), mixed[1:2])
    assert build_datastore(model, tokenizers, memory, ["Unheard indeed"], DECODING) is None


def test_each_state_is_stored_with_the_token_that_follows_it(translator: Translator) -> None:
    """Guards against states one step off, padding, and tokens that no translation may contain."""
    model, tokenizers, memory = translator
    (tokenizer,) = tokenizers
    memory = TranslationMemory([*memory.sources[:20], "A word."], [*memory.targets[:20], "\u2603."])  # ☃ is <unk>
    rows = [20, 3, 7, 11]
    with torch.no_grad():
        result = teacher_forced(model, tokenizers, memory, torch.tensor(rows).numpy())
    for row, (states, tokens) in zip(rows, result, strict=True):
        source, target = tokenizer.encode(memory.sources[row]), tokenizer.encode(memory.targets[row])
        inputs = torch.tensor([[*source, tokenizer.eos_id]]), torch.tensor([[tokenizer.bos_id, *target]])
        kept = [place for place, token in enumerate([*target, tokenizer.eos_id]) if token != tokenizer.unk_id]
        assert tokens.tolist() == [[*target, tokenizer.eos_id][place] for place in kept]
        with torch.no_grad():
            torch.testing.assert_close(states, model.features(*inputs)[0][kept])
    assert len(result[0][1]) < len(tokenizer.encode("\u2603.")) + 1


@pytest.mark.parametrize("beam_size", [1, 3])
def test_full_weight_makes_a_training_sentence_its_own_translation(translator: Translator, beam_size: int) -> None:
    """Guards against neighbours of another sentence of the batch, also after sentences have left it: an untrained model
    can only know the translations from its neighbours."""
    model, tokenizers, memory = translator
    sentences, targets = memory.sources[:60], memory.targets[:60]
    config = TranslationConfig(beam_size, neighbours=NeighbourConfig(1, weight=1.0, temperature=0.01))
    result = translate_part(model, tokenizers, sentences, config, memory=memory)
    assert sum(result[index].text == targets[index] for index in range(60)) >= 54  # others are made of the same words
    plain = best_translations(model, tokenizers, sentences, replace(config, neighbours=NeighbourConfig()))
    assert sum(one.text == target for one, target in zip(plain, targets, strict=True)) == 0


def test_a_translation_with_neighbours_does_not_depend_on_its_batch(translator: Translator) -> None:
    """Guards against distances measured in units of the whole batch."""
    model, tokenizers, memory = translator
    sentences = ["The old dog sees a cat.", "Ken runs.", "Unheard indeed", *memory.sources[:8]]
    config = TranslationConfig(2, neighbours=NEAR)
    together = translate_part(model, tokenizers, sentences, config, memory=memory)
    for index, sentence in enumerate(sentences):
        (alone,) = translate_part(model, tokenizers, [sentence], config, memory=memory).values()
        assert alone.text == together[index].text
        assert alone.score == pytest.approx(together[index].score, abs=1e-4)


def test_an_ensemble_compares_the_states_of_all_members(translator: Translator) -> None:
    """Guards against an ensemble that retrieves with the states of its first member only, or fails."""
    model, tokenizers, memory = translator
    ensemble = TranslatorEnsemble([model, model_of(tokenizers, 48)]).eval()
    store = build_datastore(ensemble, tokenizers, memory, memory.sources[:2], DECODING)
    assert store is not None
    assert store.states.shape[-1] == 32 + 48
    config = TranslationConfig(2, neighbours=NeighbourConfig(1, weight=1.0, temperature=0.01))
    result = translate_part(ensemble, tokenizers, memory.sources[:5], config, memory=memory)
    assert [result[index].text for index in range(5)] == memory.targets[:5]
