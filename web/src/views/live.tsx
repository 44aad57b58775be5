// SPDX-License-Identifier: Apache-2.0
// Live: what the program does now. The picture follows time until it is held or dragged back; the tables are of the last seconds.
import { useEffect, useLayoutEffect, useReducer, useRef, useState } from "preact/hooks";
import { REPORT_KEYS } from "../data/classes";
import { bytes, count, seconds, share, shortPath } from "../data/format";
import { threadLabel, type LiveFeed, type LiveNow, type LivePlace } from "../data/live";
import { sampleCounts } from "../data/report";
import { heightOf, LABEL_PX, markUnder, paintLive, spanUnder, type LiveLook } from "../draw/live_painter";
import { useApp } from "../ui/app_context";
import { ClassBar, ClassLegend, Meter, Sparkline } from "../ui/bars";
import { StateLink } from "../ui/state_link";

const SPAN_S = 20; // that the picture shows
const SHOWN_LANES = 24;

const quoted = (name: string) => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

function Place({ at }: { at: LivePlace }) {
	return (
		<>
			<StateLink class="link" patch={{ view: "functions", search: quoted(at.name), fn: -1 }}>
				{at.name}
			</StateLink>{" "}
			<small>{at.file ? `${shortPath(at.file)}:${at.line}` : at.module !== at.name ? at.module : ""}</small>
		</>
	);
}

function Threads({ now }: { now: LiveNow }) {
	return (
		<section class="card">
			<h2>
				{count(now.threads_alive)} thread{now.threads_alive === 1 ? "" : "s"}
			</h2>
			<table class="table slim" aria-label="Threads now">
				<tbody>
					{now.threads.slice(0, 20).map((t) => (
						<tr>
							<td>
								{threadLabel(t)} <small>{t.state}</small>
							</td>
							<td class="number">
								<Meter value={t.cpu_s} whole={now.window_s}>
									{share(t.cpu_s, now.window_s)}
								</Meter>
							</td>
							<td>{t.at && <Place at={t.at} />}</td>
						</tr>
					))}
				</tbody>
			</table>
		</section>
	);
}

function Hot({ now }: { now: LiveNow }) {
	const whole = Math.max(now.window_s, 1e-9);
	return (
		<section class="card">
			<h2>Hot now</h2>
			<table class="table slim" aria-label="Hot functions now">
				<thead>
					<tr>
						<th scope="col">Function</th>
						<th scope="col" class="number" title="CPU time in itself, of one CPU">
							Self
						</th>
						<th scope="col" class="number" title="With all it calls">
							Total
						</th>
						{now.is_traced && (
							<th scope="col" class="number">
								Calls/s
							</th>
						)}
					</tr>
				</thead>
				<tbody>
					{now.functions.slice(0, 20).map((f) => (
						<tr>
							<td>
								<Place at={f} />
							</td>
							<td class="number">
								<Meter value={f.self_s} whole={whole}>
									{share(f.self_s, whole)}
								</Meter>
							</td>
							<td class="number">{share(f.total_s, whole)}</td>
							{now.is_traced && <td class="number">{count(f.calls / whole)}</td>}
						</tr>
					))}
				</tbody>
			</table>
		</section>
	);
}

function Zones({ now }: { now: LiveNow }) {
	if (now.zones.length === 0) return null;
	return (
		<section class="card">
			<h2>Zones</h2>
			<table class="table slim" aria-label="Zones now">
				<thead>
					<tr>
						<th scope="col">Zone</th>
						<th scope="col" class="number">
							Ended/s
						</th>
						<th scope="col" class="number">
							Mean
						</th>
						<th scope="col" class="number">
							Longest
						</th>
						<th scope="col" class="number">
							Open
						</th>
					</tr>
				</thead>
				<tbody>
					{now.zones.slice(0, 20).map((z) => (
						<tr>
							<td>{z.name}</td>
							<td class="number">{now.window_s > 0 ? (z.n / now.window_s).toFixed(1) : "–"}</td>
							<td class="number">{seconds(z.mean_s)}</td>
							<td class="number">{seconds(z.max_s)}</td>
							<td class="number">{z.open || ""}</td>
						</tr>
					))}
				</tbody>
			</table>
		</section>
	);
}

// A counter stays as it is until it is set anew.
function filled(values: (number | null)[]): number[] {
	let last = values.find((v) => v !== null) ?? 0;
	return values.map((v) => (last = v ?? last));
}

function Counters({ now }: { now: LiveNow }) {
	if (now.counters.length === 0) return null;
	return (
		<section class="card">
			<h2>Counters</h2>
			<table class="table slim" aria-label="Counters now">
				<tbody>
					{now.counters.map((c) => (
						<tr>
							<td>{c.name}</td>
							<td class="number">{+c.value.toPrecision(6)}</td>
							<td>
								<Sparkline values={filled(c.values)} label={`${c.name} over the last seconds`} />
							</td>
						</tr>
					))}
				</tbody>
			</table>
		</section>
	);
}

function Marks({ feed, until }: { feed: LiveFeed; until: number }) {
	const latest = feed.marks.filter((m) => m.t <= until).slice(-10);
	if (latest.length === 0) return null;
	return (
		<section class="card">
			<h2>Marks</h2>
			<table class="table slim" aria-label="Latest marks">
				<tbody>
					{latest.reverse().map((m) => (
						<tr>
							<td>{m.text}</td>
							<td class="number faint">{seconds(m.t)}</td>
						</tr>
					))}
				</tbody>
			</table>
		</section>
	);
}

