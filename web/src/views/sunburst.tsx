// SPDX-License-Identifier: Apache-2.0
// The call tree as a sunburst: a click makes a frame the middle, a click on the middle goes back out.
import type { ComponentType } from "preact";
import { useMemo, useState } from "preact/hooks";
import { amount, share } from "../data/format";
import { arcsOf, type Arc } from "../data/rings";
import { buildTree, type Tree } from "../data/tree";
import type { App } from "../ui/app_context";
import { functionMenu } from "../ui/function_menu";
import { functionPlace, nodeName } from "../ui/names";
import { optionsOf, usePixels, useSelf } from "./flame_data";

const DEPTH = 12;
const LEAST = 0.001;
const INNER = 62;

// Rings get thinner outwards, so that deep recursion does not shrink the part one reads.
const radiusOf = (depth: number) => INNER + 52 * depth ** 0.72;

function cssOf(pixel: number): string {
	return `rgb(${pixel & 255} ${(pixel >>> 8) & 255} ${(pixel >>> 16) & 255})`;
}

function arcPath({ from, to, depth }: Arc): string {
	const r0 = radiusOf(depth - 1);
	const r1 = radiusOf(depth) - 1;
	const a0 = from * 2 * Math.PI - Math.PI / 2;
	const a1 = Math.min(to, from + 0.99999) * 2 * Math.PI - Math.PI / 2;
	const point = (r: number, a: number) => `${(r * Math.cos(a)).toFixed(2)},${(r * Math.sin(a)).toFixed(2)}`;
	const large = to - from > 0.5 ? 1 : 0;
	return `M${point(r0, a0)}L${point(r1, a0)}A${r1},${r1} 0 ${large} 1 ${point(r1, a1)}L${point(r0, a1)}A${r0},${r0} 0 ${large} 0 ${point(r0, a0)}z`;
}

const LETTER = 6.2;
const LEAST_LETTERS = 4;

// A name along its arc, on a line that is read from left to right: in the lower half it runs the other way round.
function labelOf({ from, to, depth }: Arc, name: string): { path: string; text: string } | null {
	const thick = radiusOf(depth) - radiusOf(depth - 1);
	const middle = (from + to) / 2;
	const isLower = middle > 0.25 && middle < 0.75;
	const r = (radiusOf(depth) + radiusOf(depth - 1)) / 2 + (isLower ? 3.5 : -4);
	const letters = Math.floor((Math.min(to - from, 0.5) * 2 * Math.PI * r - 8) / LETTER);
	if (thick < 13 || letters < LEAST_LETTERS) return null;
	const text = name.length > letters ? `${name.slice(0, letters - 1)}…` : name;
	const half = Math.min((to - from) / 2, 0.25);
	const angle = (turn: number) => turn * 2 * Math.PI - Math.PI / 2;
	const point = (turn: number) => `${(r * Math.cos(angle(turn))).toFixed(2)},${(r * Math.sin(angle(turn))).toFixed(2)}`;
	const [a, b] = isLower ? [middle + half, middle - half] : [middle - half, middle + half];
	return { path: `M${point(a)}A${r},${r} 0 0 ${isLower ? 0 : 1} ${point(b)}`, text };
}

function Controls({ app, root, Switch }: { app: App; root: number; Switch: ComponentType<{ app: App }> }) {
	const { state, set } = app;
	const toggle = (key: "mine" | "fold", label: string) => (
		<label class="toggle">
			<input type="checkbox" checked={state[key]} onChange={(e) => set({ [key]: e.currentTarget.checked, root: 0 })} />{" "}
			{label}
		</label>
	);
	return (
		<div class="controls">
			<Switch app={app} />
			{root > 0 && <button onClick={() => set({ root: 0 })}>Whole program</button>}
			{toggle("mine", "Only my code")}
			{toggle("fold", "Fold libraries")}
			<span class="faint">
				Click a frame to make it the middle, the middle to go back out. {DEPTH} levels, from 0.1% up.
			</span>
		</div>
	);
}

interface ArcProps {
	app: App;
	tree: Tree;
	arc: Arc;
	colour: string;
	isOn: boolean;
	onEnter: () => void;
}

