"""Takes the pictures in docs/images/: TensorBoard, and `elastic_keras status`.

    python scripts/screenshots.py                 # trains two small jobs first
    python scripts/screenshots.py runs/a runs/b   # shows jobs that are there
    python scripts/screenshots.py --check         # takes no pictures

Every chart must hold points, by TensorBoard's own data and in the page that
Chromium shows, and the status of a job that trains real values.
Without Chromium the data are checked alone. Pictures take Chromium with its
driver (Debian's packages chromium and chromium-driver) and
`pip install -e '.[screenshots]'`.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any

import chromium
import status_picture
from rich.text import Text
from tensorboard import default, program

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_ROWS = 60_000
_PATIENCE = 60.0
_LARGEST_BYTES = 300_000

# Elements lie in shadow roots and frames, one in the other.
_DEEP = """
function deep(root, found) {
  for (const element of root.querySelectorAll("*")) {
    found.push(element);
    // The projector's page is a frame of its own.
    const inner = element.shadowRoot || element.contentDocument;
    if (inner) deep(inner, found);
  }
  return found;
}
const tag = (element) => element.tagName.toLowerCase();
const drawn = (element, kind) => deep(element.shadowRoot || element, [])
  .filter((e) => tag(e) === "path" && e.classList.contains(kind)
    && (e.getAttribute("d") || "").length > 2).length;
const text = (root) => deep(root, []).filter((e) => e.checkVisibility())
  .flatMap((e) => [...e.childNodes]).filter((n) => n.nodeType === 3)
  .map((n) => n.textContent.trim()).filter((t) => t).join(" ");
"""
# Title of each chart -> curves and single points drawn in it.
_CHARTS = """
const cards = deep(document, []).filter(
  (e) => tag(e) === "tf-custom-scalar-multi-line-chart-card");
return Object.fromEntries(
  cards.map((e) => [e.title, drawn(e, "line") + drawn(e, "symbol")]));
"""
_HISTOGRAMS = """
const loaders = deep(document, []).filter(
  (e) => tag(e) === "vz-histogram-timeseries");
return loaders.map((e) => deep(e.shadowRoot || e, []).filter(
  (p) => tag(p) === "path" && (p.getAttribute("d") || "").length > 2).length);
