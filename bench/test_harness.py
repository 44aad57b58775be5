"""Tests of the bench itself: python3 bench/test_harness.py (seconds, no network)."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import line_bytes  # noqa: E402
from harness import measure, prepare, splits, stats, tables, tools  # noqa: E402

WORKLOAD = os.path.join(prepare.BENCH, "workloads", "loop.py")


class FakeJob:
    def __init__(self, folder):
        self.folder = folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)


class MeasureTest(unittest.TestCase):
    def setUp(self):
        measure.become_subreaper()
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def run_python(self, code, timeout=30):
        return measure.run([sys.executable, "-c", code], dict(os.environ), self.folder.name, timeout)

    def test_workload_tells_its_body(self):
        result = measure.run([sys.executable, WORKLOAD, "0.01"], dict(os.environ), self.folder.name, 30)
        self.assertNotIn("error", result)
        self.assertEqual(result["iterations"], 110)
        self.assertLess(result["body_s"], result["wall_s"])
        self.assertGreater(result["target_rss_bytes"], 1 << 20)

    def test_cpu_of_an_orphan_is_counted(self):
        burn = "import time; [None for _ in iter(lambda: time.process_time() < 0.3, False)]"
        # The starter never waits for the process that burns, so only we can reap it.
        code = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', %r]); time.sleep(1.5)" % burn
        self.assertGreater(self.run_python(code)["tree_cpu_s"], 0.3)

    def test_failure_is_one_line(self):
        self.assertEqual(self.run_python("import sys; sys.exit('no luck')")["error"], "exit 1: no luck")
        self.assertIn("No such file", measure.run(["/nonexistent"], {}, self.folder.name, 5)["error"])

    def test_endless_run_is_ended(self):
        result = self.run_python("import time; time.sleep(60)", timeout=0.5)
        self.assertIn("no end within", result["error"])
        self.assertLess(result["wall_s"], 10)


class EmptyHandlerTest(unittest.TestCase):
    def test_signals_arrive_at_about_the_rate(self):
        built, missing = prepare.compile_parts()
        if "empty_program" not in built:
            self.skipTest(str(missing))
        measure.become_subreaper()
        for engine in ("ticker", "perf"):
            with self.subTest(engine=engine), tempfile.TemporaryDirectory() as folder:
                job = FakeJob(folder)
                argv = [
                    built["empty_program"],
                    engine,
                    "1000",
                    built["empty_library"],
                    job.path("empty.txt"),
                    sys.executable,
                    WORKLOAD,
                    "0.3",
                ]
                run = measure.run(argv, prepare.target_env(built), folder, 60)
                self.assertNotIn("error", run)
                samples = tools.empty_samples(job, 1000, run)
                if "refused" in samples.get("error", ""):
                    self.skipTest(samples["error"])
                self.assertGreater(samples["got"], 0.5 * samples["asked"])
                self.assertLess(samples["got"], 2.5 * samples["asked"])  # runnable but waiting for a core counts, too


class TablesTest(unittest.TestCase):
    @staticmethod
    def runs(tool, seconds, **more):
        return [
            dict(
                {
                    "round": n,
                    "tool": tool,
                    "workload": "w",
                    "body_s": s,
                    "body_cpu_s": s,
                    "wall_s": s + 0.1,
                    "tree_cpu_s": s + 0.1,
                    "iterations": 10,
                    "target_rss_bytes": 1,
                    "profiler_rss_bytes": 0,
                    "output_bytes": 0,
                },
                **more,
            )
            for n, s in enumerate(seconds)
        ]

    def test_ratio_is_taken_within_a_round(self):
        runs = self.runs("baseline", [1.0, 2.0, 3.0]) + self.runs("fathom", [1.1, 2.2, 3.3])
        wall = tables.summarize(runs)["w"]["fathom"]["wall"]
        self.assertAlmostEqual(wall["min"], 1.1)
        self.assertAlmostEqual(wall["max"], 1.1)

    def test_slow_tool_is_compared_per_iteration(self):
        runs = self.runs("baseline", [1.0]) + self.runs("cProfile", [1.0], iterations=2)
        self.assertAlmostEqual(tables.summarize(runs)["w"]["cProfile"]["wall"]["median"], 5.0)

    def test_cost_bar_says_over(self):
        base = self.runs("baseline", [1.0] * 5) + self.runs("null", [1.0] * 5)
        floor = self.runs("empty_ticker", [1.03] * 5) + self.runs("empty_perf", [1.10] * 5)
        over = tables.cost_bar(tables.summarize(base + floor + self.runs("fathom", [1.06] * 5)))
        self.assertIn("OVER", over)
        self.assertIn("1.050", over)
        kept = tables.cost_bar(tables.summarize(base + floor + self.runs("fathom", [1.04] * 5)))
        self.assertIn("kept", kept)

    def test_failed_tool_does_not_break_the_tables(self):
        runs = self.runs("baseline", [1.0]) + [{"round": 0, "tool": "fathom", "workload": "w", "error": "exit 1: no"}]
        table = tables.summarize(runs)
        self.assertIn("fathom failed: exit 1: no", tables.workload_table("w", table["w"]))
        self.assertIn("not measured", tables.cost_bar(table))

    def test_interval_holds_the_median(self):
        low, high = stats.median_interval([1.0, 1.1, 1.2, 1.3, 5.0])
        self.assertTrue(low <= 1.2 <= high)


class SplitsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.job = FakeJob(folder.name)
        self.functions = splits.Labels({"kind": "functions", "ns": {"a": 1, "b": 1}}, "/x/prog.py")
        self.lines = splits.Labels({"kind": "lines", "ns": {"7": 1, "9": 1}}, "/x/prog.py")

    def test_py_spy_charges_the_innermost_label(self):
        self.job.write(
            "profile.txt",
            "<module> (prog.py:1);a (prog.py:7);helper (other.py:3) 6\n<module> (prog.py:1);b (prog.py:9) 2\n",
        )
        self.assertEqual(splits.read_py_spy(self.job, self.functions).weights, {"a": 6, "b": 2})
        self.assertEqual(splits.read_py_spy(self.job, self.lines).weights, {"7": 6, "9": 2})

    def test_austin_sums_time_and_counts_samples(self):
        self.job.write(
            "profile.austin",
            "# mode: wall\nP1;T0:1;/x/prog.py:a:7 1100\nP1;T0:1 90\nP1;T0:1;/x/prog.py:b:9;/y/o.py:a:1 900\n",
        )
        split = splits.read_austin(self.job, self.functions)
        self.assertEqual((split.weights, split.n_samples), ({"a": 1100, "b": 900}, 2))


class LineBytesTest(unittest.TestCase):
    def test_table_has_the_error_of_each_line_and_of_all(self):
        true = {"lists": 10e6, "nothing": 0}
        told = {"lists": 9e6, "nothing": 1e6}
        results = [
            {"tool": "a", "true": true, "told": told, "wall_s": 1.0, "output_bytes": 2e6},
            {"tool": "b", "error": "exit 1: no"},
        ]
        text = line_bytes.table(results)
        self.assertIn("9.0 (-10.0 %)", text)
        self.assertIn("20.0 %", text)  # one megabyte missing, one on a wrong line
        self.assertIn("failed: b: exit 1: no", text)

    def test_scalene_is_read_by_line(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        job = FakeJob(folder.name)
        job.script = "/x/prog.py"
        job.write(
            "profile.json",
            '{"files": {"prog.py": {"lines": [{"lineno": 7, "n_malloc_mb": 2.0}]}, "/y/o.py": {"lines": []}}}',
        )
        self.assertEqual(line_bytes.scalene_lines(job), {7: 2 << 20})


if __name__ == "__main__":
    unittest.main()
