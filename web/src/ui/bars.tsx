// SPDX-License-Identifier: Apache-2.0
// Small pictures inside text and tables.
import { CLASS_NAMES, CLASS_NO_CPU, N_CLASSES } from "../data/classes";
import { seconds, share } from "../data/format";
import { classColour, css } from "../draw/colour";
import { useApp } from "./app_context";

// Of `whole` where there is more than the values, else of their sum.
export function ClassBar({ values, whole, isTall }: { values: ArrayLike<number>; whole?: number; isTall?: boolean }) {
	const { theme } = useApp();
	let sum = 0;
	for (let c = 0; c < N_CLASSES; c++) sum += values[c] ?? 0;
	sum = Math.max(sum, whole ?? 0);
	const label = CLASS_NAMES.map((name, c) => ((values[c] ?? 0) > 0 ? `${name} ${seconds(values[c])}` : ""))
		.filter(Boolean)
		.join(", ");
	return (
		<div class={isTall ? "class-bar tall" : "class-bar"} role="img" aria-label={label} title={label}>
			{sum > 0 &&
				CLASS_NAMES.map((_, c) =>
					values[c] > 0 ? (
						<i style={{ width: `${(100 * values[c]) / sum}%`, background: css(classColour(c, theme)) }} />
					) : null,
				)}
		</div>
	);
}

export function ClassLegend({ values, whole }: { values?: ArrayLike<number>; whole?: number }) {
	const { theme, capture } = useApp();
	const isKnown = (c: number) => c !== CLASS_NO_CPU || capture.threads.noCpu.some((s) => s > 0);
	return (
		<ul class="legend">
			{CLASS_NAMES.map((name, c) =>
				(values ? values[c] > 0 : isKnown(c)) ? (
					<li>
						<i style={{ background: css(classColour(c, theme)) }} /> {name}
						{values && (
							<>
								{" "}
								<b>{seconds(values[c])}</b> {whole ? <small>{share(values[c], whole)}</small> : null}
							</>
						)}
					</li>
				) : null,
			)}
		</ul>
	);
}

// A value with a bar behind it.
export function Meter({
	value,
	whole,
	children,
}: {
	value: number;
	whole: number;
	children: preact.ComponentChildren;
}) {
	const width = whole > 0 ? Math.min(100, Math.max(0, (100 * value) / whole)) : 0;
	return (
		<span class="meter">
			<i style={{ width: `${width}%` }} />
			<span>{children}</span>
		</span>
	);
}

export function Sparkline({ values, label }: { values: ArrayLike<number>; label: string }) {
	let top = 0;
	for (let i = 0; i < values.length; i++) top = Math.max(top, values[i]);
	if (!(top > 0)) return null;
	const points: string[] = [];
	for (let i = 0; i < values.length; i++)
		points.push(`${((i * 64) / (values.length - 1)).toFixed(1)},${(15 - (14 * values[i]) / top).toFixed(1)}`);
	return (
		<svg class="sparkline" viewBox="0 0 64 16" width="64" height="16" role="img" aria-label={label}>
			<title>{label}</title>
			<polygon points={`0,16 ${points.join(" ")} 64,16`} />
		</svg>
	);
}
