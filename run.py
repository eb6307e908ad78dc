"""A trained run in Python, for notebooks and scripts: `Run("runs/demo_gpt").generate("One day, Leo")`.

Programs and the Attention tab load runs with the same class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, overload

from attention_maps.files.file_names import FOLDER
from attention_maps.notebook import Inline, show_recording
from attention_maps.record.example import Example
from attention_maps.record.recording import Recording
from configs.devices import DEVICES, is_device
from configs.errors import UserError
from configs.run_contents import check_contents
from data.batches.source_sentences import source_ids
from data.tokens.tokenizer import Tokenizer
from generation.config import GenerateConfig, SamplingConfig, TranslationConfig, problems, task_problems
from generation.engines.torch_engine import TorchEngine
from generation.neighbours.translation_memory import load_memory
from generation.recorded_maps import GeneratedMaps
from generation.text_streaming import continuation
from generation.translation import best_translations
from generation.translation_result import Translation
from interop.about import about
from interop.export_input import Trained
from interpretability.recorder import record
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from model.size import count_parameters
from training.evaluation.reports.bootstrap import Figure
from training.hardware.bfloat16 import decoding_format
from training.hardware.device import choose_device
from training.hardware.threads import threads_for
from training.run_folder.loaded_run import LoadedRun

LONGEST_MAP = 512
"""Maximum number of tokens of a text, or of either side of a pair: the size of a map grows with its square."""


class Run(LoadedRun):
    """A trained model: generate or translate with it, look at its attention, score it.

    Attributes: `model` (a `torch.nn.Module` in float32 and evaluation mode: a `GPT` or an `EncoderDecoder`),
    `tokenizers` (one, or those of source and target), `config` (all settings of the training), `folder`, `step`.
    """

    def __init__(self, path: str | Path, checkpoint: str = "best", device: str = "cpu") -> None:
        """path: a run folder, one of its checkpoints (`runs/NAME/checkpoints/step-00000500`), or several separated by
        commas, an ensemble, whose predictions are averaged. checkpoint: `best` (lowest validation loss), `last`, or the
        name of a step. device: `cpu`, `cuda`, `cuda:N`, `mps`, or `auto`, a GPU if there is one.

        Raises UserError, one sentence with the fix, if the run cannot be loaded or the device does not work.
        """
        if not is_device(device):
            raise UserError(f"device={device}: must be one of {DEVICES}")
        super().__init__(path, checkpoint)
        self.device = choose_device(device, key="device")
        self.model.to(self.device)

    def __repr__(self) -> str:
        size = f"{count_parameters(self.model):,} weights"
        return f"Run({self.name!r}): task={self.config.task}, step {self.step:,}, {size}"

    @property
    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer of what the model writes."""
        return self.tokenizers[-1]

    def generate(self, prompt: str = "", *, seed: int = 1, stop: Sequence[str] = (), **sampling: Any) -> str:
        """Return a prompt and its continuation by a GPT: the text that `generate.py` prints for the same settings.

        stop: the text ends before any of these strings. sampling: fields of `SamplingConfig`, such as `temperature`
        (default 0.8; 0 takes the most likely token), `top_k`, `top_p`, `min_p` and `max_tokens` (default 200).

        Raises UserError for an invalid setting and for a translator, TypeError for a setting that does not exist.
        """
        config = GenerateConfig(run=self.name, seed=seed, stop=[*stop], **vars(SamplingConfig(**sampling)))
        self.check("gpt", config)
        return prompt + continuation(self.engine(config), prompt, config)

    @overload
    def translate(self, text: str, **settings: Any) -> str: ...
    @overload
    def translate(self, text: Sequence[str], **settings: Any) -> list[str]: ...
    def translate(self, text: str | Sequence[str], **settings: Any) -> str | list[str]:
        """Return the translation of a sentence, or those of many, in order: what `generate.py` prints for each line.

        settings: fields of `TranslationConfig`, such as `beam_size` (default 4), `length_penalty`, `reverse` (the other
        direction, for runs with `data.both_directions=true`). Many sentences at once are several times as fast.

        Raises UserError for an invalid setting and for a GPT, TypeError for a setting that does not exist.
        """
        config = GenerateConfig(run=self.name, **vars(TranslationConfig(**settings)))
        self.check("translate", config)
        sentences = [sentence.strip() for sentence in ([text] if isinstance(text, str) else text)]
        best = {index: hypotheses[0].text for index, hypotheses in self.engine(config).translate([sentences])}
        return best[0] if isinstance(text, str) else [best[index] for index in range(len(sentences))]

    def translation(
        self, text: str, reverse: bool = False, beam_size: int = TranslationConfig.beam_size
    ) -> Translation:
        """Return the translation of a sentence with its score and its token ids, by the model as it is, in which heads
        may be removed; `translate` decodes with a faster copy. Raises UserError for a GPT."""
        config = GenerateConfig(run=self.name, reverse=reverse, beam_size=beam_size)
        self.check("translate", config)
        assert isinstance(self.model, EncoderDecoder)
        return best_translations(self.model, self.tokenizers, [text.strip()], config)[0]

    def attention(self, text: str, target: str | None = None, *, reverse: bool = False) -> Recording:
        """Return the attention maps of a text; of a translator, those of a sentence and its translation.

        target: the translation to read; None for the model's own. reverse: as in `translate`.
        `recording.weight("He", "Ken", kind="decoder", layer=1)` returns one number, and
        `recording.maps(0, "decoder", 1)` those of a layer, [H, Q, K] float32, whose rows sum to 1.

        A text longer than the context or `LONGEST_MAP` is cut to its end. Raises UserError for a sentence or target
        that is longer, and for an ensemble, which has no maps.
        """
        if self.members:
            raise UserError(f"{self.name}: an ensemble has no attention maps; load one run at a time")
        with threads_for(self.model, len(text)):  # a text has about as many tokens as letters, or fewer
            return self.record(self.example(text, target, reverse))

    def show(self, text: str, target: str | None = None, **state: Any) -> Inline:
        """Return the Attention tab with the maps of a text, as the output of a notebook cell. state: where the tab
        opens, as for `attention_maps.notebook.show_recording`; otherwise as `attention`."""
        return show_recording(self.attention(text, target), **state)

    def record(self, example: Example) -> Recording:
        """Return the recording of an example by the model as it is, in which heads may be removed."""
        pieces = self.tokenizer
        return record(
            self.model,
            [example],
            pieces.special_ids,
            self.step,
            pieces=pieces.pieces,
            max_tokens=self.longest,
            about=about(self.trained),
        )

    @property
    def trained(self) -> Trained:
        """Return the model with all that is known of its run, for an export or for what is said of it."""
        return Trained(self.model, self.tokenizers, self.folder, self.step, asdict(self.config))

    def example(
        self, text: str, target: str | None = None, reverse: bool = False, beam_size: int = TranslationConfig.beam_size
    ) -> Example:
        """Return the tokens that the model reads of a text, or of a sentence and its target; arguments and errors as in
        `attention`. beam_size: of the model's own translation."""
        source, last = self.tokenizers[0], self.tokenizers[-1]
        if isinstance(self.model, GPT):
            return Example.text([source.start_id, *source.encode(text)][-self.longest :], source)
        (ids,) = source_ids(source, [text.strip()], reverse)
        self._check_length([*ids, source.eos_id], "source")
        if target is None:
            target_ids = self.translation(text, reverse, beam_size).tokens[: self.longest - 1]
        else:
            target_ids = self._check_length([last.bos_id, *last.encode(target.strip())], "target")[1:]
        return Example.pair(ids, target_ids, source, last)

    @property
    def longest(self) -> int:
        """Return the maximum number of tokens of a text or side of which maps are recorded, with special tokens."""
        return min(self.model.config.context, LONGEST_MAP)

    def evaluate(
        self,
        split: Literal["test", "valid", "novel"] = "test",
        *,
        stride: int | None = None,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        reverse: bool = False,
        resamples: int = 1000,
    ) -> dict[str, Figure]:
        """Return the scores on a split by name, each with its value and 95 % interval: those of `evaluate.py`.

        Losses are in nats per token, accuracies, chrF and BLEU in percent. stride: of the windows of a GPT. beam_size,
        length_penalty, reverse: of a translator. resamples: of the bootstrap; 0 for no intervals. Defaults are those of
        `evaluate.py`, which has more settings. Nothing is written. Raises UserError, also if the data are not there.
        """
        # Late: reading data imports `datasets`, for which the other methods need not wait.
        from training.evaluation.reports.evaluated_run import moved, prepare_subject
        from training.evaluation.reports.report import report
        from training.evaluation.reports.settings import EvaluateSettings, evaluation_problems, run_problems

        decoding: Any = {"beam_size": beam_size, "length_penalty": length_penalty, "reverse": reverse}
        settings = EvaluateSettings(self.name, split, stride=stride, resamples=resamples, **decoding)
        context, both = self.config.model.context, self._both_directions
        broken = evaluation_problems(settings) + run_problems(settings, [self.config.task], [context], [both])
        if broken:
            raise UserError(*broken)
        texts = moved(self.config.data, settings.data, self.config.task, split)
        return dict(report(prepare_subject(self, texts, split), None, settings).scores)

    def engine(self, config: GenerateConfig) -> TorchEngine:
        """Return a copy of the model that is ready to decode, its weights in the format that is fastest on its device.

        config: checked (see `check`). Later changes of `model` do not reach the copy.
        """
        weights = config.quantize or decoding_format(self.device, count_parameters(self.model))
        memory = load_memory(self.config.data, config.neighbours, config.reverse)
        return TorchEngine(self.model, self.tokenizers, config, weights, memory)

    def map_recorder(self, reverse: bool = False) -> Callable[[], GeneratedMaps]:
        """Return a function that creates a recorder of generated texts, whose maps go to the run folder. reverse: as in
        `translate`. Raises UserError if nothing can be written there."""
        check_contents(self.folder, written=FOLDER)
        most = self.config.attention.max_tokens
        return lambda: GeneratedMaps(
            self.folder, self.step, self.model, self.tokenizers, most, reverse, about(self.trained)
        )

    def check(self, task: str, config: GenerateConfig) -> None:
        """Raise UserError if the run has another task than `gpt` or `translate`, or for each setting that is wrong."""
        if self.config.task != task:
            way = "translates: use translate()" if task == "gpt" else "generates text: use generate()"
            raise UserError(f"{self.name} {way}")
        models = len(self.members) or 1
        if broken := problems(config) + task_problems(config, set(), task, models, self._both_directions):
            raise UserError(*broken)

    @property
    def _both_directions(self) -> bool:
        """Whether every model was trained to translate in both directions."""
        return all(member.config.data.both_directions for member in self.members or (self,))

    def _check_length(self, ids: list[int], side: str) -> list[int]:
        """Return the ids. Raises UserError if there are more than the model reads."""
        if len(ids) > self.longest:
            raise UserError(f"the {side} has {len(ids)} tokens, and at most {self.longest} can be read")
        return ids
