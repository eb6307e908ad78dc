"""Damaged tokenizers of a run: bytes changed, and models with wrong counts, ids, types and rules."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from sentencepiece import sentencepiece_model_pb2

from tests.robustness.fuzz import trained
from tests.robustness.fuzz.damage import Cut, cut, cuts

make_ready = trained.make

FIELDS = """
vocab_size model_type unk_id bos_id eos_id pad_id byte_fallback treat_whitespace_as_suffix
""".split()
RULES = """
precompiled_charsmap normalization_rule_tsv add_dummy_prefix escape_whitespaces remove_extra_whitespaces
""".split()
SELF_TEST = b'"\x08\n\x06\n\x01a\x12\x01b'
"""Field `self_test_data`, which the library's Python classes lack: a test that the model fails."""


@dataclass(frozen=True)
class DamagedTokenizer:
    """One change of the tokenizer of a run, which is then used."""

    task: str
    change: str
    place: float
    value: Any
    bytes: Cut
    resume: bool = False
    may_change = ("runs/gpt", "runs/translate")

    def prepare(self, folder: Path) -> None:
        """Damage the file."""
        trained.copy_run(folder, self.task, self.resume)
        path = folder / "runs" / self.task / "tokenizer.model"
        content = path.read_bytes()
        if self.change == "bytes":
            path.write_bytes(cut(content, self.bytes))
            return
        model = sentencepiece_model_pb2.ModelProto()
        model.ParseFromString(content)
        piece = model.pieces[int(self.place * len(model.pieces))]
        number = self.value if isinstance(self.value, int) else 7
        try:
            match self.change:
                case "no pieces":
                    del model.pieces[:]
                case "fewer pieces":
                    del model.pieces[int(self.place * len(model.pieces)) :]
                case "more pieces":
                    for extra in range(50_000):
                        added = model.pieces.add()
                        added.piece, added.score = f"{extra}x", -1.0
                case "piece":
                    piece.piece = str(self.value)
                case "same piece":
                    piece.piece = model.pieces[-1].piece
                case "score":
                    piece.score = float(number)
                case "nan scores":
                    for each in model.pieces:
                        each.score = float("nan")
                case "type":
                    piece.type = number % 8
                case "types":
                    for each in model.pieces:
                        each.type = number % 8
                case "field":
                    setattr(model.trainer_spec, FIELDS[int(self.place * len(FIELDS))], self.value)
                case "rule":
                    setattr(model.normalizer_spec, RULES[int(self.place * len(RULES))], self.value)
                case "self test":
                    model.MergeFromString(SELF_TEST)
        except (TypeError, ValueError):
            model.trainer_spec.vocab_size = 2**31 - 1
        path.write_bytes(model.SerializePartialToString())

    def act(self) -> None:
        """Use the tokenizer."""
        if self.resume:
            trained.train_with(f"resume=runs/{self.task}", "trainer.steps=5")
        else:
            trained.generate_from(f"runs/{self.task}", "prompt=The 猫\n\tsat.", "attention=true")


def cases() -> st.SearchStrategy[DamagedTokenizer]:
    """Return one change each."""
    kinds = (
        *["bytes"] * 8,
        *("no pieces", "fewer pieces", "more pieces", "piece", "same piece", "score", "nan scores", "type", "types"),
        *["field"] * 4,
        *["rule"] * 3,
        "self test",
    )
    numbers = (0, 1, 2, 3, 5, -1, 2**31 - 1, -(2**31), True, False)
    contents = ("", "x", "\n", "注目" * 99, b"", b"\xff" * 40, b"\x04\0\0\0abcdefgh")
    values = st.sampled_from((*numbers, *contents))
    return st.builds(
        DamagedTokenizer,
        st.sampled_from(("gpt", "translate")),
        st.sampled_from(kinds),
        st.floats(0, 1, exclude_max=True),
        values | st.binary(max_size=40),
        cuts,
        st.sampled_from((False, False, False, True)),
    )