function Picture({ feed, heldAt, hold }: { feed: LiveFeed; heldAt: number | null; hold: (at: number) => void }) {
	const { theme } = useApp();
	const canvas = useRef<HTMLCanvasElement>(null);
	const [width, setWidth] = useState(800);
	const [tip, setTip] = useState<{ x: number; y: number; text: string } | null>(null);
	const drag = useRef<{ x: number; at: number } | null>(null);
	const newest = feed.now?.elapsed_s ?? 0;
	const to = Math.max(heldAt ?? newest, SPAN_S); // from the left at first
	const lanes = feed.shownLanes(SHOWN_LANES);
	const look: LiveLook = { from: to - SPAN_S, to, width, theme, lanes };
	const height = heightOf(lanes);
	useEffect(() => {
		const box = canvas.current?.parentElement;
		if (!box) return undefined;
		const observer = new ResizeObserver(() => setWidth(Math.max(300, box.clientWidth)));
		observer.observe(box);
		return () => observer.disconnect();
	}, []);
	useLayoutEffect(() => {
		const element = canvas.current;
		const context = element?.getContext("2d", { alpha: false });
		if (!element || !context) return;
		const ratio = devicePixelRatio || 1;
		element.width = Math.round(width * ratio);
		element.height = Math.round(height * ratio);
		context.setTransform(ratio, 0, 0, ratio, 0, 0);
		paintLive(context, feed, look, height);
	});
	const move = (e: PointerEvent) => {
		const box = canvas.current?.getBoundingClientRect();
		if (!box) return;
		if (drag.current) {
			const by = ((drag.current.x - e.clientX) / (width - LABEL_PX)) * SPAN_S;
			if (Math.abs(e.clientX - drag.current.x) > 3 || heldAt !== null)
				hold(Math.min(newest, Math.max(Math.min(SPAN_S, newest), drag.current.at + by)));
			return;
		}
		const [x, y] = [e.clientX - box.left, e.clientY - box.top];
		const span = spanUnder(feed, look, x, y);
		const length = span ? (Number.isFinite(span.end) ? seconds(span.end - span.begin) : "still open") : "";
		const text = span ? `${span.name}, ${length}` : markUnder(feed, look, x, y);
		setTip(text ? { x: e.clientX, y: e.clientY, text } : null);
	};
	return (
		<div class="live-picture">
			<canvas
				ref={canvas}
				style={{ width: `${width}px`, height: `${height}px` }}
				role="img"
				aria-label="What each thread did in the last seconds; the table of threads says the same"
				onPointerDown={(e) => {
					drag.current = { x: e.clientX, at: to };
					e.currentTarget.setPointerCapture(e.pointerId);
				}}
				onPointerMove={move}
				onPointerUp={() => (drag.current = null)}
				onPointerLeave={() => setTip(null)}
			/>
			{tip && (
				<div class="tip" style={{ left: `${Math.min(tip.x + 14, innerWidth - 330)}px`, top: `${tip.y + 16}px` }}>
					<b>{tip.text}</b>
				</div>
			)}
		</div>
	);
}

function stateText(feed: LiveFeed, now: LiveNow): string {
	if (feed.isLost && !feed.isEnded) return "connection lost, trying again";
	if (!feed.isEnded) return `running for ${seconds(now.elapsed_s)}`;
	const how =
		now.exit.code !== null
			? ` with exit code ${now.exit.code}`
			: now.exit.signal !== null
				? ` by signal ${now.exit.signal}`
				: "";
	return `ended${how} after ${seconds(now.elapsed_s)}`;
}

export function LiveView() {
	const { live } = useApp();
	const [, redraw] = useReducer((n: number) => n + 1, 0);
	const [held, setHeld] = useState<{ at: number; now: LiveNow } | null>(null);
	useEffect(() => live?.subscribe(() => redraw(0)), [live]);
	const toggle = () => setHeld((h) => (h || !live?.now ? null : { at: live.now.elapsed_s, now: live.now }));
	useEffect(() => {
		const onKey = (e: KeyboardEvent) => {
			const target = e.target as HTMLElement;
			if (e.key !== " " || target.closest("input, select, textarea, button, a, dialog, .menu")) return;
			e.preventDefault();
			toggle();
		};
		addEventListener("keydown", onKey);
		return () => removeEventListener("keydown", onKey);
	}, [live]);
	if (!live?.now) return <p class="nothing">Waiting for the program…</p>;
	const now = held?.now ?? live.now; // the tables stand still together with the picture
	const values = REPORT_KEYS.map((k) => now.time[k] ?? 0);
	return (
		<section class="view live-view" aria-label="Live">
			<header class="bar">
				<b role="status">{stateText(live, now)}</b>
				<span class="faint">
					Python {now.python}, process {now.pid}
					{now.rss_bytes > 0 ? `, ${bytes(now.rss_bytes)}` : ""}, {count(sampleCounts(now)?.running ?? 0)} samples
					{now.trace_events > 0 ? `, ${count(now.trace_events)} events` : ""}
				</span>
				<span class="space" />
				<button onClick={toggle} aria-pressed={held !== null} title="Space">
					{held ? "Follow" : "Hold"}
				</button>
			</header>
			<Picture
				feed={live}
				heldAt={held?.at ?? null}
				hold={(at) => live.now && setHeld((h) => ({ at, now: h?.now ?? (live.now as LiveNow) }))}
			/>
			<div class="live-times">
				<ClassBar values={values} />
				<ClassLegend values={values} />
				<span class="faint">in the last {seconds(now.window_s)}</span>
			</div>
			<div class="live-cards">
				<Hot now={now} />
				<Threads now={now} />
				<Zones now={now} />
				<Counters now={now} />
				<Marks feed={live} until={now.elapsed_s} />
			</div>
		</section>
	);
}
