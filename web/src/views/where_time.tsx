// SPDX-License-Identifier: Apache-2.0
// Where the time went: first the clock, by what the main thread did with it; then the CPU time of all threads; idle pools apart.
import { useMemo } from "preact/hooks";
import { clockOf, idleThreads, mainThread } from "../data/clock";
import { CLASS_GIL_WAIT, CLASS_WAIT, REPORT_KEYS } from "../data/classes";
import { rangeOf } from "../data/filter";
import { seconds, share } from "../data/format";
import { classTotals } from "../data/weights";
import type { App } from "../ui/app_context";
import { ClassBar, ClassLegend } from "../ui/bars";
import { threadName } from "../ui/names";
import { StateLink } from "../ui/state_link";

const WORTH_TELLING = 0.02; // of the clock

function OneThread({ app, thread }: { app: App; thread: number }) {
	const { capture, first, steps, state } = app;
	const range = rangeOf(state.steps);
	const clock = useMemo(
		() => clockOf(capture, thread, steps, first, range),
		[capture, first, thread, JSON.stringify(steps), JSON.stringify(range)],
	);
	const seen = clock.values.reduce((a, b) => a + b, 0);
	const whole = Math.max(clock.wall, seen);
	if (!(whole > 0)) return null;
	const rest = whole - seen;
	return (
		<section class="card wide" aria-label="Where the time went">
			<h2>
				Where the {seconds(whole)} went <small>what {threadName(capture, thread)} did, by the clock</small>
			</h2>
			<ClassBar values={clock.values} whole={whole} isTall />
			<ClassLegend values={clock.values} whole={whole} />
			{rest > WORTH_TELLING * whole && (
				<p class="faint">
					{seconds(rest)} ({share(rest, whole)}) were not seen.
				</p>
			)}
		</section>
	);
}

function AllThreads({ app, but }: { app: App; but: number }) {
	const { capture, steps } = app;
	const { time } = capture.report;
	const values = useMemo(
		() => (steps.length === 0 && time ? REPORT_KEYS.map((k) => time[k] ?? 0) : Array.from(classTotals(capture, steps))),
		[capture, JSON.stringify(steps)],
	);
	const range = rangeOf(app.state.steps);
	const idle = useMemo(
		() => idleThreads(capture, but, steps, app.first, range),
		[capture, but, JSON.stringify(steps), JSON.stringify(range)],
	);
	const cpu = values.slice(0, CLASS_GIL_WAIT);
	const waited = values[CLASS_GIL_WAIT] + values[CLASS_WAIT];
	const gil = values[CLASS_GIL_WAIT];
	return (
		<section class="card wide" aria-label="CPU time of all threads">
			<h2>
				{seconds(app.cpu)} of CPU time <small>in all {capture.threads.n} threads together</small>
			</h2>
			<ClassBar values={cpu} isTall />
			<ClassLegend values={cpu} whole={app.cpu} />
			{waited > 0 && (
				<p class="faint waited">
					Threads waited {seconds(waited)} in sum{gil > 0 && `, ${seconds(gil)} of it for the GIL`}
					{idle.n > 0 && `; ${idle.n} that did next to nothing else waited ${seconds(idle.waited)} of it`}.{" "}
					<StateLink class="link" patch={{ view: "timeline" }}>
						Timeline
					</StateLink>
				</p>
			)}
		</section>
	);
}

export function WhereTime({ app }: { app: App }) {
	const { capture, state } = app;
	const main = useMemo(() => mainThread(capture), [capture]);
	const isChosen = state.thread >= 0 && state.thread < capture.threads.n;
	const thread = isChosen ? state.thread : main;
	return (
		<>
			{thread >= 0 && <OneThread app={app} thread={thread} />}
			{!isChosen && capture.threads.n > 1 && <AllThreads app={app} but={main} />}
		</>
	);
}
