"""Imports what can be imported of large libraries, of which many bring thread-locals and threads of their own. Prints which.

The runner's --install brings them.

chaos: venv
"""

import importlib
import logging
import sys
import warnings

warnings.simplefilter("ignore")
logging.getLogger("matplotlib.font_manager").setLevel(
    logging.ERROR
)  # it speaks when its cache takes more than five seconds
NAMES = [
    "numpy",
    "pandas",
    "sklearn.ensemble",
    "scipy.stats",
    "lightgbm",
    "xgboost",
    "matplotlib.pyplot",
    "sqlalchemy",
    "numba",
]
found = []
for name in NAMES:
    try:
        importlib.import_module(name)
    except ImportError:
        continue
    found.append(name)
if not found:
    sys.exit(77)
print(" ".join(found))
