"""`python -m attention_maps.tensorboard`: user errors print one line and exit with code 2."""

import pytest
from tensorboard import default, program

from attention_maps.tensorboard.__main__ import configure


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--logdir is required: python -m attention_maps.tensorboard --logdir runs"),
        (("--port", "0"), "--logdir is required"),
        (("--logdir", "nowhere/at/all"), "there is no folder nowhere/at/all; train a model first (python train.py)"),
        (("--logdir", "~nobody_of_this_name/runs"), "there is no folder ~nobody_of_this_name/runs"),
        (("--logdir", "README.md"), "there is no folder README.md"),
        (("--logdir", ".", "--path_prefix", "prefix"), "Path prefix must start with slash"),
        (("--logdir", ".", "--logdir_spec", "a:b"), "May not specify both --logdir and --logdir_spec"),
    ],
)
def test_a_wrong_flag_is_refused_in_one_line(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against an empty page, or a traceback of TensorBoard, for a missing folder."""
    with pytest.raises(SystemExit) as stopped:
        configure(program.TensorBoard(default.get_static_plugins()), ["tensorboard", *arguments])
    error = capsys.readouterr().err
    assert stopped.value.code == 2
    assert error.startswith("error: ")
    assert message in error
    assert len(error.splitlines()) == 1
