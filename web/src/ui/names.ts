// SPDX-License-Identifier: Apache-2.0
// How things are called on the screen.
import { KIND_PYTHON, NONE, type Capture } from "../data/capture";
import type { Step } from "../data/filter";
import { seconds, shortPath } from "../data/format";
import type { Tree } from "../data/tree";

export function functionName(capture: Capture, fn: number): string {
	return fn >= 0 && fn < capture.functions.n ? capture.strings.get(capture.functions.name[fn]) || "(no name)" : "?";
}

// As functionName, but the body of a module by the module's name: every module has a <module>.
export function bodyName(capture: Capture, fn: number): string {
	const name = functionName(capture, fn);
	if (name !== "<module>") return name;
	const cell = /\[(cell \d+)\]$/.exec(capture.strings.get(capture.functions.file[fn]));
	return cell?.[1] ?? (capture.strings.get(capture.functions.module[fn]) || name);
}

export function moduleName(capture: Capture, fn: number): string {
	const { module, library } = capture.functions;
	return capture.strings.get(module[fn]) || shortPath(capture.strings.get(library[fn]));
}

// "file.py:12" for Python and for native code with debug information, else the library.
export function functionPlace(capture: Capture, fn: number): string {
	const f = capture.functions;
	const file = capture.strings.get(f.file[fn]);
	if (file) return f.line[fn] > 0 ? `${shortPath(file)}:${f.line[fn]}` : shortPath(file);
	return shortPath(capture.strings.get(f.library[fn])) || moduleName(capture, fn);
}

export function nodeName(capture: Capture, tree: Tree, node: number, isByLine: boolean): string {
	if (node === 0) return "all";
	if (tree.module[node] >= 0) return `${capture.strings.get(tree.module[node]) || "libraries"} (library)`;
	const name = functionName(capture, tree.fn[node]);
	return isByLine && tree.line[node] > 0 && capture.functions.kind[tree.fn[node]] === KIND_PYTHON
		? `${name}:${tree.line[node]}`
		: name;
}

export function threadName(capture: Capture, thread: number): string {
	const { tid, name } = capture.threads;
	const text = capture.strings.get(name[thread]);
	return text ? `${text} (${tid[thread]})` : `thread ${tid[thread]}`;
}

export function processName(capture: Capture, process: number): string {
	if (process === NONE || process >= capture.processes.n) return "process";
	const [program = "", ...rest] = capture.strings.get(capture.processes.get("command", process)).split(" ");
	return `pid ${capture.processes.get("pid", process)} · ${[program.split("/").pop(), ...rest].join(" ") || "no command"}`;
}

export function stepName(capture: Capture, step: Step): string {
	if (step.kind === "range") return `${seconds(step.from)} to ${seconds(step.to)}`;
	const verb = step.keep ? "only" : "without";
	switch (step.kind) {
		case "thread":
			return `${verb} ${step.id < capture.threads.n ? threadName(capture, step.id) : "?"}`;
		case "process":
			return `${verb} ${processName(capture, step.id)}`;
		case "function":
			return `${verb} ${functionName(capture, step.id)}`;
		case "module":
			return `${verb} ${capture.strings.get(step.id) || "?"}`;
	}
}

// "file.cpp:12" of a zone of C code; "" where that is not known.
export function whatPlace(capture: Capture, what: number): string {
	const file = capture.strings.get(capture.whats.file[what]);
	return file ? `${shortPath(file)}:${capture.whats.line[what]}` : "";
}

export function whatName(capture: Capture, what: number): string {
	const { name, fn } = capture.whats;
	return (name[what] ? capture.strings.get(name[what]) : "") || functionName(capture, fn[what]);
}
