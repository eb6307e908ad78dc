"""Generate text or translate with a trained run: `python generate.py run=runs/NAME prompt='…'`, or standard input."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from configs.program import check_system, importing, run_guarded

check_system()
with importing():
    from configs.errors import UserError
    from generation.command_line import generate_help, parse_command
    from generation.config import GenerateConfig, memory_advice, task_problems
    from generation.standard_input import count_lines, read_lines, typed

if TYPE_CHECKING:
    from generation.engines.engine import Engine
    from generation.recorded_maps import GeneratedMaps


def main() -> None:
    """Compose the config from the command line and generate, or print the help."""
    arguments = sys.argv[1:]
    if {"--help", "-h"} & set(arguments):
        print(generate_help())
    else:
        generate(*parse_command(arguments))


def generate(config: GenerateConfig, typed_keys: set[str]) -> None:
    """Load the run, then respond to the prompt, to standard input, or to each line typed at a terminal.
    typed_keys: the settings that the user gave."""
    with importing():  # late, so that --help and errors appear at once
        from generation.engines.requirements import engine_problems
        from generation.input_warnings import SourceNotes
        from generation.line_translation import translate_lines
        from generation.text_streaming import write_samples
        from training.hardware.out_of_memory import advised
        from training.run_folder.saved_config import load_config, named_runs
        from training.run_folder.tokenizers import load_source_alphabet

    # What is wrong is reported before the weights are loaded.
    named = named_runs(str(config.run), config.checkpoint)
    configs = [load_config(run) for run, _ in named]
    task, both_directions = configs[0].task, all(member.data.both_directions for member in configs)
    problems = task_problems(config, typed_keys, task, len(named), both_directions)
    if problems := problems + engine_problems(config, task, [member.model for member in configs]):
        raise UserError(*problems)
    with advised(lambda: memory_advice(config, task)):
        engine, new_maps = start_engine(config)

    def answer(config: GenerateConfig, lines: Iterable[str | None], count: int | None = None) -> None:
        """Continue the text in `lines`, or translate each line. count: the number of lines, if known."""
        # Maps are recorded at the end, in a pass of their own: decoding runs at its usual speed.
        maps = new_maps() if new_maps else None
        if task == "gpt":
            prompt = "\n".join(line for line in lines if line is not None)
            for ids in write_samples(engine, prompt, config):
                if maps:
                    maps.add_text(ids, prompt)
        else:
            alphabet = None if config.reverse else load_source_alphabet(named[0][0])
            notes = SourceNotes(engine.tokenizers[0], engine.context - config.reverse, alphabet)
            for line, translation in translate_lines(engine, config, lines, count, notes):
                if maps and line:
                    maps.add_translation(line, translation)
        if maps:
            maps.save()

    # The prompt of the command line, a conversation, or a stream of lines.
    with advised(lambda: memory_advice(config, task)):
        if config.prompt is not None:
            answer(config, config.prompt.split("\n"))
        elif sys.stdin is not None and sys.stdin.isatty():
            converse(answer, config if "seed" in typed_keys else replace(config, seed=random.randrange(10**6)), task)
        else:
            answer(config, read_lines(), count_lines() if task == "translate" else None)


def start_engine(config: GenerateConfig) -> tuple[Engine, Callable[[], GeneratedMaps] | None]:
    """Load the run into an engine -> the engine and, with `attention=true`, a function that creates a recorder."""
    # On request only: CTranslate2 is another program, and starts sooner because torch is not imported.
    if config.engine == "ctranslate2":
        with importing():
            from training.run_folder.engine_folder import start_ctranslate2
        return start_ctranslate2(config), None

    # Otherwise the code of `generation/` decodes, with the run as a notebook loads it.
    with importing():
        from run import Run
        from training.hardware.device import choose_hardware
    device = choose_hardware(config.device, "float32", None, key="device").device
    run = Run(str(config.run), config.checkpoint, str(device))
    return run.engine(config), run.map_recorder(config.reverse) if config.attention else None


def converse(answer: Callable[[GenerateConfig, list[str]], None], config: GenerateConfig, task: str) -> None:
    """Respond to each typed line; a GPT uses a new seed each time. Ctrl-C stops a response, not the session."""
    for text in typed(task):
        try:
            answer(config, [text])
        except KeyboardInterrupt:
            print()
        if task == "gpt" and config.temperature:
            print(f"(seed={config.seed})", file=sys.stderr)
            config = replace(config, seed=config.seed + config.samples)


if __name__ == "__main__":
    run_guarded(main)
