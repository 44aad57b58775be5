# SPDX-License-Identifier: Apache-2.0
"""The tables of a capture as Python types: written by scripts/gen_query_tables.py, not by hand."""

from typing import TYPE_CHECKING, Any, Dict, NamedTuple, Optional, Type

if TYPE_CHECKING:
    from fathom._query import Table


class Function(NamedTuple):
    """A row of functions: functions, Python and native, with their time and memory; most total CPU time first."""

    id: int  # number of the function in this capture
    name: str  # as reports call it
    full_name: str  # with parameters and template arguments, of C++ and Rust
    module: str  # Python module, or file name of the library
    file: str  # source file; the library where that is not known
    line: int  # where it begins; 0: not known
    kind: str  # python, native, jit or error (a stack that is not whole)
    inlined: int  # 1: the compiler put every call of it into its callers
    is_users: int  # 1: Python code outside of the standard library and of installed packages
    self_s: float  # CPU time in which it was the innermost function
    total_s: float  # CPU time in which it was anywhere on the stack
    self_plus_minus_s: float  # half of the 95 % interval of self_s
    total_plus_minus_s: float  # half of the 95 % interval of total_s
    python_s: float  # CPU time in Python code
    native_s: float  # CPU time in native code that Python called
    system_s: float  # CPU time in the kernel
    gc_s: float  # CPU time of the garbage collector
    gil_wait_s: float  # time waiting for the GIL
    wait_s: float  # time waiting for anything else: sleep, input and output, locks
    samples: int  # CPU samples in which it was on the stack
    alloc_bytes: int  # allocated by the function itself, freed or not
    peak_bytes: int  # the most that its own blocks held at any moment
    peak_plus_minus_bytes: int  # half of the 95 % interval of peak_bytes
    at_peak_bytes: int  # held when the whole program held most
    avg_bytes: int  # held, as a mean over the run
    live_bytes: int  # held at the end
    copy_bytes: int  # copied by memcpy and kin
    total_alloc_bytes: int  # allocated by the function and by what it calls
    total_peak_bytes: int  # the most that blocks of the function and of what it calls held


class Line(NamedTuple):
    """A row of lines: Python lines with their time and memory; most CPU time first."""

    file: str  # source file
    line: int  # number of the line
    function: str  # function that most of its time was in
    function_id: int  # functions.id of it
    source: str  # text of the line, as the capture keeps it; empty where it does not
    total_s: float  # CPU time charged to the line, native code and libraries that it calls included
    plus_minus_s: float  # half of the 95 % interval of total_s
    python_s: float  # CPU time in Python code
    native_s: float  # CPU time in native code that Python called
    system_s: float  # CPU time in the kernel
    gc_s: float  # CPU time of the garbage collector
    gil_wait_s: float  # time waiting for the GIL
    wait_s: float  # time waiting for anything else: sleep, input and output, locks
    worker_s: float  # of total_s: CPU time of native threads that work for the line
    worker_threads: int  # how many of these threads there are
    samples: int  # CPU samples charged to the line
    alloc_bytes: int  # allocated, freed or not
    alloc_plus_minus_bytes: int  # half of the 95 % interval of alloc_bytes
    allocs: int  # how many blocks were allocated
    alloc_python_share: float  # of alloc_bytes: share of Python's own allocators, 0 to 1
    peak_bytes: int  # the most that the line's blocks held at any moment
    peak_plus_minus_bytes: int  # half of the 95 % interval of peak_bytes
    at_peak_bytes: int  # held when the whole program held most
    untouched_bytes: int  # allocated by then and never used
    avg_bytes: int  # held, as a mean over the run
    live_bytes: int  # held at the end
    copy_bytes: int  # copied by memcpy and kin
    types: str  # of Python objects that are held at the end, up to three, most first; empty when not known


