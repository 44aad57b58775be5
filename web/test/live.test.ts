import assert from "node:assert/strict";
import { test } from "node:test";
import { KEPT_BUCKETS, LiveFeed, NO_CLASS, type LiveNow } from "../src/data/live";

function message(first: number, patch: Partial<LiveNow> = {}): LiveNow {
	const busy = Array.from({ length: 20 }, (_, i) => ((first + i) % 10) / 10);
	return {
		schema: "fathom.live/1",
		state: "running",
		command: ["app.py"],
		python: "3.12.1",
		pid: 7,
		exit: { code: null, signal: null },
		elapsed_s: (first + 21) * 0.25,
		window_s: 5,
		samples: 1,
		trace_events: 0,
		is_traced: false,
		rss_bytes: 0,
		time: {},
		bucket_s: 0.25,
		first_bucket: first,
		first_bucket_s: first * 0.25,
		threads_alive: 1,
		threads: [
			{
				thread: 3,
				pid: 7,
				tid: 8,
				name: "work",
				state: "python",
				cpu_s: 1,
				at: null,
				zones: [],
				busy,
				doing: "pn.w".repeat(5),
			},
		],
		functions: [],
		zones: [],
		counters: [],
		marks: [],
		spans: [],
		...patch,
	};
}

test("messages that overlap, or were missed, make one course", () => {
	const feed = new LiveFeed();
	for (const first of [1000, 1002, 1015]) feed.take(message(first));
	const lane = feed.lanes.get(3);
	assert.ok(lane);
	assert.equal(lane.name, "8 work");
	for (let b = 1000; b < 1035; b++) {
		assert.equal(lane.stamps[b % KEPT_BUCKETS], b);
		assert.ok(Math.abs(lane.busy[b % KEPT_BUCKETS] - (b % 10) / 10) < 1e-6);
	}
	assert.equal(lane.doing[1015 % KEPT_BUCKETS], 0);
	assert.equal(lane.doing[1017 % KEPT_BUCKETS], NO_CLASS);
	assert.equal(feed.bucketAt(1020 * 0.25), 1020);
});

test("what is open is as the latest message says, what has ended stays for its time", () => {
	const feed = new LiveFeed();
	feed.take(
		message(1000, {
			spans: [
				[3, 0, 250, -1, "run"],
				[3, 1, 251, 0.5, "load"],
			],
		}),
	);
	assert.equal(feed.open.length, 1);
	feed.take(
		message(1002, {
			spans: [
				[3, 0, 250, 1.5, "run"],
				[3, 1, 251, 0.5, "load"],
			],
		}),
	);
	assert.equal(feed.open.length, 0);
	assert.deepEqual([...feed.spans.values()].map((s) => s.name).sort(), ["load", "run"]);
	assert.equal(feed.lanes.get(3)?.maxDepth, 1);
	feed.take(message(1002 + KEPT_BUCKETS + 30));
	assert.equal(feed.spans.size, 0);
});

test("threads that are gone make room", () => {
	const feed = new LiveFeed();
	feed.take(message(1000));
	for (let i = 1; i <= 100; i++) {
		const next = message(1000 + 10 * i);
		next.threads[0].thread = 3 + i;
		feed.take(next);
	}
	assert.ok(feed.lanes.size < 60 && !feed.lanes.has(3));
	assert.deepEqual(
		feed.shownLanes(4).map((l) => l.thread), // three were there within the last message's time
		[101, 102, 103, [...feed.lanes.keys()][0]],
	);
});

test("marks come once, and a foreign message not at all", () => {
	const feed = new LiveFeed();
	const marks = [
		{ t_s: 1, thread: 3, text: "a" },
		{ t_s: 2, thread: 3, text: "b" },
	];
	feed.take(message(1000, { marks }));
	feed.take(message(1002, { marks: [...marks, { t_s: 3, thread: 3, text: "c" }] }));
	assert.deepEqual(
		feed.marks.map((m) => m.text),
		["a", "b", "c"],
	);
	const other = new LiveFeed();
	other.take(message(1, { schema: "else/1" }));
	other.take(message(1, { state: "starting" }));
	assert.equal(other.now, null);
});
