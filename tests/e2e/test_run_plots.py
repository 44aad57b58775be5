# SPDX-License-Identifier: Apache-2.0
"""--no-plots: nothing opens or waits, whatever library and backend; files are still written."""

import textwrap
from pathlib import Path

import pytest
from guest import clean_env, run
from runs import fathom_run, python_with

each_python = True  # conftest: chosen here

MATPLOTLIB = """
import sys, time
import matplotlib
matplotlib.use("TkAgg")                      # asked for outright
import matplotlib.pyplot as plt
start = time.monotonic()
figure, axes = plt.subplots()
axes.plot([1, 2, 3])
plt.switch_backend("TkAgg")
drawn = []
figure.canvas.mpl_connect("draw_event", lambda event: drawn.append(1))
plt.show(); plt.draw(); plt.pause(30); figure.show(); figure.canvas.draw_idle()
print("drawn", len(drawn), time.monotonic() - start < 25)
print(matplotlib.get_backend().lower(), plt.show.__name__, plt.show.__module__)
figure.savefig(sys.argv[1])
figure.canvas.draw()                         # the program wants the pixels
print("drawn", len(drawn) > 0, bytes(figure.canvas.buffer_rgba())[:1] == b"\\xff")
"""

OTHERS = """
import os, sys
import plotly.graph_objects as go, plotly.io as pio, plotly.offline
figure = go.Figure(go.Scatter(y=[1, 2]))
print(figure.show(), pio.show(figure))
print(os.path.exists(plotly.offline.plot(figure, filename=sys.argv[1]).replace("file://", "")))
from PIL import Image, ImageShow
image = Image.new("RGB", (4, 4))
print(image.show(), ImageShow.show(image), image.getpixel((0, 0)))
from bokeh.plotting import show
print(show("anything"))
"""

# What a toolkit does while its window is open: it waits for events. Matplotlib itself calls this main loop.
WINDOW = """
import select
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
class FigureManager(FigureManagerBase):
    def show(self): print("a window")
    @classmethod
    def start_main_loop(cls): select.select([], [], [], 1.2)
class FigureCanvas(FigureCanvasAgg):
    manager_class = FigureManager
"""

LOOKED_AT = """
import matplotlib.pyplot as plt
def look():
    plt.plot([1, 2, 3])
    plt.show()
look()
"""

TURTLE = """
import tkinter, turtle
root = tkinter.Tk()
root.title("a window"); root.geometry("300x200")
number = tkinter.IntVar(value=7)
tkinter.Label(root, text="x", textvariable=number).pack()
button = tkinter.Button(root, text="go", command=lambda: print("never")); button.grid(row=0)
canvas = tkinter.Canvas(root); line = canvas.create_line(0, 0, 5, 5); canvas.coords(line, 1, 2, 3, 4); canvas.move(line, 1, 1)
root.after(10, lambda: print("never")); root.update()
print(number.get(), root.winfo_width())
root.mainloop()
tkinter.mainloop()
turtle.speed(0); turtle.forward(50); turtle.left(90); turtle.pencolor("red"); turtle.circle(5)
print("turtle at", [round(part) for part in turtle.position()])
turtle.done()
print("done")
"""


