"""Settings of generate.py that depend on each other; tests/test_generate.py tests single values."""

from generation.config import GenerateConfig, memory_advice, task_problems


def test_memory_advice_names_what_the_task_has() -> None:
    """Guards against advice to lower the number of samples of a translator."""
    config = GenerateConfig()
    assert memory_advice(config, "gpt") == "lower samples (now 1) or max_tokens (now 200), or choose device=cpu"
    config.device = "cpu"
    assert memory_advice(config, "translate") == "lower batch_tokens (now 1024) or beam_size (now 4)"
    config.mbr.samples = 32
    assert memory_advice(config, "translate").endswith(" or mbr.samples (now 32)")


def test_settings_of_the_other_task_are_refused() -> None:
    """Guards against a setting that is silently ignored."""
    config = GenerateConfig(run="runs/x")
    given = {"run", "top_k", "stop", "beam_size", "device", "neighbours.sentences"}
    assert [problem.partition(":")[0] for problem in task_problems(config, given, "translate")] == ["stop", "top_k"]
    assert task_problems(config, given, "gpt") == [
        f"{key}: runs/x generates text and has no such setting (task=gpt)"
        for key in ("beam_size", "neighbours.sentences")
    ]
