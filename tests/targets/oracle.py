# What the programs share that know which function may call which, and from which line.
#
# In such a program every line that calls says so in a comment, "# calls: f, g"; "library" stands for any function of another
# file. A line "# from library: f" says which functions another file's code may call back. What "import" and "class" call goes
# without saying; up to 3.9 what leaves a "with" block runs on the block's last line. tests/e2e/test_oracle.py reads all this.
import dis
import json
import sys
import time


def line_tables(path):
    """{"name:first line": [[offset, line], ...]} of every code object of a file, as this Python itself tells."""
    with open(path) as f:
        todo, tables = [compile(f.read(), path, "exec")], {}
    while todo:
        code = todo.pop()
        if hasattr(code, "co_lines"):
            starts = [[start, line] for start, _, line in code.co_lines()]
        else:
            starts = [list(pair) for pair in dis.findlinestarts(code)]
        tables["%s:%d" % (code.co_name, code.co_firstlineno)] = starts
        todo += [c for c in code.co_consts if hasattr(c, "co_code")]
    return tables


def run(work):
    """Calls work() until this thread has used the CPU time asked for."""
    with open(sys.argv[1], "w") as f:
        json.dump(line_tables(sys.argv[0]), f)
    end = time.thread_time() + float(sys.argv[2])
    while time.thread_time() < end:
        work()
