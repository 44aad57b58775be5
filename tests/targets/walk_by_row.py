# Run by tests/e2e/test_pyabi.py under every Python found. "runtime": writes the first bytes of _PyRuntime. "walk ROW":
# walks the own stack by the offsets of ROW (JSON), in several shapes of call, and prints what it read beside what
# Python says, as JSON. "lines": prints a line table and Python's own answer for every code object of some standard
# modules.
import ctypes
import dis
import gc
import json
import sys
import threading

RUNTIME_BYTES = 1024


def runtime_address():
    return ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))


def ptr(address):
    return ctypes.c_uint64.from_address(address).value


def i32(address):
    return ctypes.c_int32.from_address(address).value


def u8(address):
    return ctypes.c_uint8.from_address(address).value


def read_str(row, address):
    state = ctypes.c_uint32.from_address(address + row["str_state"]).value
    length = ctypes.c_int64.from_address(address + row["str_length"]).value
    kind = (state & row["str_kind_mask"]) >> row["str_kind_shift"]
    assert state & row["str_compact_mask"], "not compact"
    if state & row["str_ascii_mask"]:
        return ctypes.string_at(address + row["str_ascii_data"], length).decode("ascii")
    data = ctypes.string_at(address + row["str_compact_data"], length * kind)
    return data.decode({1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}[kind])


def read_code(row, code):
    table = ptr(code + row["code_line_table"])
    return {
        "type_is_code": ptr(code + row["object_type"]) == id(type(read_code.__code__)),
        "name": read_str(row, ptr(code + row["code_name"])),
        "qualname": read_str(row, ptr(code + row["code_qualname"])) if row["code_qualname"] else None,
        "filename": read_str(row, ptr(code + row["code_filename"])),
        "first_line": i32(code + row["code_first_line"]),
        "table": ctypes.string_at(table + row["bytes_data"], ptr(table + row["bytes_size"])).hex(),
    }


def bytecode_base(row, frame, code):
    if not row["code_tlbc"]:
        return code + row["code_bytecode"]
    copies, index = ptr(code + row["code_tlbc"]), i32(frame + row["frame_tlbc_index"])
    return ptr(copies + 8 + 8 * index)


def instruction_offset(row, frame, code):
    if row["lasti"] == 1:
        return i32(frame + row["frame_lasti"])
    if row["lasti"] == 2:
        return 2 * i32(frame + row["frame_lasti"])
    return ptr(frame + row["frame_lasti"]) - bytecode_base(row, frame, code)


ROW = None
THREAD = None


def snapshot():
    # Nothing here calls a Python function before the chains have been followed: its frame would be the current one
    # then, and gone when its links are read.
    row, thread, load, load_u8 = ROW, THREAD, ctypes.c_uint64.from_address, ctypes.c_uint8.from_address
    if row["frames"] <= 2:
        frame = load(thread + row["ts_frame"]).value
    elif row["frames"] <= 4:
        frame = load(load(thread + row["ts_cframe"]).value + row["cframe_current_frame"]).value
    else:
        frame = load(thread + row["ts_current_frame"]).value
    top = load(thread + row["ts_datastack_top"]).value if row["ts_datastack_top"] else 0
    chain = []
    while frame:
        owner = load_u8(frame + row["frame_owner"]).value if row["frame_owner"] else 0
        entry = load_u8(frame + row["frame_is_entry"]).value if row["frame_is_entry"] else 0
        chain.append((frame, owner, entry))
        frame = load(frame + row["frame_previous"]).value
    cframes = [load(thread + row["ts_cframe"]).value] if row["ts_cframe"] else []
    # The outermost is a member of the thread state. 3.10 leaves its link uninitialised: it ends the chain, not NULL.
    while cframes and not thread <= cframes[-1] < thread + 1024:
        cframes.append(load(cframes[-1] + row["cframe_previous"]).value)

    read = []
    for frame, owner, entry in chain:
        if row["first_shim_owner"] and owner >= row["first_shim_owner"]:
            read.append({"shim": True, "address": frame})
            continue
        code = ptr(frame + row["frame_code"]) & ~row["executable_tag_mask"]
        fact = read_code(row, code)
        fact.update(shim=False, address=frame, owner=owner, is_entry=entry, code=code,
                    offset=instruction_offset(row, frame, code))
        read.append(fact)

    told = []
    frame = sys._getframe()
    while frame:
        code = frame.f_code
        table = code.co_lnotab if sys.version_info < (3, 10) else code.co_linetable
        told.append({"name": code.co_name, "qualname": getattr(code, "co_qualname", None), "filename": code.co_filename,
                     "first_line": code.co_firstlineno, "table": table.hex(), "code": id(code), "offset": frame.f_lasti,
                     "line": frame.f_lineno})
        frame = frame.f_back
    return {"read": read, "told": told, "cframes": cframes, "datastack_top": top}


