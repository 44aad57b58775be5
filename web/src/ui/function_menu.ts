// SPDX-License-Identifier: Apache-2.0
// The verbs that a function has wherever it is shown.
import { KIND_PYTHON } from "../data/capture";
import { codeOf } from "../data/machine_code";
import type { App, MenuItem } from "./app_context";
import { functionName, moduleName } from "./names";

export function functionMenu(app: App, fn: number): MenuItem[] {
	const { capture, state, set } = app;
	const { functions } = capture;
	const module = functions.module[fn];
	const items: MenuItem[] = [
		{
			label: "Focus on it",
			hint: "its calls as the whole",
			run: () => set({ view: "flame", mode: "left", focus: fn, zoom: null }),
		},
		{
			label: "Callers and callees",
			hint: "sandwich",
			run: () => set({ view: "flame", mode: "sandwich", fn, zoom: null }),
		},
		{
			label: "Hide it",
			hint: "its time goes to the caller",
			run: () => hideFunction(app, fn),
		},
		{
			label: "Filter in",
			hint: "only stacks with it",
			run: () => set({ steps: [...state.steps, { kind: "function", keep: true, id: fn }], zoom: null }),
		},
		{
			label: "Filter out",
			hint: "only stacks without it",
			run: () => set({ steps: [...state.steps, { kind: "function", keep: false, id: fn }], zoom: null }),
		},
	];
	if (module)
		items.push(
			{
				label: `Filter in ${moduleName(capture, fn)}`,
				hint: "by module",
				run: () => set({ steps: [...state.steps, { kind: "module", keep: true, id: module }], zoom: null }),
			},
			{
				label: `Filter out ${moduleName(capture, fn)}`,
				hint: "by module",
				run: () => set({ steps: [...state.steps, { kind: "module", keep: false, id: module }], zoom: null }),
			},
		);
	if (functions.file[fn] && (functions.kind[fn] === KIND_PYTHON || hasFile(app, functions.file[fn])))
		items.push({
			label: "Show source",
			run: () => set({ view: "source", file: functions.file[fn], line: functions.line[fn], fn }),
		});
	if (codeOf(app.first, fn))
		items.push({
			label: "Show assembly",
			hint: "each instruction with its time",
			run: () => set({ view: "assembly", fn }),
		});
	items.push({ label: "Show in functions", run: () => set({ view: "functions", fn }) });
	items.push({
		label: "Copy name",
		run: () => void copy(app, functionName(capture, fn)),
	});
	return items;
}

// Only pictures of the tree have anything to hide it from.
export function hideFunction(app: App, fn: number): void {
	const { state, set, capture } = app;
	const view = state.view === "flame" || state.view === "graph" ? state.view : "flame";
	set({ view, hidden: [...new Set([...state.hidden, fn])], zoom: null });
	app.say(`${functionName(capture, fn)} is hidden; its time goes to its callers`);
}

async function copy(app: App, text: string): Promise<void> {
	try {
		await navigator.clipboard.writeText(text);
		app.say(`Copied: ${text.slice(0, 80)}`);
	} catch {
		app.say("This browser does not let the page copy; select the name and copy it by hand.");
	}
}

function hasFile(app: App, name: number): boolean {
	const names = app.capture.files.column("name");
	return names !== undefined && names.indexOf(name as never) >= 0;
}
