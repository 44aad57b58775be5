// SPDX-License-Identifier: Apache-2.0
import { useEffect, useRef, useState } from "preact/hooks";

// How wide an element is, in CSS pixels.
export function useWidth() {
	const box = useRef<HTMLDivElement>(null);
	const [width, setWidth] = useState(800);
	useEffect(() => {
		if (!box.current) return undefined;
		const observer = new ResizeObserver(([entry]) => setWidth(Math.max(50, entry.contentRect.width)));
		observer.observe(box.current);
		return () => observer.disconnect();
	}, []);
	return { box, width };
}
