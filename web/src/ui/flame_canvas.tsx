// SPDX-License-Identifier: Apache-2.0
// The chart as a component.
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { amount, share } from "../data/format";
import { oklch, pixel } from "../draw/colour";
import { FlameChart, type ChartColours } from "../draw/flame_chart";
import type { FlameData } from "../views/flame_data";
import { useApp } from "./app_context";
import { functionMenu } from "./function_menu";
import { nodeName } from "./names";

interface Props {
	data: FlameData;
	label: string;
	isUp: boolean;
	selected: number;
	keepsZoom?: boolean; // the zoom is part of the link
	onSelect: (node: number) => void;
	onWalk?: (node: number) => void;
	onHover: (node: number) => void;
	chartRef?: (chart: FlameChart | null) => void;
}

export function FlameCanvas({ data, label, isUp, selected, keepsZoom, onSelect, onWalk, onHover, chartRef }: Props) {
	const app = useApp();
	const canvas = useRef<HTMLCanvasElement>(null);
	const chart = useRef<FlameChart | null>(null);
	const shown = useRef<unknown>(null);
	const colours: ChartColours = useMemo(() => {
		const isLight = app.theme === "light";
		return {
			background: pixel(isLight ? [255, 255, 255] : oklch(0.21, 0.008, 250)),
			outline: pixel(isLight ? oklch(0.55, 0.18, 250) : oklch(0.72, 0.15, 250)),
			text: isLight ? "#16202b" : "#f3f6f9",
			textFaded: isLight ? "#8a94a0" : "#7c8794",
		};
	}, [app.theme]);
	const events = {
		label: (node: number) => nodeName(app.capture, data.tree, node, app.state.byLine),
		onHover,
		onSelect,
		onWalk: (node: number) => {
			(onWalk ?? onSelect)(node);
			if (node < 0) return;
			const total = data.tree.total[node];
			app.say(`${events.label(node)}, ${amount(total, app.metric.unit)}, ${share(total, app.whole)}`, true);
		},
		onZoom: (zoom: [number, number] | null) => {
			if (keepsZoom) app.set({ zoom }, true);
		},
		onMenu: (node: number, x: number, y: number) => {
			if (node > 0)
				app.openMenu({
					x,
					y,
					title: nodeName(app.capture, data.tree, node, false),
					items: functionMenu(app, data.tree.fn[node]),
				});
		},
	};
	const picture = () => ({
		layout: data.layout,
		pixels: data.pixels,
		matches: data.matches?.mask ?? null,
		selected,
		hovered: -1,
		isUp,
	});
	// Layout effects: the chart is what the state says before the next key comes, which may be before the next frame is drawn.
	useLayoutEffect(() => {
		if (!canvas.current) return undefined;
		const made = new FlameChart(canvas.current, picture(), colours, events);
		chart.current = made;
		shown.current = data.layout;
		if (keepsZoom) made.zoom = app.state.zoom;
		chartRef?.(made);
		return () => {
			chartRef?.(null);
			made.destroy();
			chart.current = null;
		};
	}, []);
	useLayoutEffect(() => {
		const made = chart.current;
		if (!made) return;
		made.events = events;
		made.show(picture(), colours, shown.current === data.layout);
		if (shown.current !== data.layout && keepsZoom) made.zoom = app.state.zoom;
		shown.current = data.layout;
	}, [data.layout, data.pixels, colours, isUp]);
	useLayoutEffect(() => {
		if (!chart.current) return;
		chart.current.events = events;
		chart.current.mark(selected, data.matches?.mask ?? null);
	});
	// A link or Back changed the zoom.
	useLayoutEffect(() => {
		const made = chart.current;
		if (!made || !keepsZoom) return;
		const now = made.zoom;
		const then = app.state.zoom;
		if (JSON.stringify(now?.map((v) => v.toFixed(7))) !== JSON.stringify(then?.map((v) => v.toFixed(7))))
			made.zoom = then;
	}, [app.state.zoom]);
	const total = data.tree.total[0] ?? 0;
	const described = `${label}: ${amount(total, app.metric.unit)} in ${data.tree.n - 1} frames${data.matches ? `, ${share(data.matches.weight, app.whole)} match the search` : ""}. Enter and the arrow keys walk the frames; the same numbers are a table in Functions.`;
	return (
		<canvas
			class="chart"
			ref={canvas}
			tabIndex={0}
			role="application"
			aria-roledescription="flame graph"
			aria-label={described}
			onKeyDown={(e) => {
				if (!e.ctrlKey && !e.metaKey && !e.altKey && chart.current?.key(e)) {
					e.preventDefault();
					e.stopPropagation();
				}
			}}
		/>
	);
}
