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
	hasDiff: boolean;
	live: LiveFeed | null; // of a program that runs and lets itself be watched
	isExact: boolean; // counted by the server for the filter's range and threads
	state: State;
	link: (patch: Partial<State>) => State; // the state that a change leads to
	set: (patch: Partial<State>, replace?: boolean) => void;
	source: Source;
	theme: Theme;
	metric: Metric;
	metrics: Metric[];
	steps: Step[]; // the filter, the chosen thread included
	openMenu: (menu: MenuRequest | null) => void;
	say: (text: string) => void; // to screen readers, and shortly on the screen
}

export interface MenuItem {
	label: string;
	hint?: string;
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
