import { defineConfig } from "vite";
import { onePage } from "./one_page";

// The page has to run in what users have: browsers with DecompressionStream (2023) and nothing newer.
export default defineConfig({
	base: "./",
	plugins: [onePage()],
	build: {
		target: ["chrome103", "firefox113", "safari16.4"],
		modulePreload: false,
		cssCodeSplit: false,
		assetsInlineLimit: 1 << 20,
		reportCompressedSize: false,
		chunkSizeWarningLimit: 2000,
		rollupOptions: { output: { format: "iife" } },
	},
	esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
});
