// What the benches of the page share: the size of the window, and what a browser costs.
import { readFileSync, readdirSync } from "node:fs";

// Takes `--viewport WIDTHxHEIGHT` out of the arguments.
export function takeViewport(args, usual = { width: 1280, height: 720 }) {
	const at = args.indexOf("--viewport");
	if (at < 0)
		return usual;
	const match = /^(\d+)x(\d+)$/.exec(args.splice(at, 2)[1] ?? "");
	if (!match)
		throw new Error("--viewport takes WIDTHxHEIGHT, as 3840x2160");
	return { width: Number(match[1]), height: Number(match[2]) };
}

// Seconds of CPU of the page's main thread.
export async function mainThread(page) {
	const session = await page.context().newCDPSession(page);
	await session.send("Performance.enable", { timeDomain: "threadTicks" });
	return async () => (await session.send("Performance.getMetrics")).metrics.find((m) => m.name === "TaskDuration").value;
}

// Seconds of CPU of all processes that this one has started but for one: a browser without a graphics card also draws in others.
export function browserCpu(except) {
	const TICKS = 100; // a second, as Linux tells programs
	const processes = new Map();
	for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
		try {
			const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").pop().split(" ");
			processes.set(Number(pid), { parent: Number(fields[1]), cpu: (Number(fields[11]) + Number(fields[12])) / TICKS });
		} catch {
			// it has ended
		}
	}
	const isOurs = (pid) => pid === process.pid || (processes.has(pid) && isOurs(processes.get(pid).parent));
	let sum = 0;
	for (const [pid, p] of processes)
		if (pid !== process.pid && isOurs(pid))
			sum += p.cpu;
	return sum;
}

// Moves the largest canvas by the mouse, to and fro, one event a frame. Resolves to pictures a second.
export const drag = (page, frames) => page.evaluate(async (n) => {
	const canvas = [...document.querySelectorAll("canvas")].sort((a, b) => b.clientWidth * b.clientHeight - a.clientWidth * a.clientHeight)[0];
	const box = canvas.getBoundingClientRect();
	canvas.setPointerCapture = () => undefined; // of a mouse that there is not
	const at = (type, x) => canvas.dispatchEvent(new PointerEvent(type, {
		clientX: box.left + x, clientY: box.top + box.height / 3, pointerId: 1, button: type === "pointermove" ? -1 : 0, shiftKey: true, bubbles: true, cancelable: true,
	}));
	for (let i = 0; i < 12; i++)
		canvas.dispatchEvent(new WheelEvent("wheel", { clientX: box.left + box.width / 2, clientY: box.top + 60, deltaY: -40, ctrlKey: true, bubbles: true, cancelable: true }));
	at("pointerdown", box.width / 2);
	const began = performance.now();
	const before = window.fathom.stats.frames;
	for (let i = 0; i < n; i++) {
		at("pointermove", box.width / 2 + 400 * Math.sin(i / 10));
		await new Promise(requestAnimationFrame);
	}
	const fps = (1000 * (window.fathom.stats.frames - before)) / (performance.now() - began);
	at("pointerup", box.width / 2);
	return fps;
}, frames);
