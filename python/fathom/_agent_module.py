# SPDX-License-Identifier: Apache-2.0
"""Finds and loads the agent, the C module that runs inside a profiled program."""

import importlib.machinery
import importlib.util
import sys
from typing import Any

from fathom import agent_path

_NAME = "fathom._agent"


def load_agent() -> Any:
    """The module fathom._agent; RuntimeError says why it cannot be had."""
    loaded = sys.modules.get(_NAME)
    if loaded is not None:
        return loaded
    try:
        # By path and not by import: in a checkout the file lies in build/. Loading it twice would give the same library.
        path = agent_path()
        loader = importlib.machinery.ExtensionFileLoader(_NAME, path)
        spec = importlib.util.spec_from_file_location(_NAME, path, loader=loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except (ImportError, OSError) as error:
        raise RuntimeError("the agent cannot be loaded: %s" % error) from error
    sys.modules[_NAME] = module
    return module
