import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { BundleError, decodeBundle, fromBase64, gunzip } from "../src/data/bundle";
import { readCapture } from "../src/data/capture";
import { hostile } from "./captures";
import { dice } from "./dice";
import { shop } from "./shop";

const copy = (bytes: Uint8Array) => bytes.slice().buffer as ArrayBuffer;

test("a bundle reads as it was written", () => {
	const capture = readCapture(decodeBundle(copy(shop().bytes())));
	assert.equal(capture.strings.get(capture.functions.name[2]), "<module>");
	assert.equal(capture.threads.n, 4);
	assert.equal(capture.report.command?.[1], "report.py");
	const sum = capture.cells.weight.reduce((a, b) => a + b, 0);
	const time = Object.values(capture.report.time ?? {}).reduce((a, b) => a + b, 0);
	assert.ok(Math.abs(sum - time) < 1e-9);
});

test("gzip and base64 are undone, and bare bytes pass", async () => {
	const raw = shop({}).bytes();
	const text = gzipSync(raw).toString("base64");
	assert.deepEqual(new Uint8Array(await gunzip(fromBase64(text))), raw);
	assert.deepEqual(new Uint8Array(await gunzip(raw.slice() as Uint8Array<ArrayBuffer>)), raw);
	await assert.rejects(gunzip(fromBase64(text).slice(0, 100) as Uint8Array<ArrayBuffer>), BundleError);
	assert.throws(() => fromBase64("<not base64>"), BundleError);
});

test("a bundle cut off anywhere ends in one sentence", () => {
	const raw = shop({}).bytes();
	for (let n = 0; n < raw.length - 16; n += 997)
		assert.throws(() => readCapture(decodeBundle(copy(raw.slice(0, n)))), BundleError, `cut at ${n}`);
});

test("damaged bytes give a sentence or a capture whose indices all hold", () => {
	const raw = shop({}).bytes();
	const random = dice(5);
	for (let round = 0; round < 400; round++) {
		const bytes = raw.slice();
		for (let k = 0; k < 1 + random() * 8; k++) bytes[Math.floor(random() * bytes.length)] = Math.floor(random() * 256);
		try {
			const c = readCapture(decodeBundle(bytes.buffer as ArrayBuffer));
			for (let i = 1; i < c.nodes.n; i++) assert.ok(c.nodes.parent[i] < i && c.nodes.fn[i] < c.functions.n);
			for (let i = 0; i < c.cells.n; i++) assert.ok(c.cells.node[i] < c.nodes.n && c.cells.thread[i] < c.threads.n);
			for (let i = 0; i < c.functions.n; i++) c.strings.get(c.functions.name[i]);
		} catch (e) {
			assert.ok(e instanceof BundleError, `round ${round}: ${String(e)}`);
		}
	}
});

test("long and odd names are cut and cleaned for the screen, texts are cleaned and whole", () => {
	const c = readCapture(decodeBundle(copy(hostile().bytes())));
	const names = Array.from(c.functions.name, (s) => c.strings.get(s));
	assert.ok(names.every((n) => n.length <= 2001));
	const unfit = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/;
	assert.ok(names.every((n) => !unfit.test(n)));
	assert.ok(names.includes("<script>window.pwned=1</script>"));
	const lines = c.strings.lines(c.files.get("source", 0)).split("\n");
	assert.equal(lines[2], '\ty = "\ufffd\ufffd\ufffd\ufffd[2J\ufffd"');
	assert.ok(lines.every((line) => !unfit.test(line.replaceAll("\t", ""))));
	assert.ok(c.strings.text(c.files.get("source", 0)).length > 100_000);
});