def plain():
    return snapshot()


def through_map():
    return list(map(lambda x: plain(), [0]))[0]


def generator():
    yield through_map()


def through_generator():
    return next(generator())


# Names of one, two and four bytes a character.
def café():
    return through_generator()


def жук():
    return café()


def 𐀀():
    return жук()


class Base:
    def __init__(self):
        self.seen = None


class Thing(Base):
    def __init__(self, look):
        super().__init__()
        self.seen = snapshot() if look else None


def construct(look):
    return Thing(look).seen


async def coroutine():
    return snapshot()


async def awaiting():
    return await coroutine()


def through_coroutine():
    try:
        awaiting().send(None)
    except StopIteration as stop:
        return stop.value


def walk(row):
    global ROW, THREAD
    ROW = row
    get = ctypes.pythonapi.PyThreadState_Get
    get.restype = ctypes.c_void_p
    THREAD = get()
    for _ in range(5000):  # let the interpreter specialise: constructors then run inside the same evaluator call
        construct(False)
    result = {
        "nested": 𐀀(),
        "construct": construct(True),
        "coroutine": through_coroutine(),
        "thread_id_is_right": ptr(THREAD + row["ts_thread_id"]) == threading.get_ident(),
    }
    result["stack_of_thread"] = in_thread(get)
    result["stack"] = c_stack()

    collecting = (runtime_address() + row["runtime_gc_collecting"] if row["runtime_gc_collecting"]
                  else ptr(THREAD + row["ts_interp"]) + row["interp_gc_collecting"])
    seen = []
    gc.callbacks.append(lambda phase, info: seen.append(i32(collecting)))
    gc.collect()
    gc.callbacks.clear()
    result["collecting"] = {"during": seen, "outside": i32(collecting)}
    return result


def c_stack():
    """The main thread's C stack: [low, high)."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            if line.endswith("[stack]\n"):
                return [int(n, 16) for n in line.split()[0].split("-")]


def in_thread(get):
    global THREAD
    saved, result = THREAD, []

    def run():
        global THREAD
        THREAD = get()
        result.append(plain())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    THREAD = saved
    return result[0]


MODULES = ["argparse", "ast", "asyncio.base_events", "dataclasses", "decimal", "enum", "inspect", "json.decoder", "logging",
           "pickle", "tarfile", "typing", "unittest.mock"]
if sys.version_info >= (3, 9):
    MODULES.append("zoneinfo._zoneinfo")


def all_code(code):
    yield code
    for const in code.co_consts:
        if isinstance(const, type(code)):
            for inner in all_code(const):
                yield inner


def told_lines(code):
    """The line of every second byte of the bytecode, 0 for none, as this Python's own tools say."""
    size = len(code.co_code)
    lines = [0] * (size // 2)
    if sys.version_info >= (3, 10):
        for start, end, line in code.co_lines():
            for off in range(start, min(end, size), 2):
                lines[off // 2] = line or 0
    else:
        starts = list(dis.findlinestarts(code))
        for i, (start, line) in enumerate(starts):
            end = starts[i + 1][0] if i + 1 < len(starts) else size
            for off in range(start, end, 2):
                lines[off // 2] = line
    return lines


def print_lines():
    import importlib

    for name in MODULES:
        with open(importlib.import_module(name).__file__, "rb") as f:
            module = compile(f.read(), name, "exec")
        for code in all_code(module):
            table = code.co_lnotab if sys.version_info < (3, 10) else code.co_linetable
            print(code.co_firstlineno, len(code.co_code), table.hex() or "-", *told_lines(code))


if __name__ == "__main__":
    if sys.argv[1] == "runtime":
        sys.stdout.buffer.write(ctypes.string_at(runtime_address(), RUNTIME_BYTES))
    elif sys.argv[1] == "walk":
        json.dump(walk(json.loads(sys.argv[2])), sys.stdout)
    elif sys.argv[1] == "lines":
        print_lines()
