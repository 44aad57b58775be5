// SPDX-License-Identifier: Apache-2.0
import type { ComponentChildren } from "preact";
import { writeHash, type State } from "../state/state";
import { useApp } from "./app_context";

// A link that a middle click opens in a new tab, and that a plain click follows without a load.
export function StateLink({
	patch,
	children,
	...rest
}: {
	patch: Partial<State>;
	children: ComponentChildren;
	class?: string;
	"aria-current"?: "page" | undefined;
}) {
	const { link, set } = useApp();
	return (
		<a
			{...rest}
			href={writeHash(link(patch))}
			onClick={(e) => {
				if (e.ctrlKey || e.metaKey || e.shiftKey || e.button !== 0) return;
				e.preventDefault();
				set(patch);
			}}
		>
			{children}
		</a>
	);
}
