// SPDX-License-Identifier: Apache-2.0
// Just enough of Python's grammar to tell words, strings and comments apart; C and its kin pass as well. Line by line, with
// the string that is open at each line's start kept, so that any part of a file can be shown alone.
export type Kind = "text" | "word" | "string" | "comment" | "number" | "name";
export interface Token {
	kind: Kind;
	text: string;
}

const wordsOf = (text: string) => new Set(text.split(" "));
const PYTHON_WORDS = wordsOf(
	"and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match None nonlocal not or pass raise return True False try while with yield self",
);
const C_WORDS = wordsOf(
	"break case class const continue default delete do else enum extern false fn for goto if impl in inline let loop match mod mut namespace new nullptr operator private pub public return self sizeof static struct switch template this throw true try typedef typename union unsafe use using virtual where while " +
		"auto bool char double float int long short signed unsigned void volatile",
);
const LONGEST_LINE = 2000; // of a generated file; the rest of such a line is plain

// The closing mark of a string that is still open, or "".
export function highlightLine(line: string, open: string, isPython: boolean): { tokens: Token[]; open: string } {
	const tokens: Token[] = [];
	const push = (kind: Kind, text: string) => {
		if (text) tokens.push({ kind, text });
	};
	const words = isPython ? PYTHON_WORDS : C_WORDS;
	const end = Math.min(line.length, LONGEST_LINE);
	let i = 0;
	let mark = open;
	while (i < end) {
		if (mark) {
			const close = line.indexOf(mark, i);
			const stop = close < 0 ? end : Math.min(end, close + mark.length);
			push(mark === "*/" ? "comment" : "string", line.slice(i, stop));
			i = stop;
			if (close < 0) break;
			mark = "";
			continue;
		}
		const rest = line.slice(i, end);
		let m: RegExpExecArray | null;
		if (isPython && (m = /^[rbfuRBFU]{0,2}("""|''')/.exec(rest))) {
			push("string", m[0]);
			i += m[0].length;
			mark = m[1];
		} else if (!isPython && rest.startsWith("/*")) {
			push("comment", "/*");
			i += 2;
			mark = "*/";
		} else if (isPython ? rest[0] === "#" : rest.startsWith("//")) {
			push("comment", rest);
			i = end;
		} else if ((m = /^[rbfuRBFU]{0,2}(?:"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?)/.exec(rest))) {
			push("string", m[0]);
			i += m[0].length;
		} else if ((m = /^[A-Za-z_]\w*/.exec(rest))) {
			const isWord = words.has(m[0]) && line[i - 1] !== "."; // re.match is a name
			push(isWord ? "word" : /^\s*\(/.test(rest.slice(m[0].length, m[0].length + 4)) ? "name" : "text", m[0]);
			i += m[0].length;
		} else if ((m = /^\d[\w.]*/.exec(rest))) {
			push("number", m[0]);
			i += m[0].length;
		} else {
			m = /^[^A-Za-z_\d"'#/]+|^./.exec(rest);
			push("text", m ? m[0] : rest[0]);
			i += m ? m[0].length : 1;
		}
	}
	push("text", line.slice(end));
	return { tokens, open: mark };
}
