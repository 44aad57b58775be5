// node make.js KIND TEMPLATE OUT: writes a page with a made-up capture inside; with `-` as template the bare bundle.
import { readFileSync, writeFileSync } from "node:fs";
import { big, zones } from "./big";
import { comparison, hostile, manyThreads, verdicts } from "./captures";
import { shop } from "./shop";
import { comparisonOfTwo, newCapture } from "./two";

const KINDS = {
	shop: () => shop(),
	plain: () => shop({}),
	threads: manyThreads,
	diff: comparison,
	two: newCapture,
	hostile,
	verdicts,
	trace: () => zones(2_000_000),
	big: () => big(1_000_000, 1_000_000),
	medium: () => big(200_000, 600_000),
};

const [kind, template, out] = process.argv.slice(2);
const make = KINDS[kind as keyof typeof KINDS];
if (!make || !template || !out) {
	console.error(`usage: make KIND TEMPLATE OUT, KIND one of ${Object.keys(KINDS).join(", ")}`);
	process.exit(2);
}
const bundle = make();
// Beside a page: what `fathom report --json` would say, from the same numbers by other arithmetic.
if (template !== "-") writeFileSync(out.replace(/\.html$/, "") + ".json", JSON.stringify(bundle.report));
writeFileSync(
	out,
	template === "-"
		? bundle.bytes()
		: bundle.page(readFileSync(template, "utf8"), kind === "two" ? comparisonOfTwo() : undefined),
);
