// SPDX-License-Identifier: Apache-2.0
import { useEffect, useRef } from "preact/hooks";
import type { MenuRequest } from "./app_context";

export function Menu({ menu, close }: { menu: MenuRequest; close: () => void }) {
	const box = useRef<HTMLDivElement>(null);
	useEffect(() => {
		const element = box.current;
		if (!element) return;
		const size = element.getBoundingClientRect();
		element.style.left = `${Math.max(4, Math.min(menu.x, innerWidth - size.width - 8))}px`;
		element.style.top = `${Math.max(4, Math.min(menu.y, innerHeight - size.height - 8))}px`;
		const before = document.activeElement as HTMLElement | null;
		element.querySelector("button")?.focus();
		const outside = (e: Event) => {
			if (!element.contains(e.target as Node)) close();
		};
		addEventListener("pointerdown", outside, true);
		addEventListener("resize", close);
		return () => {
			removeEventListener("pointerdown", outside, true);
			removeEventListener("resize", close);
			before?.focus?.();
		};
	}, [menu]);
	const move = (e: KeyboardEvent) => {
		const buttons = [...(box.current?.querySelectorAll("button") ?? [])];
		const at = buttons.indexOf(document.activeElement as HTMLButtonElement);
		if (e.key === "Escape") close();
		else if (e.key === "ArrowDown") buttons[(at + 1) % buttons.length]?.focus();
		else if (e.key === "ArrowUp") buttons[(at + buttons.length - 1) % buttons.length]?.focus();
		else return;
		e.preventDefault();
		e.stopPropagation();
	};
	return (
		<div class="menu" role="menu" aria-label={menu.title} ref={box} onKeyDown={move}>
			<div class="menu-title">{menu.title}</div>
			{menu.items.map((item) => (
				<button
					role="menuitem"
					class={item.isMinor ? "minor-item" : undefined}
					onClick={() => {
						close();
						item.run();
					}}
				>
					<span>{item.label}</span>
					{item.hint && <small>{item.hint}</small>}
				</button>
			))}
		</div>
	);
}
