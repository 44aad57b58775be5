// SPDX-License-Identifier: Apache-2.0
// What stands out, and where the page shows it: each rule of core/render/shared/verdict.c by what it counts, in what order lines are
// looked at, and the view that proves it where no line of source does.
import type { Capture } from "../data/capture";
import { shortPath } from "../data/format";
import type { Verdict } from "../data/report";
import type { State } from "../state/state";

interface Rule {
	metric: string;
	order: "cpu" | "wait" | "peak";
	leads: boolean; // the page opens with its metric, as CPU time would not show it
	proof: (capture: Capture, v: Verdict) => Partial<State>;
}

const asText = (s: string) => s.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

// A function by the line that it begins at, as imported profiles may know no other; without a line any of the file's. -1: there is none.
function functionAt(capture: Capture, v: Verdict, line?: number): number {
	const { functions, strings } = capture;
	for (let fn = 0; v.file && fn < functions.n; fn++)
		if ((line === undefined || functions.line[fn] === line) && strings.get(functions.file[fn]) === v.file) return fn;
	return -1;
}

function functionsOf(capture: Capture, v: Verdict): Partial<State> {
	const search = functionAt(capture, v) < 0 ? "" : asText(shortPath(v.file ?? ""));
	return { view: "functions", fn: -1, search, sort: "-self" };
}

const cpu = { metric: "cpu", order: "cpu", leads: false } as const;
const wait = { metric: "wait", order: "wait", leads: true } as const;
const inTree = () => ({ view: "tree" }) as const;
const inFlame = () => ({ view: "flame", mode: "left" }) as const;
const inTimeline = () => ({ view: "timeline" }) as const;

export const RULES: Record<string, Rule> = {
	line: { ...cpu, proof: inTree },
	function: { ...cpu, proof: (c, v) => ({ view: "functions", fn: functionAt(c, v, v.line) }) },
	file: { ...cpu, proof: functionsOf },
	imports: { ...cpu, proof: () => ({ view: "tree", invert: false, search: asText("(imports)") }) },
	gc: { ...cpu, metric: "gc", proof: inFlame },
	"gc-end": { ...cpu, metric: "gc", proof: inFlame },
	system: { ...cpu, metric: "system", proof: inFlame },
	gil: { ...wait, metric: "gil", proof: inTimeline },
	lock: { ...wait, proof: inFlame },
	elsewhere: { ...cpu, proof: inTimeline },
	waiting: { ...wait, proof: inFlame },
	leak: { metric: "leak", order: "peak", leads: true, proof: inFlame },
	"no-cpu": { ...cpu, proof: inTimeline },
};

const ruleOf = (v: Verdict | undefined): Rule | null =>
	v?.rule !== undefined && Object.hasOwn(RULES, v.rule) ? RULES[v.rule] : null;

// The file's number, if a line of it is in the tables: only then the source view has anything to show.
function fileOf(capture: Capture, v: Verdict): number {
	const { files, lines, strings } = capture;
	for (let i = 0; v.file && i < files.n; i++) {
		const file = files.get("name", i);
		if (strings.get(file) === v.file) return lines.column("file")?.includes(i) ? file : -1;
	}
	return -1;
}

// Where a sentence is proved. Null: of a rule that this page does not know, and that names no line.
export function proofOf(capture: Capture, v: Verdict): Partial<State> | null {
	const rule = ruleOf(v);
	const { line = 0 } = v;
	const file = line > 0 ? fileOf(capture, v) : -1;
	const metric = rule && { metric: rule.metric };
	if (file >= 0) return { view: "source", file, line, ...metric };
	return rule && { ...rule.proof(capture, v), ...metric };
}

// By what the lines to look at first are best sorted, and what is best counted where nothing is chosen.
export const orderOf = (capture: Capture): string => ruleOf(capture.report.verdict?.[0])?.order ?? "cpu";
export function metricOf(capture: Capture): string {
	const rule = ruleOf(capture.report.verdict?.[0]);
	return rule?.leads ? rule.metric : "cpu";
}
