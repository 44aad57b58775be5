# SPDX-License-Identifier: Apache-2.0
"""Comes before tests/e2e/conftest.py, which imports what has to be named here first."""

from pathlib import Path

import pytest

# Helpers assert, too: a failure there shows what was compared, as in a test.
pytest.register_assert_rewrite(*(path.stem for path in (Path(__file__).parent / "e2e").glob("[!t]*.py")), "tracing")
