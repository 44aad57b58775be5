// SPDX-License-Identifier: Apache-2.0
// What the checks share: a Chromium if there is one, and a server on loopback for the files they open.
import { createServer } from "node:http";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { extname, join, normalize } from "node:path";

export function skip(reason) {
	console.log(`skipped: ${reason}`);
	process.exit(77); // what test runners take for "skipped"
}

export async function load(name) {
	try {
		return await import(name);
	} catch {
		skip(`the npm package ${name} is not installed (npm install, in tests/web)`);
	}
}

const flags = [
	"--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
	"--disable-component-update", "--disable-sync", "--enable-unsafe-swiftshader",
];

// Calls body(page, problems); problems collects page errors and every request that leaves the machine.
export async function withPage(body) {
	const candidates = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
	const executablePath = candidates.find((p) => p && existsSync(p));
	if (!executablePath)
		skip("no Chromium found (Debian: apt-get install chromium)");
	const { chromium } = await load("playwright-core");
	const profile = mkdtempSync(join(tmpdir(), "fathom-chromium-"));
	const context = await chromium.launchPersistentContext(profile, {
		executablePath, args: flags, headless: true, viewport: { width: 1280, height: 800 },
	});
	try {
		const page = await context.newPage();
		const problems = [];
		page.on("pageerror", (e) => problems.push(`page error: ${e.message}`));
		page.on("request", (r) => {
			const url = new URL(r.url());
			if (!["file:", "data:", "blob:"].includes(url.protocol) && url.hostname !== "127.0.0.1")
				problems.push(`request to ${url.host}`);
		});
		await body(page, problems);
	} finally {
		await context.close();
		rmSync(profile, { recursive: true, force: true });
	}
}

const types = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".json": "application/json", ".svg": "image/svg+xml" };

// Serves the files below root, and `extra` ({ "/name": path }) beside them. Resolves to { url, close }.
export function serve(root, extra = {}) {
	const server = createServer((request, response) => {
		const path = decodeURIComponent(new URL(request.url, "http://x").pathname);
		const file = extra[path] ?? join(root, normalize(path === "/" ? "/index.html" : path));
		if (!(extra[path] || file.startsWith(root)) || !existsSync(file) || !statSync(file).isFile()) {
			response.writeHead(404).end();
			return;
		}
		response.writeHead(200, { "content-type": types[extname(file)] ?? "application/octet-stream" }).end(readFileSync(file));
	});
	return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve({
		url: `http://127.0.0.1:${server.address().port}`, close: () => server.close(),
	})));
}

export function check(condition, what) {
	if (!condition) {
		console.error(`failed: ${what}`);
		process.exitCode = 1;
	}
}