function ArcShape({ app, tree, arc, colour, isOn, onEnter }: ArcProps) {
	return (
		<path
			d={arcPath(arc)}
			fill={colour}
			class={isOn ? "arc on" : "arc"}
			onPointerEnter={onEnter}
			onClick={() => app.set({ root: arc.node })}
			onContextMenu={(e) => {
				e.preventDefault();
				const title = nodeName(app.capture, tree, arc.node, false);
				app.openMenu({ x: e.clientX, y: e.clientY, title, items: functionMenu(app, tree.fn[arc.node]) });
			}}
		/>
	);
}

function ArcLabel({ arc, name }: { arc: Arc; name: string }) {
	const label = labelOf(arc, name);
	if (!label) return null;
	return (
		<g>
			<path id={`arc-${arc.node}`} d={label.path} fill="none" />
			<text class="along" text-anchor="middle">
				<textPath href={`#arc-${arc.node}`} startOffset="50%">
					{label.text}
				</textPath>
			</text>
		</g>
	);
}

function FramePanel({ app, tree, at }: { app: App; tree: Tree; at: number }) {
	const { capture, metric, set, whole } = app;
	const stack: number[] = [];
	for (let node = at, k = 0; node > 0 && k < 30; node = tree.parent[node], k++) stack.unshift(node);
	const figures: [string, number][] = [
		["Total", tree.total[at]],
		["Self", tree.self[at]],
	];
	return (
		<aside class="chosen" aria-label="Frame">
			<h2>{nodeName(capture, tree, at, false)}</h2>
			{at > 0 && <p class="faint">{functionPlace(capture, tree.fn[at])}</p>}
			<dl class="facts">
				{figures.map(([name, value]) => (
					<div>
						<dt>{name}</dt>
						<dd>
							{amount(value, metric.unit)} <small>{share(value, whole)}</small>
						</dd>
					</div>
				))}
			</dl>
			<h3>Stack</h3>
			<ol class="calls">
				{stack.map((node) => (
					<li>
						<button class="link" onClick={() => set({ root: node })}>
							{nodeName(capture, tree, node, false)}
						</button>
					</li>
				))}
			</ol>
		</aside>
	);
}

export function Sunburst({ app, Switch }: { app: App; Switch: ComponentType<{ app: App }> }) {
	const { capture, state, set, metric } = app;
	const self = useSelf(app);
	const tree = useMemo(() => buildTree(capture, self, optionsOf(app)), [self, JSON.stringify(optionsOf(app))]);
	const pixels = usePixels(app, tree);
	const root = state.root > 0 && state.root < tree.n ? state.root : 0;
	const arcs = useMemo(() => arcsOf(tree, root, DEPTH, LEAST), [tree, root]);
	const [hovered, setHovered] = useState(-1);
	const deepest = arcs.reduce((d, a) => Math.max(d, a.depth), 1);
	const radius = radiusOf(deepest) + 6;
	return (
		<>
			<Controls app={app} root={root} Switch={Switch} />
			<div class="sunburst">
				<svg
					class="graph"
					viewBox={`${-radius} ${-radius} ${2 * radius} ${2 * radius}`}
					role="img"
					aria-label={`Sunburst of ${metric.label}; the same numbers are a table in Functions`}
					onPointerLeave={() => setHovered(-1)}
				>
					{arcs.map((a) => (
						<ArcShape
							key={a.node}
							app={app}
							tree={tree}
							arc={a}
							colour={cssOf(pixels[a.node])}
							isOn={a.node === hovered}
							onEnter={() => setHovered(a.node)}
						/>
					))}
					{arcs.map((a) => (
						<ArcLabel key={`name ${a.node}`} arc={a} name={nodeName(capture, tree, a.node, false)} />
					))}
					<circle r={INNER - 2} class="middle" onClick={() => root > 0 && set({ root: tree.parent[root] })} />
					<text text-anchor="middle" y="-4">
						{nodeName(capture, tree, root, false).slice(0, 14)}
					</text>
					<text text-anchor="middle" y="14" class="small">
						{amount(tree.total[root], metric.unit)}
					</text>
				</svg>
				<FramePanel app={app} tree={tree} at={hovered >= 0 && hovered < tree.n ? hovered : root} />
			</div>
		</>
	);
}
