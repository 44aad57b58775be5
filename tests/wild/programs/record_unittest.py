"""Runs a module as the main program and writes how each of its unittest tests went: record_unittest.py FILE MODULE [ARGUMENTS...]

Works on every Python that is tested, and inside other people's processes: no more than unittest itself is imported.
"""

import json
import runpy
import sys
import unittest

found = {}


class Result(unittest.TextTestResult):
    def note(self, test, how):
        name = test.id()
        order = ["skipped", "ok", "failure", "error"]
        found[name] = max(found.get(name, "skipped"), how, key=order.index)

    def addSuccess(self, test):  # noqa: N802 the base class's names, here and below
        super().addSuccess(test)
        self.note(test, "ok")

    def addError(self, test, err):  # noqa: N802
        super().addError(test, err)
        self.note(test, "error")

    def addFailure(self, test, err):  # noqa: N802
        super().addFailure(test, err)
        self.note(test, "failure")

    def addExpectedFailure(self, test, err):  # noqa: N802
        super().addExpectedFailure(test, err)
        self.note(test, "ok")

    def addUnexpectedSuccess(self, test):  # noqa: N802
        super().addUnexpectedSuccess(test)
        self.note(test, "failure")

    def addSkip(self, test, reason):  # noqa: N802
        super().addSkip(test, reason)
        self.note(test, "skipped")

    def addSubTest(self, test, subtest, err):  # noqa: N802
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.note(test, "failure")

    def stopTestRun(self):  # noqa: N802
        super().stopTestRun()
        with open(out, "w") as file:
            json.dump(found, file)


out, module = sys.argv[1:3]
unittest.TextTestRunner.resultclass = Result
sys.argv = [module, "-v", *sys.argv[3:]]
runpy.run_module(module, run_name="__main__", alter_sys=True)
