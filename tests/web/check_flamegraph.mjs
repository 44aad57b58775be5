// SPDX-License-Identifier: Apache-2.0
// Opens a flame graph SVG, zooms, searches, and looks for errors and requests.
//   node check_flamegraph.mjs FILE.svg NAME [--screenshot OUT.png]
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { check, withPage } from "./browser.mjs";

const args = process.argv.slice(2);
const at = args.indexOf("--screenshot");
const screenshot = at >= 0 ? args.splice(at, 2)[1] : null;
const [file, name] = args;
if (!file || !name) {
	console.error("usage: node check_flamegraph.mjs FILE.svg NAME [--screenshot OUT.png]");
	process.exit(2);
}

await withPage(async (page, problems) => {
	page.on("dialog", (d) => d.accept(name));
	await page.goto(pathToFileURL(resolve(file)).href);
	const widths = () => page.evaluate(() => [...document.querySelectorAll("#frames g")]
		.filter((g) => g.style.display !== "none").map((g) => +g.querySelector("rect").getAttribute("width")));
	const before = await widths();
	check(before.length > 1, "no frames");
	if (screenshot)
		await page.screenshot({ path: screenshot });

	await page.click("#search");
	const hits = await page.evaluate(() => [...document.querySelectorAll("#frames g.hit title")].map((t) => t.textContent));
	check(hits.length > 0 && hits.every((t) => t.includes(name)), `searching ${name} matched: ${hits.join(", ")}`);
	check(/matched [0-9.]+%/.test(await page.textContent("#hits")), "the share of the matches is not shown");

	// The narrowest frame of that name gets the whole width; its ancestors, too; the rest is gone.
	const target = page.locator("#frames g.hit rect").last();
	const narrow = +(await target.getAttribute("width"));
	await target.click({ force: true });
	const wide = +(await target.getAttribute("width"));
	check(wide >= narrow && Math.abs(wide - 1280) < 1, `after the click it is ${wide} wide`);
	if (screenshot)
		await page.screenshot({ path: screenshot.replace(/\.png$/, "-zoomed.png") });
	await page.keyboard.press("Escape");
	const after = await widths();
	check(after.length === before.length, "reset does not bring all frames back");
	check(await page.evaluate(() => document.querySelectorAll("script, iframe, image, foreignObject").length === 1), "foreign elements in the file");
	check(problems.length === 0, problems.join("; "));
});
if (!process.exitCode)
	console.log(`${file} zooms and searches`);
