// Compiles the tests with esbuild (Node 18 and 20 read no TypeScript) and runs them with Node's own runner.
//   node test/run.mjs            all tests
//   node test/run.mjs make ARGS  test/make.ts
//   node test/run.mjs bench      test/bench.ts
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, "..", "node_modules", ".fathom-test");
const isMake = process.argv[2] === "make" || process.argv[2] === "bench";
const entries = isMake ? [`${process.argv[2]}.ts`] : readdirSync(here).filter((f) => f.endsWith(".test.ts"));
mkdirSync(out, { recursive: true });
await build({
	entryPoints: entries.map((f) => join(here, f)),
	bundle: true,
	platform: "node",
	format: "esm",
	outdir: out,
	outExtension: { ".js": ".mjs" },
	logLevel: "warning",
});
const files = entries.map((f) => join(out, f.replace(/\.ts$/, ".mjs")));
const args = isMake ? [files[0], ...process.argv.slice(3)] : ["--test", ...files];
process.exit(
	spawnSync(process.execPath, args, { stdio: "inherit", env: { ...process.env, FATHOM_WEB: join(here, "..") } })
		.status ?? 1,
);
