// SPDX-License-Identifier: Apache-2.0
// What can be done with a thread: Hotspot's verbs, which its users know.
import type { Step } from "../data/filter";
import type { App, MenuItem } from "./app_context";

export function threadMenu(app: App, thread: number): MenuItem[] {
	const { state, set, capture } = app;
	const add = (step: Step) => set({ steps: [...state.steps, step], zoom: state.zoom });
	const process = capture.threads.process[thread];
	const items: MenuItem[] = [
		{ label: "Filter in on thread", run: () => add({ kind: "thread", keep: true, id: thread }) },
		{ label: "Filter out thread", run: () => add({ kind: "thread", keep: false, id: thread }) },
		{
			label: "Filter by time of thread",
			run: () =>
				add({
					kind: "range",
					from: Math.max(0, capture.threads.start[thread]),
					to: capture.threads.end[thread] || capture.end,
				}),
		},
		{ label: "Flame graph of this thread", run: () => set({ view: "flame", thread, zoom: null }) },
		{ label: "In the order of time", run: () => set({ view: "flame", mode: "time", thread, zoom: null }) },
	];
	if (capture.processes.n > 1)
		items.push(
			{ label: "Filter in on process", run: () => add({ kind: "process", keep: true, id: process }) },
			{ label: "Filter out process", run: () => add({ kind: "process", keep: false, id: process }) },
		);
	if (state.steps.length > 0)
		items.push(
			{ label: "Undo last filter", run: () => set({ steps: state.steps.slice(0, -1) }) },
			{ label: "Reset filter", run: () => set({ steps: [] }) },
		);
	return items;
}
