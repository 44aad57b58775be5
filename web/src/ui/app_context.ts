// SPDX-License-Identifier: Apache-2.0
// What every view is given.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Capture } from "../data/capture";
import type { Step } from "../data/filter";
import type { LiveFeed } from "../data/live";
import type { Metric } from "../data/metrics";
import type { Theme } from "../draw/colour";
import type { Source } from "../state/source";
import type { State } from "../state/state";

export interface App {
	capture: Capture; // the one that the view is about
	first: Capture; // the one that was opened, which is not the comparison
	diff: Capture | null; // the comparison with another one
	live: LiveFeed | null; // of a program that runs and lets itself be watched
	isExact: boolean; // counted by the server for the filter's range and threads
	state: State;
	link: (patch: Partial<State>) => State; // the state that a change leads to
	set: (patch: Partial<State>, isMovement?: boolean | "goes on") => void;
	go: (place: State) => void; // to another place, whatever the state is now
	keep: (bookmark?: number) => void; // asks for a name and a note of this place, or of a bookmark
	source: Source;
	theme: Theme;
	metric: Metric;
	metrics: Metric[];
	whole: number; // of the metric, all that the filter leaves: 100%
	cpu: number; // the same of CPU time, for tables that always show it
	steps: Step[]; // the filter, the chosen thread included, as far as the capture is not counted for it already
	filter: Step[]; // all of it, for the one that was opened
	openMenu: (menu: MenuRequest | null) => void;
	say: (text: string, isQuiet?: boolean) => void; // to screen readers, and shortly on the screen unless quiet
}

export interface MenuItem {
	label: string;
	hint?: string;
	isMinor?: boolean; // a word about the item above it
	run: () => void;
}

export interface MenuRequest {
	x: number;
	y: number;
	title: string;
	items: MenuItem[];
}

export const AppContext = createContext<App | null>(null);

export function useApp(): App {
	const app = useContext(AppContext);
	if (!app) throw new Error("no app");
	return app;
}
