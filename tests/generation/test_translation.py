"""Translating many sentences: the same translations with any number of threads, all of which end."""

from __future__ import annotations

import threading
from contextlib import closing
from copy import deepcopy
from dataclasses import replace
from itertools import cycle, islice

import pytest
import torch

from data.config import DataConfig, TokenizerConfig
from data.token_cache import prepare
from data.tokens.tokenizer import Tokenizer
from generation.config import TranslationConfig
from generation.line_translation import in_order, printed, split_stream
from generation.translation import best_translations, translate
from generation.translation_result import Translation, distinct
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from training.config import TrainConfig
from training.run_folder.loaded_run import build_model

OPTIONS = TranslationConfig(beam_size=3, batch_tokens=60)


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> tuple[EncoderDecoder, list[Tokenizer], list[str]]:
    """Return a tiny untrained model, its tokenizers, and 60 sentences of the built-in corpus."""
    config = TrainConfig(
        task="translate",
        data=DataConfig(sentences=300, cache=str(tmp_path_factory.mktemp("cache"))),
        tokenizer=TokenizerConfig(kind="bpe", vocab_size=500),
        model=ModelConfig(layers=1, heads=2, width=32, context=32),
    )
    prepared = prepare("translate", config.data, config.tokenizer, config.model.context, 1)
    torch.manual_seed(1)
    model = build_model(config, prepared.tokenizers).eval()
    assert isinstance(model, EncoderDecoder)
    return model, prepared.tokenizers, prepared.rows("train")["source"][:60]


@pytest.mark.slow
def test_translations_are_the_same_with_any_number_of_workers(
    translator: tuple[EncoderDecoder, list[Tokenizer], list[str]],
) -> None:
    """Guards against batches out of order, values of another worker's batch, and threads that are not returned."""
    model, tokenizers, sentences = translator
    sentences = [*sentences, "", " "]
    threads = torch.get_num_threads()
    alone = dict(translate(model, tokenizers, [sentences], OPTIONS, workers=1))
    for workers in (2, 3):
        assert dict(translate(model, tokenizers, [sentences], OPTIONS, workers=workers)) == alone
    assert [alone[index][0].text for index in (len(sentences) - 2, len(sentences) - 1)] == ["", ""]
    assert torch.get_num_threads() == threads


def test_an_error_of_a_worker_arrives_and_ends_the_others(
    translator: tuple[EncoderDecoder, list[Tokenizer], list[str]],
) -> None:
    """Guards against an exception lost in a thread, and threads that continue after it."""
    model, tokenizers, sentences = translator
    before = threading.active_count()
    with pytest.raises(ValueError, match=r"model\.eval\(\)"):
        list(translate(model.train(), tokenizers, [sentences], OPTIONS, workers=2))
    model.eval()
    assert threading.active_count() == before


def test_who_stops_early_leaves_no_thread_behind(translator: tuple[EncoderDecoder, list[Tokenizer], list[str]]) -> None:
    """Guards Ctrl-C in the middle of a file: the rest must not be translated first."""
    model, tokenizers, sentences = translator
    before, threads = threading.active_count(), torch.get_num_threads()
    running = translate(model, tokenizers, [sentences * 20], OPTIONS, workers=2)
    next(running)
    running.close()
    assert threading.active_count() == before
    assert torch.get_num_threads() == threads


@pytest.mark.slow
def test_a_stream_is_read_as_it_is_translated(translator: tuple[EncoderDecoder, list[Tokenizer], list[str]]) -> None:
    """Guards against a file that must be read to its end, and fit into memory, before its first line is translated."""
    model, tokenizers, sentences = translator
    sentences = [*sentences[:20], " "]
    options = replace(OPTIONS, beam_size=1, batch_tokens=64)
    expected = best_translations(model, tokenizers, sentences, options)
    for workers in (1, 2):
        read = [0]
        endless = (read.append(number) or sentence for number, sentence in enumerate(cycle(sentences), 1))
        portions = split_stream(endless, options.batch_tokens)
        with closing(translate(model, tokenizers, portions, options, workers)) as results:
            for written, result in enumerate(islice(in_order(results), 100), 1):
                wanted = expected[(written - 1) % len(sentences)]
                assert [each.text for each in result] == [
                    wanted.text
                ]  # scores: batches of other widths round otherwise
                assert read[-1] - written <= 4 * 32  # lines of a portion
    assert [len(window) for window in split_stream(map(str, range(1000)), 512)] == [64, 128, 256, 256, 256, 40]
    assert list(split_stream([], 512)) == []


def test_where_a_stream_pauses_what_there_is_makes_a_portion() -> None:
    """Guards against holding back lines or the end while waiting for more."""
    stream = [None, *"ab", None, *map(str, range(200)), None, "c"]
    assert [len(window) for window in split_stream(stream, 512)] == [0, 2, 0, 128, 72, 0, 1]


def test_an_n_best_list_has_each_text_once_in_a_row_of_four_cells() -> None:
    """Guards against a text that is listed for each of its divisions into tokens, an order by another score, and rows
    broken by a tab of the text."""
    result = distinct([Translation(text, -score) for score, text in enumerate(["a\tb", "c\\n", "a\tb", "d", "c\\n"])])
    assert [(one.text, one.score) for one in result] == [("a\tb", 0), ("c\\n", -1), ("d", -3)]
    assert printed(7, result, 3) == "7\t1\t0.0000\ta\\tb\n7\t2\t-1.0000\tc\\\\n\n7\t3\t-3.0000\td\n"
    assert printed(7, result, 1) == "a\tb\n"


def test_an_n_best_list_is_filled_from_the_whole_beam(
    translator: tuple[EncoderDecoder, list[Tokenizer], list[str]],
) -> None:
    """Guards against one sentence in two segmentations, and fewer texts than asked for, although the beam has more."""
    model, tokenizers, sentences = translator
    pieces = tokenizers[-1].text_pieces()
    whole = next(piece for piece in pieces if len(piece) == 2 and set(piece) <= pieces.keys())
    model = deepcopy(model)
    with torch.no_grad():  # which now writes these two characters alone, one by one or as one piece
        model.head.bias = torch.nn.Parameter(torch.zeros(model.head.out_features))
        model.head.bias[[pieces[piece] for piece in (whole, *whole)]] = 50
        model.head.bias[tokenizers[-1].eos_id] = 54
    result = translate(model, tokenizers, [sentences[:20]], replace(OPTIONS, beam_size=16, n_best=12))
    for _, best in result:
        assert len({one.text for one in best}) == len(best) == 12
        assert best == sorted(best, key=lambda one: -one.score)
