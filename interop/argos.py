"""Write a trained translator as a package of Argos Translate, which LibreTranslate uses: a zip file with one folder.

translate-en_ja-1_0/   metadata.json         languages and versions
                       model/                the model for CTranslate2
                       sentencepiece.model   the tokenizer of both sides
                       README.md             the model card
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

from configs.errors import UserError
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from interop.ctranslate.export import write_model
from interop.languages import NAMES, direction
from interop.model_card import Usage, model_card
from interop.settings import ExportSettings
from interop.trained import Trained
from model.config import ModelConfig
from model.gpt import GPT

VERSION, ARGOS_VERSION = "1.0", "1.9"

USAGE = """```
argospm install FOLDER/FILE
argos-translate --from SOURCE --to TARGET "I like apples."
```

LibreTranslate finds what Argos Translate has installed. Both divide a text into sentences first, with a model that they
download when it is needed. They search with beam size 4 and length penalty 0.2 and round the weights to 8 bits, as for
every package; `ARGOS_COMPUTE_TYPE=float32` computes exactly."""


def write_argos(trained: Trained, folder: Path, settings: ExportSettings) -> list[str]:
    """Write the package and the model card; as `interop.formats.Exporter`."""
    check(trained)
    source, target = direction(settings.languages, trained)
    root = f"translate-{source}_{target}-{VERSION.replace('.', '_')}"
    file = f"{root}.argosmodel"
    text = USAGE.replace("FILE", file).replace("SOURCE", source).replace("TARGET", target)
    card = model_card(trained, Usage("argos-translate", ["argos-translate", "ctranslate2"], text, (source, target)), [])
    (folder / "README.md").write_text(card, encoding="utf-8")
    with TemporaryDirectory(dir=folder) as place:
        package = Path(place) / root
        (package / "model").mkdir(parents=True)
        write_model(trained.model, trained.tokenizers, package / "model")
        trained.tokenizers[0].save(package / "sentencepiece.model")
        (package / "metadata.json").write_text(json.dumps(metadata(source, target), indent=2), encoding="utf-8")
        (package / "README.md").write_text(card, encoding="utf-8")
        with zipfile.ZipFile(folder / file, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(package.rglob("*")):
                archive.write(path, path.relative_to(place))
    return [f"{settings.to}/{file}: a package for Argos Translate and LibreTranslate", "README.md: how to use it"]


def check(trained: Trained) -> None:
    """Raise UserError naming each option that a package cannot have."""
    if isinstance(trained.model, GPT):
        raise UserError("format=argos: it translates; export a GPT as gguf, ctranslate2 or huggingface")
    config: ModelConfig = trained.model.config
    found = []
    if len(trained.tokenizers) > 1:
        found.append("tokenizer.shared=false: a package has one tokenizer for both sides; train with true")
    if not isinstance(trained.tokenizers[0], SentencePieceTokenizer):
        found.append("format=argos: only tokenizers trained here are carried, as SentencePiece models")
    if config.position == "learned":
        found.append(
            "model.position=learned: Argos Translate does not limit texts to the context, beyond which there are no "
            "positions; train with rotary or sinusoidal"
        )
    if found:
        raise UserError(*found)


def metadata(source: str, target: str) -> dict[str, object]:
    """Return the content of `metadata.json` (argostranslate/package.py)."""
    return {
        "type": "translate",
        "package_version": VERSION,
        "argos_version": ARGOS_VERSION,
        "from_code": source,
        "from_name": NAMES.get(source, source),
        "to_code": target,
        "to_name": NAMES.get(target, target),
        "dependencies": [],
        "links": [],
    }
