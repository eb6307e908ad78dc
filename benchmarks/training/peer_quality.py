"""Train GPT-2 or Marian of Hugging Face transformers on the data of one of our runs, for a given time: the quality to
compare ours with.

The peer gets the tokenizer, the batches, the context and, to within 2 %, the number of parameters of the run, AdamW
with warm-up and cosine decay, bf16 autocast and clipping. Several learning rates are tried in short runs; the one with
the lowest validation loss trains for the whole time, which includes its evaluations. The test split is read once.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from benchmarks.device import device
from benchmarks.inputs import existing
from benchmarks.machine import describe_machine
from benchmarks.peers.gpt import WEIGHT_DECAY, adamw
from configs.errors import UserError
from configs.whole_file import write_whole
from data.batches.batch import IGNORED, Batch
from data.prepared import PreparedPairs
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from run import Run
from training.evaluation.held_out import bits_per_byte
from training.evaluation.reports.subject import Subject, prepare_subject
from training.evaluation.translation_scores import score
from training.run_folder.saved_config import load_config, named_runs

BETAS, CLIP = (0.9, 0.95), 1.0
WARM_UP = 0.03
"""Fraction of the time; the rate then falls along a cosine to a tenth (Hoffmann et al. 2022)."""
DECODED = 32
"""Sentences decoded together."""

LogitsOf = Callable[[nn.Module, Batch], Tensor]


@dataclass
class PeerQualitySettings:
    """Settings of `peer_quality`."""

    run: str = ""
    """One of our runs, whose data, tokenizer, batches and size the peer gets."""

    minutes: float = 60.0
    """Training time of the peer, evaluations included."""

    rates: str = "5e-4,1e-3,2e-3,4e-3"
    """Learning rates to try, separated by commas."""

    trial_minutes: float = 6.0
    """Duration of each trial; one rate needs none."""

    dropout: float | None = None
    """Dropout; null uses that of the run."""

    split: str = "test"
    """Split of the reported scores."""

    to: str = ""
    """JSON file for the result; empty means only the printed lines."""


def peer_quality(settings: PeerQualitySettings) -> None:
    """Train the peer of a run, evaluate it on the test split like our runs, and print and save the result."""
    existing("run", settings.run, "folder")
    rates = learning_rates(settings.rates)
    if settings.minutes <= 0 or settings.trial_minutes <= 0:
        raise UserError("minutes and trial_minutes must be above 0")
    torch.set_float32_matmul_precision("high")
    texts = load_config(named_runs(settings.run, "best")[0][0]).data
    subject = prepare_subject(Run(settings.run), texts, settings.split)
    trials = {}
    if len(rates) > 1:
        for rate in rates:
            peer = Peer(subject, settings.dropout)
            trials[rate] = peer.train(rate, settings.trial_minutes)
            print(f"trial: rate {rate:g}, {settings.trial_minutes:g} minutes: validation loss {trials[rate]:.4f}")
    rate = min(trials, key=trials.__getitem__) if trials else rates[0]
    peer = Peer(subject, settings.dropout)
    best = peer.train(rate, settings.minutes)
    scores = peer.scores()
    print(f"{peer.name}, {peer.parameters / 1e6:.2f}M parameters (ours {peer.wanted / 1e6:.2f}M), rate {rate:g}")
    print(f"{settings.minutes:g} minutes, {peer.steps} steps; best validation loss {best:.4f} at step {peer.best_step}")
    print(f"{settings.split}: " + ", ".join(f"{name} {value:.4f}" for name, value in scores.items()))
    if settings.to:
        result = {"settings": asdict(settings), "machine": describe_machine(), "peer": peer.name, "rate": rate}
        result |= {"parameters": peer.parameters, "steps": peer.steps, "valid_loss": best, "scores": scores}
        write_whole(Path(settings.to), (json.dumps(result | {"trials": trials}, indent=2) + "\n").encode())


def learning_rates(text: str) -> list[float]:
    """Read numbers separated by commas. Raises UserError."""
    try:
        rates = [float(rate) for rate in text.split(",")]
    except ValueError:
        rates = []
    if not rates or not all(0 < rate < math.inf for rate in rates):
        raise UserError(f"rates={text}: must be numbers above 0, separated by commas")
    return rates


class Peer:
    """A model of transformers of the size of a run, its training and its evaluation."""

    def __init__(self, subject: Subject, dropout: float | None) -> None:
        try:
            import transformers  # noqa: F401
        except ImportError:
            raise UserError("transformers is not installed: pip install 'chumoku[bench]'") from None
        self.subject, self.prepared = subject, subject.prepared
        self.wanted = sum(each.numel() for each in subject.model.parameters())
        self.dropout = subject.config.model.dropout if dropout is None else dropout
        self.translates = isinstance(self.prepared, PreparedPairs)
        self.name = "MarianMTModel" if self.translates else "GPT2LMHeadModel"
        torch.manual_seed(subject.config.seed)
        self.model: Any = self._model_of_size().to(device())
        self.parameters = _parameters(self.model)
        self.steps = self.best_step = 0
        data, trainer = subject.config.data, subject.config.trainer
        self.batch_size = data.batch_tokens if self.translates else trainer.batch_size

    def _model_of_size(self) -> nn.Module:
        """Return a model with the layers and heads of the run whose width gives the closest number of parameters."""
        heads = self.subject.config.model.heads
        near = self.subject.config.model.width
        widths = range(max(2 * heads, near // 2 // heads * heads), 2 * near, heads)
        with torch.device("meta"):
            sizes = {width: _parameters(self._model(width)) for width in widths if width % (2 * heads) == 0}
        return self._model(min(sizes, key=lambda width: abs(sizes[width] - self.wanted)))

    def _model(self, width: int) -> nn.Module:
        config, vocabulary = self.subject.config.model, self.prepared.tokenizers[-1].vocab_size
        if self.translates:
            from benchmarks.peers.translation import marian_model

            found: nn.Module = marian_model(
                vocabulary, config.layers, config.heads, width, config.context, self.dropout, use_cache=True
            )
            return found
        from benchmarks.peers.hugging_face import gpt2_model

        dropouts = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), self.dropout)
        size = replace(config, width=width)
        return gpt2_model(size, vocabulary, **dropouts, use_cache=False, bos_token_id=0, eos_token_id=0)

    def logits(self, batch: Batch) -> Tensor:
        """Return the logits [B, T, V] of a batch."""
        if batch.source is None:
            found: Tensor = self.model(batch.inputs).logits
            return found
        mask = batch.source != SentencePieceTokenizer.pad_id
        found = self.model(input_ids=batch.source, attention_mask=mask.long(), decoder_input_ids=batch.inputs).logits
        return found

    def train(self, rate: float, minutes: float) -> float:
        """Train for `minutes`, keep the weights with the lowest validation loss and return this loss."""
        smoothing = self.subject.config.trainer.label_smoothing
        groups = [
            {"params": [p for p in self.model.parameters() if p.dim() > 1], "weight_decay": WEIGHT_DECAY},
            {"params": [p for p in self.model.parameters() if p.dim() <= 1], "weight_decay": 0.0},
        ]
        optimizer = adamw(groups, rate, BETAS)
        batches = self.prepared.training(self.batch_size, seed=self.subject.config.seed)
        best, weights, evaluations = math.inf, {}, [0.5, 0.75, 0.9, 1.0]
        started = time.perf_counter()
        self.model.train()
        with tqdm(total=round(60 * minutes), unit="s", desc=f"{self.name}, rate {rate:g}", disable=None) as bar:
            while evaluations:
                progress = min(1.0, (time.perf_counter() - started) / (60 * minutes))
                bar.update(round(60 * minutes * progress) - bar.n)
                if progress >= evaluations[0]:
                    evaluations = [each for each in evaluations if each > progress]
                    if (held_out := self.loss("valid")[0]) < best:
                        best, self.best_step = held_out, self.steps
                        weights = {name: value.clone() for name, value in self.model.state_dict().items()}
                    continue
                for group in optimizer.param_groups:
                    cosine = 0.1 + 0.45 * (1 + math.cos(math.pi * progress))
                    group["lr"] = rate * min((progress + 1e-3) / WARM_UP, cosine)
                batch = batches.next_batch().to(device())
                with torch.autocast(device().type, torch.bfloat16):
                    logits = self.logits(batch).flatten(0, 1)
                loss = F.cross_entropy(
                    logits.float(), batch.targets.flatten(), ignore_index=IGNORED, label_smoothing=smoothing
                )
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
                optimizer.step()
                self.steps += 1
        self.model.load_state_dict(weights)
        return best

    @torch.no_grad()
    def loss(self, split: str) -> tuple[float, float]:
        """Return the cross-entropy per token and in total, in nats, of the split: of all windows or pairs."""
        self.model.eval()
        total, count = 0.0, 0
        for batch in self.prepared.evaluation(split, self.batch_size):
            batch = batch.to(device())
            with torch.autocast(device().type, torch.bfloat16):
                logits = self.logits(batch).flatten(0, 1)
            losses = F.cross_entropy(logits.float(), batch.targets.flatten(), ignore_index=IGNORED, reduction="sum")
            total, count = total + float(losses), count + batch.target_tokens
        self.model.train()
        return total / count, total

    def scores(self) -> dict[str, float]:
        """Return the scores of the split that our runs report."""
        loss, total = self.loss(self.subject.split)
        scores = {"loss": loss}
        if not self.translates:
            lost, size = self.prepared.lost(self.subject.split), self.prepared.bytes(self.subject.split)
            return scores | {"bits_per_byte": bits_per_byte(total, lost, size)}
        rows = self.prepared.rows(self.subject.split)[:]
        found = score(self.translations(rows["source"]), rows["target"])
        return scores | {"char_bleu": found.bleu, "chrf": found.chrf, "exact": found.exact}

    @torch.no_grad()
    def translations(self, sources: list[str]) -> list[str]:
        """Translate with `generate` of transformers and the beam size of the run, without unknown pieces."""
        self.model.eval()
        source_tokenizer, target_tokenizer = self.prepared.tokenizers[0], self.prepared.tokenizers[-1]
        trainer, context = self.subject.config.trainer, self.subject.config.model.context
        ids = [[*source_tokenizer.encode(text)[: context - 1], SentencePieceTokenizer.eos_id] for text in sources]
        order = sorted(range(len(ids)), key=lambda index: len(ids[index]))
        found: dict[int, str] = {}
        for first in tqdm(range(0, len(order), DECODED), desc="translating", disable=None):
            rows = order[first : first + DECODED]
            tensors = [torch.tensor(ids[row]) for row in rows]
            source = nn.utils.rnn.pad_sequence(
                tensors, batch_first=True, padding_value=SentencePieceTokenizer.pad_id
            ).to(device())
            output = self.model.generate(
                input_ids=source,
                attention_mask=(source != SentencePieceTokenizer.pad_id).long(),
                num_beams=trainer.beam_size,
                max_length=min(context, 2 * source.shape[1] + 20),
                bad_words_ids=[
                    [SentencePieceTokenizer.pad_id],
                    [SentencePieceTokenizer.bos_id],
                    [SentencePieceTokenizer.unk_id],
                ],
                use_cache=True,
            )
            special = (SentencePieceTokenizer.pad_id, SentencePieceTokenizer.bos_id, SentencePieceTokenizer.eos_id)
            for row, tokens in zip(rows, output.tolist(), strict=True):
                found[row] = target_tokenizer.decode([token for token in tokens if token not in special])
        return [found[index] for index in range(len(sources))]


def _parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