def write(folder: Path, text: str) -> Path:
    script = folder / "program.py"
    script.write_text(textwrap.dedent(text))
    return script


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for matplotlib with its list of fonts in it, which takes seconds to make and a warning in the log if it takes long."""
    folder = tmp_path_factory.mktemp("matplotlib")
    made = run(
        [python_with("matplotlib"), "-c", "import matplotlib.font_manager"],
        env=clean_env({"MPLCONFIGDIR": str(folder)}),
    )
    assert made.returncode == 0, made.stderr
    return folder


def test_matplotlib(settings: Path, tmp_path: Path) -> None:
    python = python_with("matplotlib")
    out = tmp_path / "figure.png"
    env = clean_env({"DISPLAY": "", "MPLCONFIGDIR": str(settings), "MPLBACKEND": "TkAgg"})
    results = fathom_run(tmp_path, [write(tmp_path, MATPLOTLIB), out], ["--no-plots"], python, env=env)
    assert results.done.returncode == 0, results.done.stderr
    assert results.done.stdout.splitlines() == ["drawn 0 True", "agg show matplotlib.pyplot", "drawn True True"]
    assert out.read_bytes().startswith(b"\x89PNG") and not results.records
    # Without the option the program is left alone: TkAgg cannot be had here.
    bare = run([python, write(tmp_path, MATPLOTLIB), out], env=env)
    plain = fathom_run(tmp_path, [write(tmp_path, MATPLOTLIB), out], [], python, env=env)
    assert bare.returncode == plain.done.returncode != 0
    assert bare.stderr.splitlines()[-1] == plain.done.stderr.splitlines()[-1]


@pytest.mark.statistical
def test_time_in_a_plot_window_is_waiting(settings: Path, tmp_path: Path) -> None:
    """The user looks at a plot for 1.2 s: that is waiting in the line that shows it, and no work. With --no-plots it is nothing."""
    python = python_with("matplotlib")
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "window.py").write_text(textwrap.dedent(WINDOW))
    env = clean_env({"MPLBACKEND": "module://window", "PYTHONPATH": str(library), "MPLCONFIGDIR": str(settings)})
    script = write(tmp_path, LOOKED_AT)
    line = LOOKED_AT.splitlines().index("    plt.show()") + 1
    found = []
    for options in ([], ["--no-plots"]):
        results = fathom_run(tmp_path, [script], options, python, env=env)
        assert results.done.returncode == 0, results.done.stderr
        rows = [row for row in results.report["lines"] if row["file"] == str(script) and row["line"] == line]
        found.append((results.done.stdout, sum(r["wait_s"] for r in rows), sum(r["total_s"] for r in rows)))
        text = (results.folder / "profile_results.txt").read_text()
        assert (" look " in text.partition("Functions by Waiting")[2].partition("\n\n")[0]) == (not options), text
    (shown, waited, worked), (hidden, waited_not, _) = found
    # Where a wait ends is known to the time between two looks, which a busy machine stretches.
    assert shown == "a window\n" and waited == pytest.approx(1.2, abs=0.3) and worked < 0.3, found
    assert hidden == "" and waited_not < 0.1, found


def test_other_libraries(tmp_path: Path) -> None:
    """bokeh is a stand-in with its layout: the real one is large, and show() is all that is changed of it."""
    python = python_with("plotly", "PIL")
    package = tmp_path / "bokeh"
    (package / "io").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "io" / "__init__.py").write_text("from .showing import show\n")
    (package / "io" / "showing.py").write_text("def show(what): raise SystemExit('a browser opened')\n")
    (package / "plotting.py").write_text("from .io import show\n")
    opened = tmp_path / "opened"
    for name in ("xdg-open", "display", "eog", "firefox", "sensible-browser"):  # what viewers are looked for by
        (tmp_path / name).write_text("#!/bin/sh\ntouch %s\n" % opened)
        (tmp_path / name).chmod(0o755)
    env = clean_env({"PATH": "%s:/usr/bin:/bin" % tmp_path, "BROWSER": str(tmp_path / "firefox"), "DISPLAY": ":99"})
    script = write(tmp_path, OTHERS)
    results = fathom_run(tmp_path, [script, tmp_path / "p.html"], ["--no-plots"], python, env=env)
    assert results.done.returncode == 0, results.done.stderr
    assert results.done.stdout.splitlines() == ["None None", "True", "None True (0, 0, 0)", "None"]
    assert not opened.exists()


def test_tkinter_and_turtle(tmp_path: Path) -> None:
    python = python_with("tkinter")
    if run([python, "-c", "import _tkinter"]).returncode != 0:
        pytest.skip("this Python was built without Tk")
    env = clean_env({"DISPLAY": ""})
    assert run([python, write(tmp_path, TURTLE)], env=env).returncode != 0  # no screen here
    results = fathom_run(tmp_path, [write(tmp_path, TURTLE)], ["--no-plots"], python, env=env)
    assert results.done.returncode == 0, results.done.stderr
    assert results.done.stdout.splitlines() == ["7 0", "turtle at [50, 0]", "done"]
