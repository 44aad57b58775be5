// SPDX-License-Identifier: Apache-2.0
// qualnames: for each line "FILE\tLINE\tNAME" of standard input, what symbolize calls that code
// object by the file's text; an empty line where it does not know.
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "symbolize/python_scopes.h"

static struct fm_str read_file(const char *path)
{
	struct fm_buf text = { 0 };
	char some[4096];
	FILE *f = fopen(path, "rb");
	for (size_t n; f && (n = fread(some, 1, sizeof(some), f)) > 0;)
		fm_buf_bytes(&text, some, n);
	if (f)
		fclose(f);
	return (struct fm_str){ (const char *)text.data, (uint32_t)text.len };
}

int main(void)
{
	char path[4096] = "", next[4096], name[512];
	unsigned line;
	struct fm_str text = { 0 };
	struct fm_python_scopes scopes = { 0 };
	while (scanf("%4095[^\t]\t%u\t%511[^\n]\n", next, &line, name) == 3) {
		if (strcmp(path, next) != 0) {
			fm_python_scopes_deinit(&scopes);
			free((char *)text.p);
			strcpy(path, next);
			text = read_file(path);
			fm_python_scopes_read(&scopes, text);
		}
		struct fm_buf found = { 0 };
		fm_python_scopes_qualname(&scopes, line, fm_str_of(name), &found);
		printf("%.*s\n", (int)found.len, found.len ? (const char *)found.data : "");
		fm_buf_deinit(&found);
	}
	fm_python_scopes_deinit(&scopes);
	free((char *)text.p);
	return 0;
}
