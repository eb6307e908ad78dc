"""Full-size comparisons and timings (temporary)."""

import itertools, json, os, sys, time
from pathlib import Path
import pytest, torch

sys.path.insert(0, "/tmp/modelagent")
from tests.interop.conftest import flavours
from tests.interop.page import test_model as tm, test_decoding as td
from tests.interop.page.exported_models import *

COUNT = int(os.environ.get("COUNT", 200))
EVERY_N = int(os.environ.get("EVERY", 1))
START = int(os.environ.get("START", 0))
LOG = open("/tmp/modelagent/acceptance.log", "a", buffering=1)


def test_acceptance(chromium, firefox):
    total = {}
    chosen = list(flavours())[::EVERY_N] + list(VARIANTS)
    for number, config in enumerate(chosen):
        if number < START:
            continue
        dtype = ("bf16", "f16")[number % 2]
        for build in (gpt, translator):
            model = build(config)
            rounded, expected = export(chromium, "model", model, dtype), tm.Expected()
            t = time.time()
            for source, target in tm.texts(model, COUNT):
                expected.add(source, target, {}, tm.recorded(rounded, source, target))
            tt = time.time() - t
            for name, browser in (("chromium", chromium), ("firefox", firefox)):
                t = time.time()
                worst = expected.differences(browser, "model")
                tb = time.time() - t
                tm.check(worst, config)
                for kind, value in worst.items():
                    key = f"{name} {build.__name__} {kind}"
                    total[key] = max(total.get(key, 0), value)
            if (
                isinstance(rounded, EncoderDecoder)
                and number % 12 == 0
                or config in VARIANTS
                and isinstance(rounded, EncoderDecoder)
            ):
                for browser in (chromium, firefox):
                    torch.manual_seed(5)
                    td.check_translations(browser, rounded, td.sources(COUNT, rounded), 1, 1.0)
                    td.check_translations(browser, rounded, td.sources(40, rounded), 4, 1.0)
            LOG.write(
                f"{number}/{len(chosen)} {build.__name__} torch {tt:.1f} browser {tb:.1f} logits {worst['logits']:.1e} maps {worst['weights']:.1e}\n"
            )
    LOG.write("TOTAL " + json.dumps(total) + "\n")
