"""Prompts on the command line and bytes on standard input, for both tasks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

from tests.robustness.fuzz import trained
from tests.robustness.fuzz.values import SCRIPTS, arguments, raw

make_ready = trained.make


@dataclass(frozen=True)
class Prompt:
    """A prompt, or None to read `stdin`, and settings."""

    task: str
    prompt: str | None
    stdin: bytes
    settings: tuple[str, ...]
    may_change = ("runs/gpt", "runs/translate")

    def prepare(self, folder: Path) -> None:
        """Copy the runs."""
        trained.copy_run(folder, self.task)

    def act(self) -> None:
        """Generate."""
        given = () if self.prompt is None else (f"prompt={self.prompt}",)
        trained.generate_from(f"runs/{self.task}", *given, *self.settings, stdin=self.stdin)


GPT = (
    *"""temperature=0 temperature=1000 temperature=0.001 top_k=1 top_k=100000 top_p=1e-300 top_p=1 min_p=0 min_p=1
    repetition_penalty=100 repetition_penalty=0.01 samples=3 samples=33 seed=9223372036854775807
    seed=9223372036854775806 max_tokens=1 max_tokens=40 stop=a stop=猫 stop=\udcff quantize=int8 quantize=bf16
    attention=true checkpoint=last engine=torch engine=ctranslate2""".split(),
    "stop=\n",
    "stop= ",
)
TRANSLATE = """
beam_size=1 beam_size=50 beam_size=1000 length_penalty=0 length_penalty=10 n_best=2 n_best=4 batch_tokens=1
batch_tokens=1000000000 quantize=int8 quantize=bf16 attention=true checkpoint=last engine=torch
engine=ctranslate2
""".split()


@st.composite
def cases(draw: st.DrawFn) -> Prompt:
    """Return prompts with valid settings."""
    task = draw(st.sampled_from(("gpt", "translate")))
    known = st.sampled_from(GPT if task == "gpt" else TRANSLATE)
    settings = draw(st.lists(known, max_size=2, unique_by=lambda text: text.split("=")[0]))
    if task == "gpt" and not any(text.startswith("max_tokens") for text in settings):
        settings.append("max_tokens=4")
    text = st.one_of(
        st.sampled_from(SCRIPTS),
        st.text(arguments, max_size=60),
        st.sampled_from(("", " ", "\n", "a" * 3000, "猫" * 999)),
    )
    prompt = draw(st.none() | text)
    return Prompt(task, prompt, draw(raw), tuple(settings))