class Thread(NamedTuple):
    """A row of threads: threads; most CPU time first."""

    id: int  # number of the thread in this capture
    process_id: Optional[int]  # processes.id
    pid: int  # the process's number in the system
    tid: int  # the thread's number in the system
    name: str  # as the program called it
    cpu_s: float  # CPU time, as the kernel counted it where that is known
    wall_s: float  # from its start to its end
    python_s: float  # CPU time in Python code
    native_s: float  # CPU time in native code that Python called
    system_s: float  # CPU time in the kernel
    gc_s: float  # CPU time of the garbage collector
    gil_wait_s: float  # time waiting for the GIL
    wait_s: float  # time waiting for anything else: sleep, input and output, locks
    no_cpu_s: float  # ready to run while no CPU was free
    unseen_s: float  # time of which nobody knows what the thread did
    samples: int  # of every class
    dropped: int  # samples that were lost because a ring was full


class Process(NamedTuple):
    """A row of processes: the program's processes, in the order of their start."""

    id: int  # number of the process in this capture
    pid: int  # its number in the system
    parent: Optional[int]  # pid of the process that started it; NULL for the first one
    name: str  # of a worker: what the program calls it
    command: str  # its command line
    python: str  # version of its Python; empty where it has none
    max_rss_bytes: int  # the most resident memory that was seen
    exit_code: Optional[int]  # NULL: not known, or ended by a signal
    exit_signal: Optional[int]  # the signal that ended it, or NULL
    threads: int  # how many of its threads were sampled
    python_s: float  # CPU time in Python code
    native_s: float  # CPU time in native code that Python called
    system_s: float  # CPU time in the kernel
    gc_s: float  # CPU time of the garbage collector
    gil_wait_s: float  # time waiting for the GIL
    wait_s: float  # time waiting for anything else: sleep, input and output, locks


class CPU(NamedTuple):
    """A row of cpus: where threads ran; CPUs without a sample have 0."""

    cpu: int  # number of the CPU
    samples: int  # CPU samples that were taken there
    cpu_s: float  # CPU time that they stand for


class Node(NamedTuple):
    """A row of nodes: the call tree: every place in it, parents first."""

    id: int  # number of the place in the call tree
    parent_id: Optional[int]  # nodes.id of the caller; NULL for the root
    function_id: Optional[int]  # functions.id; NULL for the root
    name: str  # of the function
    file: str  # source file; the library where that is not known
    line: int  # line that was running, or that called; 0: not known
    depth: int  # how many frames the stack has here; 0 for the root
    inlined: int  # 1: the compiler put the call into its caller
    self_s: float  # CPU time of the samples that end here
    total_s: float  # the same with everything below
    self_wait_s: float  # waiting, also for the GIL, that ends here
    total_wait_s: float  # the same with everything below
    samples: int  # CPU samples that end here


class Stack(NamedTuple):
    """A row of stacks: distinct stacks that samples end in, over all threads; most CPU time first."""

    id: int  # nodes.id of its innermost frame
    stack: str  # its frames, outermost first, separated by ';' (as export -f collapsed)
    depth: int  # how many frames it has
    function_id: Optional[int]  # functions.id of the innermost frame; NULL: the stack is empty
    samples: int  # CPU samples of exactly this stack
    wait_samples: int  # polls of threads that waited in it
    total_s: float  # CPU time
    python_s: float  # CPU time in Python code
    native_s: float  # CPU time in native code that Python called
    system_s: float  # CPU time in the kernel
    gc_s: float  # CPU time of the garbage collector
    gil_wait_s: float  # time waiting for the GIL
    wait_s: float  # time waiting for anything else: sleep, input and output, locks


class Wait(NamedTuple):
    """A row of waits: where threads waited, for the GIL and for anything else; longest first."""

    thread_id: int  # threads.id
    stack_id: int  # stacks.id: where it waited
    kind: str  # gil_wait: for the GIL; wait: for anything else
    file: Optional[str]  # of the line that is charged; NULL: no Python is on the stack
    line: Optional[int]  # the line that is charged
    function: Optional[str]  # its function
    total_s: float  # how long it waited
    samples: int  # polls of the thread while it waited


