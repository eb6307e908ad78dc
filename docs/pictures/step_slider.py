"""Draw the animated picture of README.md: the story of a real run in the Attention tab, while the step slider moves.

    python train.py +experiment=demo_gpt
    python docs/pictures/step_slider.py runs/demo_gpt docs/images/step_slider.webp

Serves the run's folder, opens the tab in headless Chromium, takes a screenshot of every fourth recorded step and joins
the screenshots. Needs Chromium with chromedriver and Japanese fonts (`make browser`).
"""

from __future__ import annotations

import io
import shutil
import sys
import time
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait
from tensorboard import default, program
from tqdm import tqdm

from attention_maps.tensorboard.plugin import AttentionPlugin

VIEW = {"view": "story"}
FLAGS = "--headless=new --no-sandbox --disable-gpu --hide-scrollbars --lang=en --window-size=1280,960"
READY = """
    const example = document.querySelector(".story-example");
    const isRead = example && (example.hidden || example.textContent.endsWith("?"));
    return isRead && document.querySelector(".page")?.getAttribute("aria-busy") === "false";
"""
MILLISECONDS = 700


def main(run: Path, picture: Path) -> None:
    """Write the animation; its last frame stays longer."""
    steps = sorted(path.stem for path in (run / "attention").glob("step_*.safetensors"))
    steps = steps[(len(steps) - 1) % 4 :: 4]  # with the last one
    server = program.TensorBoard([*default.get_static_plugins(), AttentionPlugin])
    server.configure(["", "--logdir", str(run.parent), "--port", "0"])
    page = f"{server.launch()}data/plugin_entry.html?name=attention"
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in FLAGS.split():
        options.add_argument(flag)
    with webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver"))) as driver:
        frames = [frame(driver, page, {"run": run.name, "recording": step} | VIEW) for step in tqdm(steps)]
    durations = [MILLISECONDS] * (len(frames) - 1) + [6 * MILLISECONDS]
    frames[0].save(picture, save_all=True, append_images=frames[1:], duration=durations, loop=0, quality=60, method=6)
    print(f"{picture}: {len(frames)} steps, {picture.stat().st_size / 1e6:.2f} MB")


def frame(driver: webdriver.Chrome, page: str, state: dict[str, object]) -> Image.Image:
    """Return a screenshot of the tab in one state, once it is drawn."""
    driver.get("about:blank")
    driver.get(f"{page}#attention&{urlencode({f'p.attention.{key}': value for key, value in state.items()})}")
    WebDriverWait(driver, 60).until(lambda tab: tab.execute_script(READY))
    time.sleep(0.3)  # until the compositor has finished
    return Image.open(io.BytesIO(driver.get_screenshot_as_png())).convert("RGB")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
