// SPDX-License-Identifier: Apache-2.0
// Opens an export in the speedscope app itself, in the left-heavy view, and looks for errors and for names.
//   node check_speedscope.mjs FILE [NAME...] [--screenshot OUT.png]
// The flame charts are drawn on a canvas; the names are read off the sandwich view's table.
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { check, serve, skip, withPage } from "./browser.mjs";

const args = process.argv.slice(2);
const at = args.indexOf("--screenshot");
const screenshot = at >= 0 ? args.splice(at, 2)[1] : null;
const [file, ...names] = args;
if (!file) {
	console.error("usage: node check_speedscope.mjs FILE [NAME...] [--screenshot OUT.png]");
	process.exit(2);
}

let app;
try {
	app = join(dirname(createRequire(import.meta.url).resolve("speedscope/package.json")), "dist", "release");
} catch {
	skip("the npm package speedscope is not installed (npm install, in tests/web)");
}

await withPage(async (page, problems) => {
	const server = await serve(app, { "/profile.json": file });
	try {
		await page.goto(`${server.url}/#profileURL=${encodeURIComponent(`${server.url}/profile.json`)}`);
		await page.getByText("Left Heavy").first().click({ timeout: 30000 });
		await page.waitForTimeout(500);
		if (screenshot)
			await page.screenshot({ path: screenshot });
		const text = await page.evaluate(() => document.body.innerText);
		check(!/something went wrong|unrecognized|failed to load|error/i.test(text), `the page says: ${text.slice(0, 300)}`);
		check((await page.locator("canvas").count()) > 0, "nothing was drawn");
		await page.getByText("Sandwich").first().click();
		await page.waitForTimeout(500);
		const table = await page.evaluate(() => document.body.innerText);
		for (const name of names)
			check(table.includes(name), `no function named ${name} in the table`);
		check(problems.length === 0, problems.join("; "));
	} finally {
		server.close();
	}
});
if (!process.exitCode)
	console.log(`speedscope opens ${file}`);
