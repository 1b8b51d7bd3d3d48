"""Chromium without a window, for the pictures in docs/."""

import importlib.util
import os
import shutil
from typing import Any


def missing() -> str:
    """Returns why Chromium cannot be started; nothing if it can."""
    if importlib.util.find_spec("selenium") is None:
        return "selenium is not installed: pip install -e '.[screenshots]'"
    if not shutil.which("chromium") or not shutil.which("chromedriver"):
        return "Debian's packages chromium and chromium-driver are missing"
    return ""


def start(scale: float) -> Any:
    """Starts Chromium.

    Args:
        scale: Pixels of a picture for each of the page.

    Returns:
        selenium's driver; `quit` ends it.
    """
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = shutil.which("chromium") or ""
    options.add_argument("--headless=new")
    options.add_argument("--disable-dev-shm-usage")
    options.add_argument(f"--force-device-scale-factor={scale}")
    if os.geteuid() == 0:
        # Chromium's sandbox refuses root.
        options.add_argument("--no-sandbox")
    return webdriver.Chrome(
        options=options, service=Service(shutil.which("chromedriver"))
    )
