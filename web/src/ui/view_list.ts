// SPDX-License-Identifier: Apache-2.0
// Which views there are, for a capture.
import type { ViewName } from "../state/state";
import type { App } from "./app_context";

export const VIEW_NAMES: Record<ViewName, string> = {
	tree: "Call tree",
	summary: "Summary",
	flame: "Flame graph",
	timeline: "Timeline",
	source: "Source",
	functions: "Functions",
	assembly: "Assembly",
	zones: "Zones",
	graph: "Call graph",
	diff: "Diff",
	live: "Live",
};

export function availableViews(app: App): ViewName[] {
	const { first: capture } = app;
	const has: Record<ViewName, boolean> = {
		tree: true,
		summary: true,
		flame: true,
		timeline: capture.samples !== null || capture.zones !== null || capture.memory.n > 0,
		source: capture.files.n > 0 || capture.lines.n > 0,
		functions: true,
		assembly: capture.codes.length > 0,
		zones: capture.zones !== null,
		graph: true,
		diff: app.diff !== null,
		live: app.live !== null,
	};
	return (Object.keys(has) as ViewName[]).filter((v) => has[v]);
}

// Where the run stands above the view: not where the view is about another time, or two runs.
export function hasOverview({ state, first, capture, live }: App): boolean {
	const hasData = first.samples !== null || first.memory.n > 0;
	return hasData && !capture.isDiff && !(state.view === "live" && live !== null);
}

// Where two captures can stand beside each other, and one of them alone.
export function canCompare({ state, diff }: App): boolean {
	if (diff === null) return false;
	return (
		["tree", "functions", "source", "timeline"].includes(state.view) || (state.view === "zones" && diff.durations.n > 0)
	);
}

// Where there is something to find. Elsewhere the browser's own search does it.
export function hasSearch({ state }: App): boolean {
	if (state.view === "graph") return state.drawing !== "sunburst";
	return ["tree", "flame", "functions", "assembly", "zones", "source", "diff"].includes(state.view);
}
