// SPDX-License-Identifier: Apache-2.0
// What a running program does now (fathom.live/1, docs/live.md), and the two minutes before: messages arrive twice a second and overlap, so that
// one that was missed is made up for by the next.
import { CLASS_PYTHON, CLASS_WAIT } from "./classes";

export interface LivePlace {
	name: string;
	module: string;
	file: string;
	line: number;
	kind: string;
}

export interface LiveThread {
	thread: number;
	pid: number;
	tid: number;
	name: string;
	state: string;
	cpu_s: number;
	at: LivePlace | null;
	zones: string[];
	busy: number[];
	doing: string; // a letter for each of `busy`
}

export interface LiveFunction extends LivePlace {
	self_s: number;
	total_s: number;
	wait_s: number;
	calls: number;
	own_s: number;
}

export interface LiveNow {
	schema: string;
	state: string;
	command: string[];
	python: string;
	pid: number;
	exit: { code: number | null; signal: number | null };
	elapsed_s: number;
	window_s: number;
	samples: number;
	wait_samples?: number;
	trace_events: number;
	is_traced: boolean;
	rss_bytes: number;
	time: Record<string, number>;
	bucket_s: number;
	first_bucket: number;
	first_bucket_s: number;
	threads_alive: number;
	threads: LiveThread[];
	functions: LiveFunction[];
	zones: { name: string; n: number; total_s: number; mean_s: number; max_s: number; open: number }[];
	counters: { name: string; value: number; values: (number | null)[] }[];
	marks: { t_s: number; thread: number; text: string }[];
	spans: [number, number, number, number, string][];
}

export interface LiveSpan {
	thread: number;
	depth: number;
	begin: number;
	end: number; // Infinity while it lasts
	name: string;
}

export const KEPT_BUCKETS = 480; // two minutes of quarter seconds
const MAX_SPANS = 20_000;
const LETTERS = "pnsglw"; // by class

// One thread's activity, by number of the bucket modulo KEPT_BUCKETS.
export interface Lane {
	thread: number;
	name: string;
	stamps: Float64Array; // which bucket is there; 0 = none
	busy: Float32Array;
	doing: Uint8Array; // class, N_CLASSES = nothing known
	maxDepth: number; // of its spans, in the time that is kept
	last: number; // the latest bucket that was told
}

export const NO_CLASS = 255;

// Threads of one program often go by its name, all of them.
export function threadLabel(t: LiveThread): string {
	return t.name === "main" ? t.name : `${t.tid} ${t.name}`;
}

export class LiveFeed {
	now: LiveNow | null = null;
	isEnded = false;
	isLost = false; // the connection broke off
	readonly lanes = new Map<number, Lane>();
	spans = new Map<string, LiveSpan>();
	open: LiveSpan[] = [];
	marks: { t: number; text: string }[] = [];
	private readonly listeners = new Set<() => void>();

	subscribe(listener: () => void): () => void {
		this.listeners.add(listener);
		return () => this.listeners.delete(listener);
	}

	tell(): void {
		for (const listener of this.listeners) listener();
	}

	take(now: LiveNow): void {
		if (now.schema !== "fathom.live/1" || now.state === "starting") return;
		this.now = now;
		this.isLost = false;
		for (const t of now.threads) this.takeThread(now, t);
		for (const [id, lane] of this.lanes) if (lane.last + KEPT_BUCKETS < now.first_bucket) this.lanes.delete(id);
		this.takeSpans(now);
		const newest = this.marks.length > 0 ? this.marks[this.marks.length - 1].t : -1;
		this.marks.push(...now.marks.filter((m) => m.t_s > newest).map((m) => ({ t: m.t_s, text: m.text })));
		this.marks.splice(0, Math.max(0, this.marks.length - 500));
		this.tell();
	}

	private takeThread(now: LiveNow, t: LiveThread): void {
		let lane = this.lanes.get(t.thread);
		if (!lane) {
			lane = {
				thread: t.thread,
				name: threadLabel(t),
				stamps: new Float64Array(KEPT_BUCKETS),
				busy: new Float32Array(KEPT_BUCKETS),
				doing: new Uint8Array(KEPT_BUCKETS),
				maxDepth: -1,
				last: 0,
			};
			this.lanes.set(t.thread, lane);
		}
		lane.name = threadLabel(t);
		lane.last = now.first_bucket + t.busy.length;
		for (let i = 0; i < t.busy.length; i++) {
			const at = (now.first_bucket + i) % KEPT_BUCKETS;
			const cls = LETTERS.indexOf(t.doing[i] ?? ".");
			lane.stamps[at] = now.first_bucket + i;
			lane.busy[at] = t.busy[i];
			lane.doing[at] = cls >= CLASS_PYTHON && cls <= CLASS_WAIT ? cls : NO_CLASS;
		}
	}

	private takeSpans(now: LiveNow): void {
		this.open = [];
		for (const [thread, depth, begin, duration, name] of now.spans) {
			const span = { thread, depth, begin, end: duration < 0 ? Infinity : begin + duration, name };
			if (duration < 0) this.open.push(span);
			else this.spans.set(`${thread} ${depth} ${begin}`, span);
			const lane = this.lanes.get(thread);
			if (lane) lane.maxDepth = Math.max(lane.maxDepth, depth);
		}
		const oldest = now.elapsed_s - KEPT_BUCKETS * now.bucket_s;
		for (const [key, span] of this.spans) {
			// They came in the order of time, nearly: the first that is young enough ends the search.
			if (span.end >= oldest && this.spans.size <= MAX_SPANS) break;
			this.spans.delete(key);
		}
	}

	// Those that were there a moment ago first, each of both in the order in which they came.
	shownLanes(most: number): Lane[] {
		const newest = this.now ? this.now.first_bucket : 0;
		const all = [...this.lanes.values()];
		const isThere = (lane: Lane) => lane.last >= newest;
		return [...all.filter(isThere), ...all.filter((l) => !isThere(l))].slice(0, most);
	}

	// The number of a bucket at a time in seconds since the start.
	bucketAt(seconds: number): number {
		const { now } = this;
		return now ? now.first_bucket + (seconds - now.first_bucket_s) / now.bucket_s : 0;
	}
}
