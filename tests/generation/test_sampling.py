"""Sampling: filters compared with distributions computed by hand, and reproducible generation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from generation.config import SamplingConfig, sampling_problems
from generation.cuda.sampling import generate_with_graphs
from generation.sampling import generate, keep_min_p, keep_top_p, next_token, penalise_repetition, top_k
from model.config import ModelConfig
from model.gpt import GPT

Sharpen = Callable[[Any], Any]
PROBABILITIES = torch.tensor([[0.1, 0.4, 0.05, 0.25, 0.2]])
LOGITS = PROBABILITIES.log()


def distribution(logits: Tensor) -> list[float]:
    """Return the probabilities of one row, rounded."""
    return [round(p, 4) for p in logits.softmax(-1)[0].tolist()]


def test_top_k_keeps_the_k_likeliest() -> None:
    """Guards against off-by-one, logits of other tokens, ids out of order, and a k larger than the vocabulary."""
    for k, expected in ((1, [1]), (2, [1, 3]), (3, [1, 3, 4]), (99, [0, 1, 2, 3, 4])):
        kept, ids = top_k(LOGITS, k)
        assert ids.tolist() == [expected]
        assert torch.equal(kept, LOGITS[:, expected])


def test_top_p_keeps_the_smallest_sufficient_set() -> None:
    """Guards the token that crosses p, which is kept, as is the most likely token, and the order of ids."""
    assert distribution(keep_top_p(LOGITS, 0.6)) == [0, 0.6154, 0, 0.3846, 0]  # 0.4 < 0.6 <= 0.65
    assert distribution(keep_top_p(LOGITS, 0.7)) == [0, 0.4706, 0, 0.2941, 0.2353]  # 0.65 < 0.7 <= 0.85
    for least in (0.01, 1e-300):  # the second is 0 as float32
        assert distribution(keep_top_p(LOGITS, least)) == [0, 1, 0, 0, 0]
    assert distribution(keep_top_p(LOGITS, 1.0)) == distribution(LOGITS)


def test_min_p_is_relative_to_the_likeliest() -> None:
    """Guards a threshold relative to the most likely token, instead of an absolute probability."""
    assert distribution(keep_min_p(LOGITS, 0.45)) == [0, 0.4706, 0, 0.2941, 0.2353]  # at least 0.18
    assert distribution(keep_min_p(LOGITS, 0.0)) == distribution(LOGITS)
    assert distribution(keep_min_p(LOGITS, 1.0)) == [0, 1, 0, 0, 0]


def test_repetition_makes_a_token_less_likely_whatever_its_sign() -> None:
    """Guards against dividing a negative logit, which would make a repeated token more likely."""
    logits = torch.tensor([[2.0, -2.0, 2.0, -2.0]])
    seen = torch.tensor([[True, True, False, False]])
    assert penalise_repetition(logits, seen, 2.0).tolist() == [[1.0, -4.0, 2.0, -2.0]]


def test_chosen_tokens_follow_the_filtered_distribution() -> None:
    """Guards filters, temperature and sampling together: the frequency of every token, and no token outside the kept
    set."""
    count = 200_000
    uniform = (torch.arange(count, dtype=torch.float64) + 0.5) / count  # every chance once
    config = SamplingConfig(temperature=0.5, top_k=4, top_p=0.9)
    # p² ∝ 16 6.25 4 1 (k = 4): shares .587 .229 .147 .037; .963 of it is enough for p = 0.9: 16 6.25 4.
    expected = torch.tensor([0, 16, 0, 6.25, 4]) / 26.25
    chosen = next_token(LOGITS.expand(count, -1), uniform, config)
    shares = torch.bincount(chosen, minlength=5) / count
    torch.testing.assert_close(shares, expected, rtol=0, atol=1e-4)


def test_the_extremes_of_chance_choose_possible_tokens() -> None:
    """Guards against a random number of 0, or just below 1, that selects a token of probability 0 at either end."""
    logits = torch.tensor([[float("-inf"), 0.0, float("-inf"), 0.0, float("-inf")]]).expand(2, -1)
    chances = torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64)
    assert next_token(logits, chances, SamplingConfig()).tolist() == [1, 3]


def test_temperature_zero_takes_the_likeliest() -> None:
    """Guards against division by zero, and randomness in greedy decoding."""
    config = SamplingConfig(temperature=0.0)
    assert next_token(LOGITS.expand(50, -1), torch.rand(50, dtype=torch.float64), config).tolist() == [1] * 50


@pytest.fixture
def gpt(sharpen: Sharpen) -> GPT:
    """Return a GPT whose vocabulary of 19 is padded to 32."""
    return sharpen(GPT(ModelConfig(layers=2, heads=4, width=32, context=16, vocab_multiple=32), 19))


def write(gpt: GPT, prompts: list[list[int]], seed: int = 0, **options: Any) -> list[list[int | None]]:
    """Return everything that `generate` yields, text by text."""
    known = {"stop_ids", "banned_ids"}
    config = SamplingConfig(**{key: value for key, value in options.items() if key not in known})
    arguments = {key: value for key, value in options.items() if key in known}
    return [list(text) for text in zip(*generate(gpt, prompts, config, seed=seed, **arguments), strict=True)]


def test_a_seed_reproduces_and_another_does_not(gpt: GPT) -> None:
    """Guards against draws from the global generator, which would make a seed useless."""
    torch.manual_seed(1)
    first = write(gpt, [[1], [1]], max_tokens=30)
    torch.manual_seed(2)
    assert write(gpt, [[1], [1]], max_tokens=30) == first
    assert write(gpt, [[1], [1]], seed=1, max_tokens=30) != first
    assert first[0] != first[1], "several samples of one prompt must differ"


def test_a_sampled_text_does_not_depend_on_the_others(gpt: GPT) -> None:
    """Guards against other texts, longer or ending earlier, that shift a text's random numbers; text r uses seed +
    r."""
    alone = write(gpt, [[1, 5, 2]], max_tokens=30)
    together = write(gpt, [[1, 5, 2], [4], list(range(16))], max_tokens=30)
    assert together[0] == alone[0]
    assert together[1] == write(gpt, [[4]], seed=1, max_tokens=30)[0]
    stop = next(token for token in together[1] if token not in alone[0][:25])
    stopped = write(gpt, [[1, 5, 2], [4], list(range(16))], max_tokens=25, stop_ids={stop})
    assert None in stopped[1]
    assert stopped[0] == alone[0][:25]


def test_samples_of_one_prompt_read_it_once(gpt: GPT) -> None:
    """Guards against 32 samples of a long prompt that wait 32 times as long for the first token, and mixed-up rows."""
    prompts = [[1, 5, 2], [4], [1, 5, 2], [1, 5, 2], [4]]
    read: list[int] = []
    gpt.blocks[0].register_forward_pre_hook(lambda block, inputs: read.append(len(inputs[0])))
    together = write(gpt, prompts, max_tokens=30)  # beyond the context: read anew, by then all different
    assert read[:2] == [2, 5]
    for row, prompt in enumerate(prompts):
        assert together[row] == write(gpt, [prompt], seed=row, max_tokens=30)[0]


def test_memory_does_not_grow_with_the_tokens_allowed(gpt: GPT) -> None:
    """Guards against drawing all random numbers in advance: max_tokens=10**13 once allocated 80 TB before the first
    token."""
    (first,) = next(generate(gpt, [[1]], SamplingConfig(max_tokens=10**13), seed=3))
    assert first == write(gpt, [[1]], seed=3, max_tokens=1)[0][0]


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 1e-300, 1e300, -1.0])
def test_no_number_turns_logits_into_nan(number: float) -> None:
    """Guards against a temperature or penalty outside float32, which makes every probability NaN."""
    assert len(sampling_problems(SamplingConfig(temperature=number, repetition_penalty=number))) == 2


@pytest.mark.parametrize("extreme", [0.001, 1000.0])
@pytest.mark.parametrize("penalty", [0.01, 100.0])
def test_the_allowed_extremes_choose_a_token(gpt: GPT, extreme: float, penalty: float) -> None:
    """Guards against limits that are too wide: overflow, and an index outside the vocabulary."""
    text = write(gpt, [[1, 2]], temperature=extreme, repetition_penalty=penalty, top_k=10**9, max_tokens=20)[0]
    assert set(text) <= set(range(19))


def test_generation_ends_with_the_last_text(gpt: GPT) -> None:
    """Guards against yielding a stop token, and computing after the last text has ended."""
    text = write(gpt, [[1]], temperature=0.0, max_tokens=30)[0]
    stop = text[4]
    stopped = write(gpt, [[1]], temperature=0.0, max_tokens=30, stop_ids={stop})[0]
    assert stopped == [*text[: text.index(stop)], None]


def test_banned_and_padded_ids_are_never_written(gpt: GPT) -> None:
    """Guards against padding rows of the vocabulary and banned special tokens, even if they are the most likely."""
    with torch.no_grad():
        gpt.head.weight[19:] = 50.0 * gpt.features(torch.tensor([[1]]))[0, 0]
    free = write(gpt, [[1], [2]], temperature=3.0, max_tokens=200)
    assert {token for text in free for token in text if token is not None} <= set(range(19))
    banned = {0, 1, 2, 3, 18}
    written = write(gpt, [[1], [2]], temperature=3.0, max_tokens=200, banned_ids=banned)
    assert not banned & {token for text in written for token in text}


def test_the_repetition_penalty_sees_prompt_and_new_tokens(gpt: GPT) -> None:
    """Guards against tokens seen in other rows, and prompts that do not count for the repetition penalty."""
    prompts = [[7, 8], [4]]
    texts = write(gpt, prompts, temperature=0.0, repetition_penalty=1.5, max_tokens=12)
    for prompt, text in zip(prompts, texts, strict=True):
        written = list(prompt)
        for token in text:
            with torch.no_grad():
                logits = gpt(torch.tensor([written]))[0, -1].tolist()
            fair = [x if i not in written else x / 1.5 if x > 0 else x * 1.5 for i, x in enumerate(logits)]
            assert token == fair.index(max(fair))
            written.append(token)


@pytest.mark.parametrize("form", [generate, generate_with_graphs])
def test_the_repetition_penalty_keeps_no_text_from_ending(gpt: GPT, form: Any) -> None:
    """Guards against a repetition penalty on the eos before every prompt, with which texts never ended."""
    eos = 3
    with torch.no_grad():
        gpt.head.weight[eos] = gpt.features(torch.tensor([[eos, 7]]))[0, -1]  # the likeliest token after the prompt
    config = SamplingConfig(temperature=0.0, repetition_penalty=100.0, max_tokens=4)
    assert list(form(gpt, [[eos, 7]], config, stop_ids={eos})) == [[None]]
    assert next(form(gpt, [[eos, 7]], config)) != [eos], "where it ends nothing it counts"


def test_impossible_requests_are_all_named(gpt: GPT) -> None:
    """Guards one message with all problems, before any work."""
    config = SamplingConfig(-1.0, 0, 0.0, 2.0, -1.0, 0)
    assert [sentence.partition("=")[0] for sentence in sampling_problems(config)] == [
        "repetition_penalty",
        "temperature",
        "top_k",
        "top_p",
        "min_p",
        "max_tokens",
    ]
    assert sampling_problems(SamplingConfig()) == []
    with pytest.raises(ValueError, match=r"top_k=0: must be at least 1.*model\.eval\(\).*prompt 1 has no tokens"):
        next(generate(gpt.train(), [[1], []], SamplingConfig(top_k=0)))
