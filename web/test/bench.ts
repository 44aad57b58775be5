// Where the time from bytes to the first flame graph goes: node test/run.mjs bench
import { gzipSync, gunzipSync } from "node:zlib";
import { decodeBundle, fromBase64 } from "../src/data/bundle";
import { readCapture } from "../src/data/capture";
import { leftHeavy, timeOrder } from "../src/data/layout";
import { METRICS, metricsOf } from "../src/data/metrics";
import { buildTree, PLAIN } from "../src/data/tree";
import { selfWeights } from "../src/data/weights";
import { functionSums } from "../src/data/functions";
import { modulePixels } from "../src/draw/colour";
import { big } from "./big";

const raw = big(1_000_000, 1_000_000).bytes();
const text = gzipSync(raw).toString("base64");
let last = process.cpuUsage();
const lap = (name: string) => {
	const used = process.cpuUsage(last); // of the CPU: other programs on the machine do not count
	console.log(`${name.padEnd(14)} ${((used.user + used.system) / 1000).toFixed(0)} ms`);
	last = process.cpuUsage();
};
lap("(start)");
const bytes = fromBase64(text);
lap("base64");
gunzipSync(bytes);
lap("gunzip");
const bundle = decodeBundle(raw.buffer as ArrayBuffer);
lap("decode");
const capture = readCapture(bundle);
lap("check");
metricsOf(capture);
lap("metrics");
const self = selfWeights(capture, METRICS[0], []);
lap("weights");
const tree = buildTree(capture, self, { ...PLAIN, showPlumbing: false });
lap("tree");
const layout = leftHeavy(tree);
lap("layout");
modulePixels(capture, tree, "light");
lap("colours");
functionSums(capture, METRICS[0], []);
lap("functions");
const wanted = new Uint8Array(256).fill(1);
if (capture.samples) timeOrder(tree, capture.samples, 0, null, wanted);
lap("time order");
console.log(`${tree.n} frames in ${layout.rows} rows`);