class Sample(NamedTuple):
    """A row of samples: every single sample, in order of time within each thread."""

    t_s: float  # when, since the program's start
    thread_id: int  # threads.id
    stack_id: int  # stacks.id
    kind: str  # python, native, system, gc, gil_wait or wait
    weight_s: float  # CPU time, or waiting, that it stands for
    cpu: int  # number of the CPU; 0 where that was not captured


class Allocation(NamedTuple):
    """A row of allocations: what each stack of a thread allocated, held at the peak, leaked and copied; most bytes first."""

    thread_id: int  # threads.id
    stack_id: int  # nodes.id of the innermost frame of the stack that allocated
    stack: str  # its frames, outermost first, separated by ';'
    file: Optional[str]  # of the line that is charged; NULL: no Python is on the stack
    line: Optional[int]  # the line that is charged
    function: Optional[str]  # its function
    alloc_bytes: int  # allocated, freed or not
    at_peak_bytes: int  # held when the whole program held most
    leaked_bytes: int  # of places that look like leaks: what survives
    copy_bytes: int  # copied by memcpy and kin


class Block(NamedTuple):
    """A row of blocks: every single block that was sampled, in order of time."""

    t_s: float  # when it was allocated, since the program's start
    freed_s: Optional[float]  # when it was freed; NULL: it was not
    size_bytes: int  # its own size
    weight_bytes: int  # how many allocated bytes it stands for
    allocator: str  # obj, mem, raw (Python's), malloc or mmap
    thread_id: int  # threads.id
    stack_id: int  # nodes.id of the innermost frame of the stack that allocated
    is_leaked: int  # 1: it survives, and its place looks like a leak


class Leak(NamedTuple):
    """A row of leaks: places that look like leaks; most likely first."""

    file: Optional[str]  # source file; NULL: native code that no Python called
    line: Optional[int]  # number of the line
    function: str  # the function that allocates
    likelihood: float  # that a block of this line is never freed, 0 to 1
    velocity_bytes_s: float  # bytes that it gains per second
    velocity_plus_minus_bytes_s: float  # half of the 95 % interval of that
    bytes: int  # what survives
    types: str  # of surviving Python objects, most first; empty where not known


class MemoryLevel(NamedTuple):
    """A row of memory: the program's memory over time, at most 256 rows."""

    t_s: float  # when, since the program's start
    heap_bytes: int  # allocated and not freed then
    heap_high_bytes: int  # the most of it since the row before
    rss_bytes: int  # resident memory of all processes; 0: not known then
    pss_bytes: int  # the same with shared pages counted once; 0: not known then
    swap_bytes: int  # swapped out; 0: none, or not known then


class Zone(NamedTuple):
    """A row of zones: of a trace: functions and zones with their calls; most own time first."""

    id: int  # number of the function or zone in this trace
    name: str  # of the function, or what the program called the zone
    file: str  # where it is; empty where that is not known
    line: int  # where it begins; 0: not known
    kind: str  # python, native, zone or unknown (events were lost here)
    calls: int  # how often it was called
    recursive_calls: int  # of these: while it was on the stack already
    total_s: float  # time in which it was on the stack, on the clock, recursion counted once
    own_s: float  # time in which it was the innermost one
    mean_s: float  # duration of a call, or of one stretch of a generator: the mean
    min_s: float  # the shortest
    max_s: float  # the longest
    p50_s: float  # the median, right to 7 %
    p90_s: float  # 90 % take no longer
    p99_s: float  # 99 % take no longer


class Call(NamedTuple):
    """A row of calls: of a trace: who called whom."""

    caller_id: Optional[int]  # zones.id; NULL: nothing traced called it
    callee_id: int  # zones.id
    caller: Optional[str]  # name of the caller
    callee: str  # name of what it called
    calls: int  # how often
    recursive_calls: int  # of these: while the callee was on the stack already
    total_s: float  # time of the callee when called by this caller
    own_s: float  # the same without what it called


class TracedLine(NamedTuple):
    """A row of traced_lines: of a trace of lines: how often each ran, and for how long."""

    zone_id: int  # zones.id of its function
    file: str  # source file
    line: int  # number of the line
    function: str  # its function
    hits: int  # how often it ran
    total_s: float  # time in the line and in what it called, recursion counted once
    own_s: float  # the same without what it called


