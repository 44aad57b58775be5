// Puts script and style into the page itself, and a policy in front of them that names both by hash and allows nothing
// else: no request leaves the page but to the server it came from, nothing is evaluated, no frame, no form, no plug-in.
import { createHash } from "node:crypto";
import type { Plugin } from "vite";

function hash(text: string): string {
	return `'sha256-${createHash("sha256").update(text, "utf8").digest("base64")}'`;
}

export function onePage(): Plugin {
	return {
		name: "one-page",
		apply: "build",
		enforce: "post",
		generateBundle(_options, bundle) {
			let script = "";
			let style = "";
			for (const [name, part] of Object.entries(bundle)) {
				if (part.type === "chunk") script += part.code;
				else if (name.endsWith(".css")) style += String(part.source);
				else continue;
				delete bundle[name];
			}
			const page = bundle["index.html"];
			if (!page || page.type !== "asset") throw new Error("vite made no index.html");
			script = script
				.trim()
				.replace(/<\/(script)/gi, "<\\/$1")
				.replace(/<!--/g, "<\\!--");
			const policy = [
				"default-src 'none'",
				`script-src ${hash(script)}`,
				`style-src ${hash(style)}`,
				"connect-src 'self'",
				"img-src data:",
				"base-uri 'none'",
				"form-action 'none'",
			].join("; ");
			const html = String(page.source)
				.replace(/<script[^>]*src=[^>]*><\/script>\s*/g, "")
				.replace(/<link[^>]*rel="stylesheet"[^>]*>\s*/g, "");
			// Functions as replacements: in a string, `$&` and the like of minified code would mean something.
			page.source = html
				.replace(
					'<meta charset="utf-8" />',
					(meta) => `${meta}\n\t\t<meta http-equiv="Content-Security-Policy" content="${policy}" />`,
				)
				.replace("</head>", () => `<style>${style}</style>\n\t</head>`)
				.replace("</body>", () => `<script>${script}</script>\n\t</body>`);
		},
	};
}
