// SPDX-License-Identifier: Apache-2.0
// What stands out, in sentences: the program's own, the most important first, each with a way to what proves it.
import type { Capture } from "../data/capture";
import type { Verdict } from "../data/report";
import type { State } from "../state/state";
import type { App } from "../ui/app_context";
import { StateLink } from "../ui/state_link";

// Where a rule without a line is seen.
const PROOFS: Record<string, Partial<State>> = {
	imports: { view: "flame", search: "importlib|_find_and_load" },
	gc: { view: "flame", metric: "gc" },
	"gc-end": { view: "flame", metric: "gc" },
	system: { view: "flame", metric: "system" },
	gil: { view: "timeline" },
	lock: { view: "flame", metric: "wait" },
	waiting: { view: "flame", metric: "wait" },
	leak: { view: "flame", metric: "leak" },
	"no-cpu": { view: "timeline" },
};

function proofOf(capture: Capture, v: Verdict): Partial<State> | null {
	const { files, strings } = capture;
	for (let i = 0; v.file && i < files.n; i++) {
		const file = files.get("name", i);
		if (strings.get(file) === v.file) return { view: "source", file, line: v.line ?? 0 };
	}
	return v.rule !== undefined && Object.hasOwn(PROOFS, v.rule) ? PROOFS[v.rule] : null;
}

// By what the lines to look at first are best sorted.
export function orderOf(capture: Capture): string {
	const rule = capture.report.verdict?.[0]?.rule;
	if (rule === "lock" || rule === "waiting" || rule === "gil") return "wait";
	return rule === "leak" ? "peak" : "cpu";
}

export function Verdicts({ app }: { app: App }) {
	const { capture } = app;
	const verdicts = capture.report.verdict;
	if (!Array.isArray(verdicts) || verdicts.length === 0) return null;
	return (
		<ul class="verdicts" aria-label="What stands out">
			{verdicts.map((v) => {
				const proof = proofOf(capture, v);
				return (
					<li>
						{v.text}{" "}
						{proof && (
							<StateLink class="link" patch={proof}>
								Show
							</StateLink>
						)}
					</li>
				);
			})}
		</ul>
	);
}
