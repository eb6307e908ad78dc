"""The animated picture of README.md: the Attention tab while its step slider moves through a real run.

    python train.py +experiment=demo_enja name=slider trainer.minutes=null trainer.steps=700 trainer.evaluate_every=35
    python docs/pictures/step_slider.py runs/slider docs/images/step_slider.webp

Serves the run's folder, opens the tab in headless Chromium, takes a screenshot at every recorded step and joins them.
Needs Chromium with chromedriver and Japanese fonts (`make browser`).
"""

from __future__ import annotations

import io
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait
from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[2]
VIEW = {"sample": 0, "kind": "cross", "head": "mean", "layer": 1, "view": "map"}
SIZE = (1180, 860)
READY = "return document.querySelector('.page')?.getAttribute('aria-busy') === 'false'"
MILLISECONDS = 450


def main(run: Path, picture: Path) -> None:
    """Write the animation; its last frame stays longer."""
    steps = sorted(path.stem for path in (run / "attention").glob("step_*.safetensors"))
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "attention_maps.tensorboard", "--logdir", str(run.parent), "--port", str(port)]
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    driver = browser()
    try:
        address = f"http://localhost:{port}/data/plugin_entry.html?name=attention"
        wait_for_server(port)
        frames = [frame(driver, address, {"run": run.name, "recording": step} | VIEW) for step in tqdm(steps)]
    finally:
        driver.quit()
        server.terminate()
    durations = [MILLISECONDS] * (len(frames) - 1) + [6 * MILLISECONDS]
    frames[0].save(picture, save_all=True, append_images=frames[1:], duration=durations, loop=0, quality=80, method=6)
    print(f"{picture}: {len(frames)} steps, {picture.stat().st_size / 1e6:.2f} MB")


def wait_for_server(port: int) -> None:
    """Until TensorBoard answers; raises TimeoutError after a minute."""
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("localhost", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise TimeoutError("TensorBoard does not answer") from None
            time.sleep(0.2)


def browser() -> webdriver.Chrome:
    """Chromium without a window."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    size = f"--window-size={SIZE[0]},{SIZE[1]}"
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--lang=en", size):
        options.add_argument(flag)
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))


def frame(driver: webdriver.Chrome, address: str, state: dict[str, object]) -> Image.Image:
    """The tab in one state, once it is drawn."""
    driver.get("about:blank")
    driver.get(f"{address}#attention&{urlencode({f'p.attention.{key}': value for key, value in state.items()})}")
    WebDriverWait(driver, 60).until(lambda page: page.execute_script(READY))
    time.sleep(0.3)  # the compositor's own work
    return Image.open(io.BytesIO(driver.get_screenshot_as_png())).convert("RGB")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
