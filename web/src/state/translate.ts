// SPDX-License-Identifier: Apache-2.0
// Two captures number their functions and names differently. When a view of one leads to a view of the other, what the
// state points at is looked up there by name; what is not there is dropped.
import type { Capture } from "../data/capture";
import type { Step } from "../data/filter";
import { placeOf, readHash, type State } from "./state";

function keyOf(capture: Capture, fn: number): string {
	const { functions, strings } = capture;
	return JSON.stringify([
		strings.get(functions.fullName[fn]) || strings.get(functions.name[fn]),
		strings.get(functions.file[fn]),
		strings.get(functions.library[fn]),
	]);
}

function functionIn(to: Capture, from: Capture, fn: number): number {
	if (fn < 0 || fn >= from.functions.n) return -1;
	const wanted = keyOf(from, fn);
	for (let f = 0; f < to.functions.n; f++) if (keyOf(to, f) === wanted) return f;
	return -1;
}

// Zones are known as the program knows them in both: by kind, name and the last part of their file.
function zoneKey({ whats, functions, strings }: Capture, what: number): string {
	const [fn, name] = [whats.fn[what], whats.name[what]];
	const isOfFunction = fn < functions.n;
	const file = strings.get(isOfFunction ? functions.file[fn] : whats.file[what]);
	const full = isOfFunction ? strings.get(functions.fullName[fn]) || strings.get(functions.name[fn]) : "";
	return JSON.stringify([whats.kind[what], strings.get(name) || full, file.slice(file.lastIndexOf("/") + 1)]);
}

function zoneIn(to: Capture, from: Capture, what: number): number {
	if (what < 0 || what >= from.whats.n) return -1;
	const wanted = zoneKey(from, what);
	for (let w = 0; w < to.whats.n; w++) if (zoneKey(to, w) === wanted) return w;
	return -1;
}

function stringIn(to: Capture, text: string, column: Uint32Array): number {
	for (let i = 0; i < column.length; i++) if (to.strings.get(column[i]) === text) return column[i];
	return -1;
}

// With `isSame` the two are one program's, earlier and later: threads, processes and times mean the same in both.
export function translate(state: State, from: Capture, to: Capture, isSame = false): State {
	const steps: Step[] = [];
	for (const s of state.steps) {
		if (s.kind !== "function" && s.kind !== "module") {
			if (isSame) steps.push(s);
			continue;
		}
		const id =
			s.kind === "function" ? functionIn(to, from, s.id) : stringIn(to, from.strings.get(s.id), to.functions.module);
		if (id >= 0) steps.push({ ...s, id });
	}
	return {
		...state,
		steps,
		thread: isSame ? state.thread : -1,
		zoom: isSame ? state.zoom : null,
		time: isSame ? state.time : null,
		frame: -1,
		root: 0,
		fn: functionIn(to, from, state.fn),
		what: isSame ? state.what : zoneIn(to, from, state.what),
		other: isSame ? state.other : zoneIn(to, from, state.other),
		focus: functionIn(to, from, state.focus),
		hidden: state.hidden.map((f) => functionIn(to, from, f)).filter((f) => f >= 0),
		// Of two different captures each bookmark stays with the one that it was made in.
		kept: isSame
			? state.kept.map((b) => ({ ...b, place: placeOf(translate(readHash(b.place), from, to, true)) }))
			: state.kept,
		file: state.file >= 0 ? stringIn(to, from.strings.get(state.file), to.functions.file) : -1,
	};
}
