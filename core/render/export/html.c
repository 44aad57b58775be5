// SPDX-License-Identifier: Apache-2.0
// The viewer in one file: the page with the bundle inside, compressed and as base64. Whatever a
// name holds, it cannot end the element it stands in: base64 has no '<'.
#include "render/shared/formats.h"

#include <string.h>

#include "render/bundle/bundle.h"
#include "render/shared/packed.h"
#include "render/shared/page.h"

// Every run writes a page: of an empty script (1.1 MB of data, most of it source) 2 takes 10 ms and
// 298 kB, 1 as long for 314, 5 24 ms for 260, and 9 seven times as long as 5 for three percent less.
#define LEVEL 2

static enum fm_err embed(FILE *out, const char *id, struct fm_analysis *base, struct fm_analysis *a,
			 struct fm_diag *diag)
{
	fprintf(out, "<script id=\"%s\" type=\"application/octet-stream\">", id);
	FILE *base64 = fm_packed_base64(out), *gzip = base64 ? fm_packed_gzip(base64, LEVEL) : NULL;
	enum fm_err err = FM_OK;
	if (!gzip)
		err = fm_diag_set(diag, FM_E_IO, "cannot compress the page's data: out of memory");
	else if (base)
		err = fm_bundle_write_diff(gzip, base, a, &fm_bundle_for_file, diag);
	else
		err = fm_bundle_write(gzip, a, &(struct fm_bundle_options){ .limits = &fm_bundle_for_file }, diag);
	if (gzip)
		fclose(gzip); // a failed write is known to `out`, which the caller asks
	if (base64)
		fclose(base64);
	fputs("</script>\n", out);
	return err;
}

enum fm_err fm_html_write(FILE *out, struct fm_analysis *base, struct fm_analysis *a, struct fm_diag *diag)
{
	const char *marker = memmem(fm_page, fm_page_len, FM_PAGE_MARKER, sizeof(FM_PAGE_MARKER) - 1);
	if (!marker)
		return fm_diag_set(diag, FM_E_UNSUPPORTED,
				   "this fathom was built without the viewer's page; install Node and npm and build it "
				   "again, or use 'fathom export -f speedscope'");
	fwrite(fm_page, 1, (size_t)(marker - fm_page), out);
	enum fm_err err = embed(out, "bundle", NULL, a, diag);
	if (!err && base)
		err = embed(out, "diff", base, a, diag);
	marker += sizeof(FM_PAGE_MARKER) - 1;
	fwrite(marker, 1, (size_t)(fm_page + fm_page_len - marker), out);
	return err;
}

enum fm_err fm_write_html(FILE *out, struct fm_analysis *a, struct fm_diag *diag)
{
	return fm_html_write(out, NULL, a, diag);
}

enum fm_err fm_write_bundle(FILE *out, struct fm_analysis *a, struct fm_diag *diag)
{
	FILE *gzip = fm_packed_gzip(out, 1);
	if (!gzip)
		return fm_diag_set(diag, FM_E_IO, "cannot compress the bundle: out of memory");
	enum fm_err err =
		fm_bundle_write(gzip, a, &(struct fm_bundle_options){ .limits = &fm_bundle_for_server }, diag);
	fclose(gzip);
	return err;
}
