"""Minimum Bayes risk decoding compared with sacreBLEU, and its samples with the probabilities of the model."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch
from sacrebleu.metrics import CHRF
from torch import Tensor

from configs.errors import UserError
from data.batches.pairs import encode_sources
from data.config import DataConfig, TokenizerConfig
from data.token_cache import prepare
from data.tokens.tokenizer import Tokenizer
from generation.beam_search import Hypothesis, beam_search
from generation.command_line import parse_command
from generation.config import MBRConfig, NeighbourConfig, TranslationConfig
from generation.ensemble import TranslatorEnsemble
from generation.mbr.epsilon_sampling import epsilon_sampling, keep_epsilon, seed_of
from generation.mbr.most_similar import chrf_matrix, most_similar
from generation.neighbours.translation_memory import TranslationMemory
from generation.translation import best_translations, translate, translate_part
from generation.translation_result import Translation, longest_target
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from training.evaluation.reports.settings import parse_settings

Translator = tuple[EncoderDecoder, list[Tokenizer], TranslationMemory]

DECODING = TranslationConfig(3, mbr=MBRConfig(samples=12, epsilon=0.05), batch_tokens=60)


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    """Return a tiny untrained model, its tokenizers, and pairs of the built-in corpus."""
    data = DataConfig(sentences=300, cache=str(tmp_path_factory.mktemp("cache")))
    prepared = prepare("translate", data, TokenizerConfig(kind="bpe", vocab_size=500), 24, 1)
    torch.manual_seed(1)
    size = prepared.tokenizers[0].vocab_size
    model = EncoderDecoder(ModelConfig(layers=1, heads=2, width=32, context=24), size, size, shared=True)
    for parameter in model.parameters():
        parameter.data *= 16.0 if parameter.dim() > 1 else 1.0  # so that some tokens are likely
    return model.eval(), prepared.tokenizers, TranslationMemory.of_rows(prepared.rows("train"))


def sampled(
    translator: Translator, sentence: str, samples: int, epsilon: float, longest: int = 1000
) -> tuple[Tensor, list[Hypothesis]]:
    """Sample translations of one sentence, at most `longest` tokens -> its token ids [1, S], and the samples."""
    model, (tokenizer,), _ = translator
    (batch,) = encode_sources(tokenizer, [sentence], 100, model.config.context)
    (result,) = epsilon_sampling(
        model,
        batch.source,
        bos_id=tokenizer.bos_id,
        eos_id=tokenizer.eos_id,
        max_length=torch.tensor([min(longest, longest_target(int(batch.lengths[0]), model.config.context))]),
        samples=samples,
        epsilon=epsilon,
        seeds=[seed_of(sentence)],
        length_penalty=0.5,
        banned_ids=tokenizer.never_written,
    )
    return batch.source, result


def strings(count: int, letters: str, longest: int) -> list[str]:
    draw = random.Random(count)
    return ["".join(draw.choices(letters, k=draw.randint(0, longest))) for _ in range(count)]


def test_the_utility_is_sacrebleus_chrf() -> None:
    """Guards clipped counts, the effective order of short texts, white space, and the direction of recall."""
    texts = ["", " ", "a", "ab", "aa", "aaaa", *strings(12, "ab c", 12), *strings(12, "猫が好き\u3000。", 30)]
    metric = CHRF()
    expected = [[metric.sentence_score(text, [other]).score for other in texts] for text in texts]
    torch.testing.assert_close(chrf_matrix(texts), torch.tensor(expected, dtype=torch.float64))


def test_the_choice_has_the_highest_mean_utility() -> None:
    """Guards against equal candidates that count once, and a mean over the wrong side."""
    metric, shares = CHRF(), []
    for seed in range(20):
        texts = strings(8 + seed, "abcd", 8)
        draw = random.Random(seed)
        candidates = [Translation(text, -place) for place, text in enumerate(draw.choices(texts, k=20))]
        means = [sum(metric.sentence_score(one.text, [other.text]).score for other in candidates) for one in candidates]
        best = most_similar(candidates)
        assert means[candidates.index(best)] == pytest.approx(max(means))
        shares.append(best.text == most_similar([Translation(text, 0) for text in {c.text for c in candidates}]).text)
    assert not all(shares), "multiplicity matters for some"
    assert most_similar([Translation("x", -1), Translation("y", -2), Translation("x", -3)]).score == -1
    assert most_similar([Translation("y", -1), Translation("x", -2)]).text == "y", "the first of equals"


def test_epsilon_leaves_out_improbable_tokens_but_not_the_best() -> None:
    """Guards the bound, and a distribution without any token."""
    logs = torch.tensor([[0.5, 0.3, 0.15, 0.05], [0.25, 0.3, 0.2, 0.25]]).log()
    assert keep_epsilon(logs, 0.1).isfinite().tolist() == [[True, True, True, False], [True] * 4]
    assert keep_epsilon(logs, 0.9).isfinite().tolist() == [[True, False, False, False], [False, True, False, False]]
    assert keep_epsilon(logs, 0.0).equal(logs)


@pytest.mark.parametrize("epsilon", [0.0, 0.04])
def test_samples_follow_the_model_above_epsilon(translator: Translator, epsilon: float) -> None:
    """Guards banned and improbable tokens, limits, the probability of a sample, and its frequency."""
    model, (tokenizer,), memory = translator
    banned = list(tokenizer.never_written)
    source, result = sampled(translator, memory.sources[0], 128, epsilon)
    limit = longest_target(source.shape[1], model.config.context)
    assert len(result) == 128
    assert len({tuple(one.tokens) for one in result}) > 20
    lengths = {len(one.tokens) for one in result}
    assert max(lengths) == limit
    assert epsilon or min(lengths) < limit, "some end, some are truncated"
    with torch.no_grad():
        for one in result:
            ids = one.tokens if len(one.tokens) == limit else [*one.tokens, tokenizer.eos_id]
            logits = model(source, torch.tensor([[tokenizer.bos_id, *ids[:-1]]]))[0]
            logits[:, banned] = float("-inf")
            logs = logits.log_softmax(-1)
            chosen = logs[torch.arange(len(ids)), torch.tensor(ids)]
            assert all((chosen.exp() >= epsilon - 1e-5) | (chosen >= logs.amax(-1) - 1e-5))
            assert one.log_probability == pytest.approx(float(chosen.sum()), abs=1e-3)
            assert one.score == pytest.approx(one.log_probability / len(ids) ** 0.5)
    first = keep_epsilon(logs[0], epsilon).softmax(-1)  # [V] truncated distribution of the first token
    drawn = [ids[0] for one in sampled(translator, memory.sources[0], 2000, epsilon, 1)[1] if (ids := one.tokens)]
    counted = torch.bincount(torch.tensor(drawn), minlength=len(first)) / 2000
    counted[tokenizer.eos_id] = 1 - counted.sum()
    assert int((first > 0).sum()) > 2
    torch.testing.assert_close(counted, first, atol=0.05, rtol=0)


def test_only_the_most_likely_tokens_are_greedy_decoding(translator: Translator) -> None:
    """Guards against hypotheses of the cache that see the tokens of another sample."""
    model, (tokenizer,), memory = translator
    for sentence in memory.sources[:4]:
        source, result = sampled(translator, sentence, 3, 0.999)
        limit = longest_target(source.shape[1], model.config.context)
        ids = {"bos_id": tokenizer.bos_id, "eos_id": tokenizer.eos_id, "banned_ids": tokenizer.never_written}
        ((greedy,),) = beam_search(model, source, max_length=limit, beam_size=1, length_penalty=0.5, **ids)
        assert [one.tokens for one in result] == [greedy.tokens] * 3
        assert result[0].score == pytest.approx(greedy.score, abs=1e-4)


def test_the_best_of_samples_and_hypotheses_is_returned(translator: Translator) -> None:
    """Guards against candidates that are lost, and a sentence with the samples of another one of its batch."""
    model, (tokenizer,), memory = translator
    sentences, config = memory.sources[:6], replace(DECODING, length_penalty=0.5)
    result = dict(translate(model, [tokenizer], [sentences], config))
    listed = replace(config, n_best=3, mbr=MBRConfig())
    n_best = dict(translate(model, [tokenizer], [sentences], listed))
    metric = CHRF()
    for index, sentence in enumerate(sentences):
        texts = [one.text for one in n_best[index]]
        texts += [tokenizer.decode(one.tokens) for one in sampled(translator, sentence, 12, 0.05)[1]]
        means = {text: sum(metric.sentence_score(text, [other]).score for other in texts) for text in texts}
        (chosen,) = result[index]
        assert means[chosen.text] == pytest.approx(max(means.values()))
    assert any(result[index][0].text != n_best[index][0].text for index in result)


def test_a_translation_does_not_depend_on_other_sentences(translator: Translator) -> None:
    """Guards against samples that depend on the order, the batch, the worker or the process."""
    model, tokenizers, memory = translator
    sentences = [*memory.sources[:6], "", memory.sources[0]]
    together = translate_part(model, tokenizers, sentences, DECODING)
    texts = [together[index].text for index in range(8)]
    assert texts[-1] == texts[0]
    backwards = best_translations(model, tokenizers, sentences[::-1], replace(DECODING, batch_tokens=1000))
    assert [one.text for one in backwards] == texts[::-1]
    workers = dict(translate(model, tokenizers, [sentences], DECODING, workers=3))
    assert [workers[index][0].text for index in range(8)] == texts
    parts = [translate_part(model, tokenizers, sentences, DECODING, rank, 2) for rank in range(2)]
    assert {**parts[0], **parts[1]} == together


@pytest.mark.parametrize("members", [1, 2])
def test_neighbours_and_ensembles_take_part(translator: Translator, members: int) -> None:
    """Guards against samples without retrieval: an untrained model can only know the translations from its neighbours;
    and against an ensemble that fails."""
    model, tokenizers, memory = translator
    used = TranslatorEnsemble([model] * members).eval() if members > 1 else model
    near = NeighbourConfig(1, weight=1.0, temperature=0.01)
    short = [row for row in range(100) if len(tokenizers[0].encode(memory.targets[row])) < 20][:10]
    sentences, targets = [memory.sources[row] for row in short], [memory.targets[row] for row in short]
    result = translate_part(used, tokenizers, sentences, replace(DECODING, neighbours=near), memory=memory)
    assert sum(result[index].text == target for index, target in enumerate(targets)) >= 9
    alone = best_translations(used, tokenizers, sentences[:3], DECODING)
    assert [one.text for one in alone] == [
        one.text for one in best_translations(model, tokenizers, sentences[:3], DECODING)
    ]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["mbr.samples=257"], "mbr.samples=257: must be from 0 to 256"),
        (["mbr.samples=8", "mbr.epsilon=1"], "mbr.epsilon=1.0: must be at least 0 and below 1"),
        (["mbr.epsilon=0.1"], "mbr.samples=0: mbr.epsilon needs the number of translations to sample, mbr.samples=32"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: list[str], message: str) -> None:
    """Guards against a setting that is silently ignored, in both programs."""
    for parse in (parse_command, parse_settings):
        with pytest.raises(UserError) as refused:
            parse(["run=runs/x", *settings])
        assert refused.value.args == (message,)


def test_a_list_of_the_best_is_refused() -> None:
    """Guards against a list with one entry for someone who asked for three."""
    with pytest.raises(UserError) as refused:
        parse_command(["run=runs/x", "mbr.samples=8", "n_best=3"])
    assert refused.value.args == ("n_best=3: mbr.samples chooses one translation per line; set n_best=1",)
