// What stands out leads to its proof, whatever the capture kept.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { decodeBundle } from "../src/data/bundle";
import { readCapture } from "../src/data/capture";
import { metricById } from "../src/data/metrics";
import { metricOf, orderOf, proofOf, RULES } from "../src/views/proofs";
import { verdicts } from "./captures";

const capture = readCapture(decodeBundle(verdicts().bytes().slice().buffer as ArrayBuffer));
const withFirst = (rule: string) => ({ ...capture, report: { ...capture.report, verdict: [{ rule, text: "" }] } });

test("every rule of the program has its proof here, and no other has", () => {
	const source = readFileSync(join(process.env.FATHOM_WEB ?? ".", "../core/render/shared/verdict.c"), "utf8");
	const rules = [...source.matchAll(/\bsay\(r, "([a-z-]+)"/g)].map((m) => m[1]);
	assert.ok(rules.length >= 12);
	assert.deepEqual(new Set(Object.keys(RULES)), new Set(rules));
});

test("a sentence leads to its line where the tables have one of its file, and else to a view that shows it", () => {
	for (const v of capture.report.verdict ?? []) {
		const proof = proofOf(capture, v);
		const { metric } = RULES[v.rule ?? ""];
		assert.ok(proof, v.text);
		assert.equal(proof.metric, metric, v.text);
		assert.equal(metricById(capture, metric).id, metric, "the capture has something of it");
		if (v.text.endsWith("here.")) assert.deepEqual([proof.view, proof.line], ["source", v.line], v.text);
		else assert.notEqual(proof.view, "source", v.text);
	}
	assert.equal(proofOf(capture, { rule: "of a newer program", text: "" }), null);
	assert.equal(proofOf(capture, { rule: "constructor", text: "" }), null);
});

test("a function without lines is shown as a function, a file as its functions", () => {
	const file = "/home/ann/queue.py";
	const lineless = { ...capture, lines: capture.changes };
	const proof = proofOf(lineless, { rule: "function", text: "", file, line: 3 });
	assert.equal(proof?.view, "functions");
	assert.equal(capture.strings.get(capture.functions.name[proof?.fn ?? 0]), "work");
	const ofFile = proofOf(lineless, { rule: "file", text: "", file, line: 3 });
	assert.deepEqual([ofFile?.view, ofFile?.search], ["functions", "ann/queue\\.py"]);
});

test("waiting and memory decide what is counted where nothing is chosen; kinds of CPU time do not", () => {
	const opens: Record<string, [metric: string, order: string]> = {
		...Object.fromEntries(
			["line", "function", "file", "imports", "gc", "gc-end", "system", "elsewhere", "no-cpu"].map((r) => [
				r,
				["cpu", "cpu"],
			]),
		),
		lock: ["wait", "wait"],
		waiting: ["wait", "wait"],
		gil: ["gil", "wait"],
		leak: ["leak", "peak"],
		"of a newer program": ["cpu", "cpu"],
	};
	for (const [rule, expected] of Object.entries(opens))
		assert.deepEqual([metricOf(withFirst(rule)), orderOf(withFirst(rule))], expected, rule);
	assert.deepEqual([metricOf({ ...capture, report: {} }), orderOf({ ...capture, report: {} })], ["cpu", "cpu"]);
});