"""
_TEXT = "return text(document);"


class Board:
    """TensorBoard on a folder, and its data.

    Args:
        folder: What it shows.
    """

    def __init__(self, folder: str) -> None:
        board = program.TensorBoard(plugins=default.get_plugins())
        board.configure(
            argv=["", f"--logdir={folder}", "--host=127.0.0.1", "--port=0"]
        )
        self.url = board.launch()

    def get(self, path: str, **query: str) -> Any:
        """Returns what TensorBoard answers its own pages with."""
        url = f"{self.url}data/plugin/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url) as reply:
            return json.load(reply)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """Likewise, for what its pages ask with a body."""
        request = urllib.request.Request(
            f"{self.url}data/plugin/{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as reply:
            return json.load(reply)


def make_data(folder: pathlib.Path) -> pathlib.Path:
    """Makes data to train on; returns their folder."""
    data = folder / "data"
    program = str(_ROOT / "scripts" / "make_criteo.py")
    subprocess.run(
        [sys.executable, program, f"--output={data}", f"--rows={_ROWS}"],
        check=True,
    )
    return data


def train_jobs(folder: pathlib.Path, data: pathlib.Path) -> None:
    """Trains the same model twice, with another bound on staleness.

    Args:
        folder: Where the job directories go.
        data: What `make_data` made.
    """
    for bound in (0, 4):
        command = _training(data, bound, 2, f"runs/staleness-{bound}")
        subprocess.run(command, cwd=folder, check=True)


def watch_job(folder: pathlib.Path, data: pathlib.Path) -> Text:
    """Begins to train the model once more; returns what its status tells.

    Args:
        folder: Where the job directory goes.
        data: What `make_data` made.
    """
    folder.mkdir()
    job_dir = "runs/deepfm"
    # Many epochs: it is stopped as soon as it has told enough.
    job = subprocess.Popen(_training(data, 4, 20, job_dir), cwd=folder)
    try:
        return status_picture.watch(job_dir, folder, job)
    finally:
        job.terminate()
        job.wait()


def _training(
    data: pathlib.Path, bound: int, epochs: int, job_dir: str
) -> list[str]:
    return [
        sys.executable,
        "-m",
        "elastic_keras.cli",
        "train",
        f"--model_zoo={_ROOT / 'model_zoo'}",
        "--model_def=criteo.deepfm",
        f"--training_data={data / 'train.tsv'}",
        f"--validation_data={data / 'validation.tsv'}",
        "--minibatch_size=256",
        f"--num_epochs={epochs}",
        "--num_workers=2",
        "--num_ps=2",
        f"--max_staleness={bound}",
        "--evaluation_steps=100",
        "--summary_secs=1",
        "--histogram_secs=2",
        "--projector_tables=all",
        "--projector_rows=2000",
        f"--job_dir={job_dir}",
    ]


def check_data(board: Board) -> dict[str, int]:
    """Asserts that TensorBoard has points for all that a job writes.

    Returns:
        Points by chart of the custom-scalars page.
    """
    layout = wait_for(lambda: board.get("custom_scalars/layout"), "the layout")
    runs = list(board.get("scalars/tags"))
    points = {
        chart["title"]: sum(
            _points(board, run, tag)
            for run in runs
            for tag in chart["multiline"]["tag"]
        )
        for category in layout["category"]
        for chart in category["chart"]
    }
    empty = [title for title, count in points.items() if not count]
    assert not empty, f"Charts without points: {empty}"
    tags = set().union(*board.get("histograms/tags").values())
    for kind in ("weights/", "gradients/"):
        assert any(tag.startswith(kind) for tag in tags), f"No {kind} in {tags}"
    groups = _session_groups(board)
    assert groups, "No job in the table of hparams"
    for group in groups:
        assert group["metricValues"], f"No results: {group}"
    shown = board.get("projector/runs")
    assert shown, "No table in the projector"
    return points


def _points(board: Board, run: str, tag: str) -> int:
    found = board.get("custom_scalars/scalars", run=run, tag=tag)
    assert found["regex_valid"], f"Not a pattern: {tag}"
    return sum(map(len, found["tag_to_events"].values()))


def _session_groups(board: Board) -> list[dict[str, Any]]:
    experiment = board.post("hparams/experiment", {})
    columns = [
        {"metric": info["name"]} for info in experiment["metricInfos"]
    ] + [{"hparam": info["name"]} for info in experiment["hparamInfos"]]
    asked = {
        "startIndex": 0,
        "sliceSize": 100,
        "colParams": columns,
        "allowedStatuses": ["STATUS_SUCCESS"],
    }
    return board.post("hparams/session_groups", asked)["sessionGroups"]


class Pictures:
    """Chromium on TensorBoard's pages.

    Args:
        board: TensorBoard.
        output: Folder for the pictures.
    """

    def __init__(self, board: Board, output: pathlib.Path) -> None:
        self._board = board
        self._output = output
        # Small files, whose text is still to be read.
        self._browser = chromium.start(scale=0.8)

    def take(
        self,
        page: str,
        name: str,
        height: int,
        script: str,
        complete: Callable[[Any], Any],
    ) -> None:
        """Takes the picture of a page once it is complete.

        Args:
            page: The page, as in the address.
            name: The picture's name.
            height: Height of the window.
            script: Finds out what the page shows.
            complete: Whether that is all.
        """
        self._browser.set_window_size(1500, height)
        self._browser.get("about:blank")
        self._browser.get(f"{self._board.url}#{page}")

        def shown() -> Any:
            found = self._browser.execute_script(_DEEP + script)
            return found if complete(found) else None

        found = wait_for(shown, f"the page {page}")
        path = self._output / f"{name}.png"
        assert self._browser.save_screenshot(str(path))
        assert path.stat().st_size < _LARGEST_BYTES, f"{path} is too large"
        print(f"{path}: {str(found)[:200]}")

    def close(self) -> None:
        """Ends Chromium."""
        self._browser.quit()


def wait_for(look: Callable[[], Any], what: str) -> Any:
    """Looks until there is something.

    Args:
        look: Returns it; nothing, or an error of TensorBoard's, is not yet.
        what: What it is, for the error.
    """
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        try:
            found = look()
        except urllib.error.HTTPError:
            found = None
        if found:
            return found
        time.sleep(0.5)
    raise TimeoutError(f"TensorBoard does not show {what}.")


def take_pictures(board: Board, output: pathlib.Path, titles: set[str]) -> None:
    """Takes all pictures.

    Args:
        board: TensorBoard.
        output: Their folder.
        titles: Titles of the charts that must hold points.
    """
    output.mkdir(parents=True, exist_ok=True)
    pictures = Pictures(board, output)
    try:
        pictures.take(
            "custom_scalars&_smoothingWeight=0",
            "tensorboard-charts",
            2450,
            _CHARTS,
            lambda found: titles <= set(found) and all(found.values()),
        )
        pictures.take(
            "histograms&tagFilter=weights",
            "tensorboard-histograms",
            1150,
            _HISTOGRAMS,
            lambda found: found and all(found[:12]),
        )
        pictures.take(
            "hparams",
            "tensorboard-hparams",
            700,
            _TEXT,
            lambda found: all(
                group["name"] in found for group in _session_groups(board)
            ),
        )
        pictures.take(
            "projector",
            "tensorboard-projector",
            900,
            _TEXT,
            # Once its rows are laid out.
            lambda found: (
                re.search(r"Points: [1-9]", found)
                and re.search(r"variance described: \d", found)
                and "Computing" not in found
            ),
        )
    finally:
        pictures.close()


def main() -> None:
    """Trains if need be, checks, and takes the pictures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("job_dirs", nargs="*", type=pathlib.Path)
    parser.add_argument(
        "--output", type=pathlib.Path, default=_ROOT / "docs" / "images"
    )
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ek-pictures-") as name:
        folder = pathlib.Path(name)
        runs = folder / "runs"
        runs.mkdir()
        if not arguments.job_dirs:
            train_jobs(folder, make_data(folder))
        for job_dir in arguments.job_dirs:
            (runs / job_dir.name).symlink_to(job_dir.resolve())
        output = arguments.output.resolve()
        # TensorBoard shows the path that it is given.
        os.chdir(folder)
        board = Board(runs.name)
        points = check_data(board)
        for title, count in points.items():
            print(f"{title}: {count} points")
        if arguments.check:
            return
        if reason := chromium.missing():
            print(f"No pictures are taken: {reason}.")
            return
        take_pictures(board, output, set(points))
        data = folder / "data"
        status = watch_job(
            folder / "watched", data if data.exists() else make_data(folder)
        )
        status_picture.take(status, output / "status.png")


if __name__ == "__main__":
    main()
