# SPDX-License-Identifier: Apache-2.0
"""--no-plots: what would open a window returns at once instead. Files are written as ever.

One entry in install() for each module; its function gets the module as soon as the program has imported it.
"""

from _fathom_hooks import like


def _nothing(original, result=None):
    def replacement(*args, **kwargs):
        return result

    return like(original, replacement)


def _silence(owner, *names, result=None):
    for name in names:
        if hasattr(owner, name):
            setattr(owner, name, _nothing(getattr(owner, name), result))


def _matplotlib(module):
    """Agg draws into memory and needs no display, whichever backend the program asks for."""
    use = module.use

    def use_agg(backend, *args, **kwargs):
        return use("Agg", *args, **kwargs)

    module.use = like(use, use_agg)
    use("Agg")


def _pyplot(module):
    switch = module.switch_backend

    def switch_to_agg(backend):
        return switch("agg")

    module.switch_backend = like(switch, switch_to_agg)
    _silence(module, "show", "draw", "pause")


def _plotly_offline(module):
    plot = module.plot

    def plot_unopened(*args, **kwargs):
        kwargs["auto_open"] = False
        return plot(*args, **kwargs)

    module.plot = like(plot, plot_unopened)
    _silence(module, "iplot")


class _Tcl:
    """A Tcl interpreter without a screen: it keeps variables, answers everything else with nothing, and its main loop has ended."""

    def __init__(self, versions):
        self._variables = dict(versions)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: ""

    def _name(self, args):
        return "%s(%s)" % args[:2] if len(args) == 2 else str(args[0])

    def setvar(self, *args):
        self._variables[self._name(args[:-1])] = args[-1]

    def getvar(self, *args):
        return self._variables.get(self._name(args), "")

    def unsetvar(self, *args):
        self._variables.pop(self._name(args), None)

    globalsetvar, globalgetvar, globalunsetvar = setvar, getvar, unsetvar

    def getint(self, value):
        return int(value or 0)

    def getdouble(self, value):
        return float(value or 0)

    def getboolean(self, value):
        return bool(value) and str(value) not in ("0", "false", "no", "off")

    def splitlist(self, value):
        return value if isinstance(value, tuple) else tuple(str(value).split())

    def wantobjects(self, *args):
        return True


def _tkinter(module):
    versions = {
        "tk_version": module.TK_VERSION,
        "tcl_version": module.TCL_VERSION,
        "tk_patchLevel": module.TK_VERSION + ".0",
    }

    def create(*args, **kwargs):
        return _Tcl(versions)

    module.create = like(module.create, create)


def install(watcher):
    watcher.add("matplotlib", _matplotlib)
    watcher.add("matplotlib.pyplot", _pyplot)
    watcher.add("matplotlib.figure", lambda module: _silence(module.Figure, "show"))
    watcher.add("matplotlib.backend_bases", lambda module: _silence(module.FigureCanvasBase, "draw_idle"))
    watcher.add("plotly.basedatatypes", lambda module: _silence(module.BaseFigure, "show"))
    watcher.add("plotly.io._renderers", lambda module: _silence(module, "show"))
    watcher.add("plotly.offline.offline", _plotly_offline)
    watcher.add("bokeh.io.showing", lambda module: _silence(module, "show"))
    watcher.add("PIL.Image", lambda module: _silence(module.Image, "show"))
    watcher.add("PIL.ImageShow", lambda module: _silence(module, "show", result=True))
    watcher.add("_tkinter", _tkinter)
