"""Write or translate with a trained run: `python generate.py run=runs/NAME prompt='…'`, or text on standard input."""

from configs.program import check_system, importing

check_system()
with importing():
    from training.generate_command import generate_command

if __name__ == "__main__":
    generate_command()
