// SPDX-License-Identifier: Apache-2.0
// From the state to what the flame graph draws. Each step is kept until what it depends on changes.
import { useMemo } from "preact/hooks";
import { busiestThread, lifeOf } from "../data/clock";
import { rangeOf } from "../data/filter";
import { dominantClasses } from "../data/dominant";
import { leftHeavy, timeOrder, withoutRoot, type Layout } from "../data/layout";
import { matcherOf, matchingFunctions, matchTree, type TreeMatches } from "../data/search";
import { buildCallers, buildTree, type Tree, type TreeOptions } from "../data/tree";
import { selfWeights } from "../data/weights";
import { changePixels, classPixels, modulePixels } from "../draw/colour";
import type { App } from "../ui/app_context";

export interface FlameData {
	tree: Tree;
	layout: Layout;
	pixels: Uint32Array;
	matches: TreeMatches | null;
}

export function optionsOf(app: App): TreeOptions {
	const { state } = app;
	return {
		collapseRecursion: state.recursion,
		onlyMine: state.mine,
		foldLibraries: state.fold,
		showPlumbing: state.plumbing,
		byLine: state.byLine,
		hidden: state.hidden,
		focus: state.focus,
	};
}

export function useSelf(app: App): Float64Array {
	return useMemo(
		() => selfWeights(app.capture, app.metric, app.steps),
		[app.capture, app.metric.id, JSON.stringify(app.steps)],
	);
}

export function usePixels(app: App, tree: Tree): Uint32Array {
	const { capture, state, theme, metric, steps } = app;
	const colour = state.colour === "change" && !tree.base ? "module" : state.colour;
	return useMemo(() => {
		if (colour === "change") return changePixels(tree, theme);
		if (colour === "class" && tree.of.length > 0)
			return classPixels(dominantClasses(capture, tree, steps, metric.classes), theme);
		return modulePixels(capture, tree, theme);
	}, [tree, colour, theme]);
}

export function useMatches(app: App, tree: Tree): TreeMatches | null {
	const functions = useMemo(() => {
		const matcher = matcherOf(app.state.search);
		return matcher ? matchingFunctions(app.capture, matcher) : null;
	}, [app.capture, app.state.search]);
	return useMemo(() => (functions ? matchTree(tree, functions) : null), [tree, functions]);
}

export function useFlame(app: App): FlameData {
	const { capture, state, steps } = app;
	const self = useSelf(app);
	const key = JSON.stringify(optionsOf(app));
	const tree = useMemo(() => {
		const base = capture.isDiff ? selfWeights(capture, app.metric, steps, true) : null;
		return buildTree(capture, self, optionsOf(app), base);
	}, [self, key]);
	const thread = busiestThread(capture, state.thread);
	const isTimed = state.mode === "time" && capture.samples !== null && !app.metric.column;
	const layout = useMemo(() => {
		if (!isTimed || !capture.samples) return leftHeavy(tree);
		const wanted = new Uint8Array(256);
		for (const c of app.metric.classes) wanted[c] = 1;
		const range = rangeOf(steps);
		const layout = timeOrder(tree, capture.samples, thread, range, wanted, 3 / (capture.report.rate_hz || 1000));
		const [from, to] = range ?? lifeOf(capture, thread);
		return to > from ? { ...layout, from, to } : layout;
	}, [tree, isTimed, isTimed ? thread : -1]);
	return { tree, layout, pixels: usePixels(app, tree), matches: useMatches(app, tree) };
}

export function useSandwich(app: App, fn: number): { callers: FlameData; callees: FlameData } {
	const { capture } = app;
	const self = useSelf(app);
	const key = JSON.stringify({ ...optionsOf(app), focus: -1, fn });
	const callers = useMemo(() => buildCallers(capture, self, fn, optionsOf(app)), [self, key]);
	const callees = useMemo(() => buildTree(capture, self, { ...optionsOf(app), focus: fn }), [self, key]);
	const above = useMemo(() => withoutRoot(leftHeavy(callers)), [callers]);
	const below = useMemo(() => withoutRoot(leftHeavy(callees)), [callees]);
	return {
		callers: { tree: callers, layout: above, pixels: usePixels(app, callers), matches: useMatches(app, callers) },
		callees: { tree: callees, layout: below, pixels: usePixels(app, callees), matches: useMatches(app, callees) },
	};
}