class Mark(NamedTuple):
    """A row of marks: what the program marked with fathom.mark()."""

    t_s: float  # when, since the program's start
    thread_id: int  # threads.id
    text: str  # what the program said


class Meta(NamedTuple):
    """A row of meta: the run as a whole: one row."""

    command: str  # command line that was profiled
    python: str  # version of its Python
    started: str  # date and time, UTC
    exit_code: Optional[int]  # NULL: not known, or ended by a signal
    exit_signal: Optional[int]  # the signal that ended it, or NULL
    wall_s: float  # time from start to end
    cpu_s: float  # CPU time of all processes, as the kernel counted it where that is known
    no_cpu_s: float  # how long the main thread was ready while no CPU was free
    rate_hz: int  # samples per second of CPU time that were asked for
    engine: str  # what caused samples: ticker or perf
    samples: int  # samples in the capture
    wait_samples: int  # of these: polls of threads that waited
    dropped: int  # samples that were lost because a ring was full
    failed_unwinds: int  # samples whose stack is not whole
    overhead_s: float  # CPU time that profiling took in the program
    max_rss_bytes: int  # the most resident memory
    python_s: float  # CPU time in Python code
    native_s: float  # CPU time in native code that Python called
    system_s: float  # CPU time in the kernel
    gc_s: float  # CPU time of the garbage collector
    gil_wait_s: float  # time waiting for the GIL
    wait_s: float  # time waiting for anything else: sleep, input and output, locks
    worker_s: float  # CPU time of native threads that is charged to the line they work for
    untied_s: float  # CPU time of native threads that is charged to no line
    alloc_bytes: Optional[int]  # allocated in the whole run; NULL: memory was not captured
    peak_bytes: Optional[int]  # the most that the program held, or NULL
    live_bytes: Optional[int]  # held at the end, or NULL
    copy_bytes: Optional[int]  # copied by memcpy and kin, or NULL
    traced_calls: Optional[int]  # calls in the trace; NULL: it was not traced


class Coverage(NamedTuple):
    """A row of coverage: what was not seen, and why."""

    what: str  # what was not seen
    why: str  # and why, with the remedy where there is one


class File(NamedTuple):
    """A row of files: source files that the capture keeps, and programs and libraries that were mapped."""

    path: str  # of the file, as the program named it
    kind: str  # source: the capture keeps its text; image: a program or library that was mapped
    build_id: Optional[str]  # of an image; NULL: it is no image, empty: it has none
    bytes: Optional[int]  # of a source: its length, else NULL
    text: Optional[str]  # of a source: the whole of it, else NULL


class Library(NamedTuple):
    """A row of libraries: how well native libraries could be named; most time first."""

    path: str  # of the native library
    share: float  # of all CPU time: samples with a frame of it, 0 to 1
    named_share: float  # of these: its innermost frame has a function's name
    lines_share: float  # of these: its innermost frame has a source line
    remedy: str  # what would help; empty when less than a tenth is missing


class Column(NamedTuple):
    """A row of columns: these tables and their columns."""

    table_name: str  # one of these tables
    name: str  # of one of its columns
    type: str  # INTEGER, REAL or TEXT
    meaning: str  # what it holds; names that end in _s are seconds


