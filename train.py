"""Train a model: compose the config, check it, train. `python train.py --help` lists every setting."""

from configs.program import check_system, importing

check_system()
with importing():
    from training.train_command import train_command

if __name__ == "__main__":
    train_command()
