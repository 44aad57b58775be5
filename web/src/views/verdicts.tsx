// SPDX-License-Identifier: Apache-2.0
// What stands out, in sentences: the program's own, the most important first, each with a way to what proves it.
import type { App } from "../ui/app_context";
import { StateLink } from "../ui/state_link";
import { proofOf } from "./proofs";

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