class Tables:
    """What a capture holds, each table read when it is asked for."""

    def _table(self, name: str, row: Type[Any]) -> Any:
        raise NotImplementedError

    @property
    def functions(self) -> "Table[Function]":
        """Functions, Python and native, with their time and memory; most total CPU time first."""
        return self._table("functions", Function)  # type: ignore[no-any-return]

    @property
    def lines(self) -> "Table[Line]":
        """Python lines with their time and memory; most CPU time first."""
        return self._table("lines", Line)  # type: ignore[no-any-return]

    @property
    def threads(self) -> "Table[Thread]":
        """Threads; most CPU time first."""
        return self._table("threads", Thread)  # type: ignore[no-any-return]

    @property
    def processes(self) -> "Table[Process]":
        """The program's processes, in the order of their start."""
        return self._table("processes", Process)  # type: ignore[no-any-return]

    @property
    def cpus(self) -> "Table[CPU]":
        """Where threads ran; CPUs without a sample have 0."""
        return self._table("cpus", CPU)  # type: ignore[no-any-return]

    @property
    def nodes(self) -> "Table[Node]":
        """The call tree: every place in it, parents first."""
        return self._table("nodes", Node)  # type: ignore[no-any-return]

    @property
    def stacks(self) -> "Table[Stack]":
        """Distinct stacks that samples end in, over all threads; most CPU time first."""
        return self._table("stacks", Stack)  # type: ignore[no-any-return]

    @property
    def waits(self) -> "Table[Wait]":
        """Where threads waited, for the GIL and for anything else; longest first."""
        return self._table("waits", Wait)  # type: ignore[no-any-return]

    @property
    def samples(self) -> "Table[Sample]":
        """Every single sample, in order of time within each thread."""
        return self._table("samples", Sample)  # type: ignore[no-any-return]

    @property
    def allocations(self) -> "Table[Allocation]":
        """What each stack of a thread allocated, held at the peak, leaked and copied; most bytes first."""
        return self._table("allocations", Allocation)  # type: ignore[no-any-return]

    @property
    def blocks(self) -> "Table[Block]":
        """Every single block that was sampled, in order of time."""
        return self._table("blocks", Block)  # type: ignore[no-any-return]

    @property
    def leaks(self) -> "Table[Leak]":
        """Places that look like leaks; most likely first."""
        return self._table("leaks", Leak)  # type: ignore[no-any-return]

    @property
    def memory(self) -> "Table[MemoryLevel]":
        """The program's memory over time, at most 256 rows."""
        return self._table("memory", MemoryLevel)  # type: ignore[no-any-return]

    @property
    def zones(self) -> "Table[Zone]":
        """Of a trace: functions and zones with their calls; most own time first."""
        return self._table("zones", Zone)  # type: ignore[no-any-return]

    @property
    def calls(self) -> "Table[Call]":
        """Of a trace: who called whom."""
        return self._table("calls", Call)  # type: ignore[no-any-return]

    @property
    def traced_lines(self) -> "Table[TracedLine]":
        """Of a trace of lines: how often each ran, and for how long."""
        return self._table("traced_lines", TracedLine)  # type: ignore[no-any-return]

    @property
    def marks(self) -> "Table[Mark]":
        """What the program marked with fathom.mark()."""
        return self._table("marks", Mark)  # type: ignore[no-any-return]

    @property
    def meta(self) -> "Table[Meta]":
        """The run as a whole: one row."""
        return self._table("meta", Meta)  # type: ignore[no-any-return]

    @property
    def coverage(self) -> "Table[Coverage]":
        """What was not seen, and why."""
        return self._table("coverage", Coverage)  # type: ignore[no-any-return]

    @property
    def files(self) -> "Table[File]":
        """Source files that the capture keeps, and programs and libraries that were mapped."""
        return self._table("files", File)  # type: ignore[no-any-return]

    @property
    def libraries(self) -> "Table[Library]":
        """How well native libraries could be named; most time first."""
        return self._table("libraries", Library)  # type: ignore[no-any-return]

    @property
    def columns(self) -> "Table[Column]":
        """These tables and their columns."""
        return self._table("columns", Column)  # type: ignore[no-any-return]


ROWS: Dict[str, Type[Any]] = {
    "functions": Function,
    "lines": Line,
    "threads": Thread,
    "processes": Process,
    "cpus": CPU,
    "nodes": Node,
    "stacks": Stack,
    "waits": Wait,
    "samples": Sample,
    "allocations": Allocation,
    "blocks": Block,
    "leaks": Leak,
    "memory": MemoryLevel,
    "zones": Zone,
    "calls": Call,
    "traced_lines": TracedLine,
    "marks": Mark,
    "meta": Meta,
    "coverage": Coverage,
    "files": File,
    "libraries": Library,
    "columns": Column,
}
