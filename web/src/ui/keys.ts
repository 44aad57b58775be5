// SPDX-License-Identifier: Apache-2.0
// Keys that work wherever the focus is, unless it is where one types.
import { useEffect, useRef } from "preact/hooks";
import type { ViewName } from "../state/state";
import type { App } from "./app_context";
import { availableViews, hasSearch } from "./view_list";

const GO: Record<string, ViewName> = {
	s: "summary",
	e: "tree",
	f: "flame",
	t: "timeline",
	o: "source",
	n: "functions",
	z: "zones",
	c: "graph",
	d: "diff",
	l: "live",
};

function isTyping(target: HTMLElement): boolean {
	if (target instanceof HTMLInputElement) return !/^(checkbox|radio|button)$/.test(target.type);
	return /^(SELECT|TEXTAREA)$/.test(target.tagName) || target.closest("dialog, .menu") !== null;
}

// Keys of the picture. In a table and in code, arrows are for scrolling; on a checkbox, Space is for it.
function isForPicture(key: string, target: HTMLElement): boolean {
	if (/^Arrow/.test(key)) return target.closest("tr, .code, .table-box") === null;
	return /^(w|a|s|d|0|\+|-|=)$/.test(key);
}

// The thread after or before the chosen one, by CPU time.
function stepThread({ state, set, capture }: App, by: number): void {
	const { n, cpu } = capture.threads;
	const order = Array.from({ length: n }, (_, t) => t).sort((a, b) => cpu[b] - cpu[a]);
	if (n === 0) return;
	const at = order.indexOf(state.thread);
	set({ thread: order[(at + by + n + (at < 0 && by < 0 ? 1 : 0)) % n], zoom: null });
}

const ACTIONS: Record<string, (app: App) => void> = {
	"1": ({ set }) => set({ view: "flame", mode: "time", zoom: null }),
	"2": ({ set }) => set({ view: "flame", mode: "left", zoom: null }),
	"3": ({ set }) => set({ view: "flame", mode: "sandwich", zoom: null }),
	r: ({ set, state }) => set({ recursion: !state.recursion, zoom: null }),
	n: (app) => stepThread(app, 1),
	p: (app) => stepThread(app, -1),
	t: () => document.getElementById("thread-picker")?.focus(),
	b: ({ keep }) => keep(),
	"/": () => dispatchEvent(new Event("fathom-search")),
	u: ({ set, state }) => state.steps.length > 0 && set({ steps: state.steps.slice(0, -1), zoom: null }),
};

// A choice made with the mouse gives the keys back to the picture; one made with keys keeps its place.
function useFocusGivenBack(): void {
	useEffect(() => {
		let isMouse = false;
		const onPointer = () => (isMouse = true);
		const onKey = () => (isMouse = false);
		const onChange = (e: Event) => {
			if (isMouse && e.target instanceof HTMLSelectElement) e.target.blur();
		};
		addEventListener("pointerdown", onPointer, true);
		addEventListener("keydown", onKey, true);
		addEventListener("change", onChange);
		return () => {
			removeEventListener("pointerdown", onPointer, true);
			removeEventListener("keydown", onKey, true);
			removeEventListener("change", onChange);
		};
	}, []);
}

export function useKeys(app: App, openHelp: () => void): void {
	const latest = useRef(app);
	latest.current = app;
	const isGoing = useRef(false);
	useFocusGivenBack();
	useEffect(() => {
		const onKey = (e: KeyboardEvent) => {
			const now = latest.current;
			const target = e.target as HTMLElement;
			if ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === "f" && hasSearch(now)) {
				e.preventDefault();
				dispatchEvent(new Event("fathom-search"));
				return;
			}
			if (e.ctrlKey || e.metaKey || e.altKey || isTyping(target)) return;
			if (isGoing.current) {
				isGoing.current = false;
				const view = GO[e.key];
				if (view && availableViews(now).includes(view)) now.set({ view });
			} else if (e.key === "g") isGoing.current = true;
			else if (e.key === "?") openHelp();
			else if (Object.hasOwn(ACTIONS, e.key)) ACTIONS[e.key](now);
			else {
				if (!isForPicture(e.key, target)) return;
				dispatchEvent(new CustomEvent("fathom-key", { detail: e }));
				if (now.state.view !== "flame" && now.state.view !== "timeline") return;
			}
			e.preventDefault();
		};
		addEventListener("keydown", onKey);
		return () => removeEventListener("keydown", onKey);
	}, []);
}
