"""Quickstart: train a small GPT, let it write, and look at its attention, in three minutes on two CPU cores.

Open quickstart.ipynb, which is made from this file, or run this file cell by cell in VS Code: `# %%` begins a cell.
"""

# %% [markdown]
# # Quickstart
#
# This notebook trains a small GPT on the built-in stories, lets it write, and shows what its attention heads do. It
# takes three minutes on two CPU cores. First run `make install` in the checkout, and choose `.venv` as the kernel.

# %%
import os
from pathlib import Path

from train import train

os.chdir(Path(train.__code__.co_filename).parent)  # the checkout, as for the commands

# %% [markdown]
# ## Train
#
# The settings are those of the command line: `python train.py +experiment=demo_gpt trainer.minutes=1.5`. The run is a
# folder in `runs`, named after the recipe.

# %%
from training.new_or_resumed_run import compose_run

settings = ["+experiment=demo_gpt", "trainer.minutes=1.5"]
train(compose_run(settings).config)

# %% [markdown]
# ## Write
#
# A `Run` is a trained model. This is the same as `python generate.py run=runs/NAME prompt='…'`. After 90 seconds the
# model knows how a story goes, and often who did what.

# %%
from run import Run

run = Run(max(Path("runs").glob("demo_gpt*"), key=lambda folder: folder.stat().st_mtime))
print(run.generate("Lisa had to carry a big box. Emi came.", temperature=0.5))

# %% [markdown]
# ## See what the training did to each head
#
# The story of the run: the loss, and below it a band for each head, coloured by what the head does. Everything is a
# link: click a band to see the map of that head at that step. This is the Attention tab of TensorBoard, with 12 of the
# recorded steps; `tensorboard --logdir runs` shows all of them, and all curves.

# %%
from attention_maps.notebook import show_recording, show_run

show_run(run.folder, steps=12)

# %% [markdown]
# ## Look at one text
#
# Record the maps of any text, and ask how much one word attends to another.

# %%
recording = run.attention("Emi had a red hat. Ken saw Emi. He was happy because he")
for layer in range(recording.samples[0].layers("decoder")):
    weight = recording.weight("He", "Ken", kind="decoder", layer=layer)
    print(f"layer {layer}, mean of its heads: He attends to Ken with {weight:.0%}")

# %%
show_recording(recording, view="lines", layer=1)

# %% [markdown]
# ## Next
#
# `make demo` trains for longer and adds a translator. The five lessons in `docs/lessons` build attention up from an
# average. All settings: `python train.py --help`.
