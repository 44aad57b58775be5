// SPDX-License-Identifier: Apache-2.0
// Every importer, into a capture that must be readable. The first line of an input is the name of a
// format and what follows its file; without such a line the format is recognised, as users' files
// are. FUZZ_FORMAT=NAME searches in that format alone: inputs of others are passed over.
//
// Both files are descriptors of memory that are made once.
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "import/import.h"
#include "limits.h"
#include "read/reader.h"

#define MAX_NAME 32

#ifdef FM_LIBFUZZER
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
#endif

struct scratch {
	int fd;
	char path[40];
};

static struct scratch make(const char *name)
{
	struct scratch s = { .fd = memfd_create(name, MFD_CLOEXEC) };
	FUZZ_CHECK(s.fd >= 0);
	snprintf(s.path, sizeof(s.path), "/proc/self/fd/%d", s.fd);
	return s;
}

static const struct fm_importer *named(const uint8_t *data, size_t size, size_t *ret_len)
{
	const uint8_t *newline = memchr(data, '\n', size < MAX_NAME ? size : MAX_NAME);
	char name[MAX_NAME] = "";
	if (!newline)
		return NULL;
	memcpy(name, data, (size_t)(newline - data));
	*ret_len = (size_t)(newline - data) + 1;
	return fm_importer_find(name);
}

// What was written is whole, and every sample in it.
static void read_back(const char *path)
{
	struct fm_reader *reader;
	struct fm_event event;
	FUZZ_CHECK(fm_reader_open(path, &reader, NULL) == FM_OK);
	while (fm_reader_next(reader, &event) == FM_OK)
		continue;
	const struct fm_profile *p = fm_reader_profile(reader);
	FUZZ_CHECK(!p->n_damaged_chunks && !p->is_truncated);
	FUZZ_CHECK(p->n_undefined_refs == 0);
	fm_reader_close(reader);
}

// The only format that is searched in; NULL = all of them.
static const struct fm_importer *wanted(void)
{
	const char *name = getenv("FUZZ_FORMAT");
	const struct fm_importer *found = name ? fm_importer_find(name) : NULL;
	FUZZ_CHECK(!name || found);
	return found;
}

#ifdef FM_LIBFUZZER
// The first line stays a format's name: one that was varied would only be recognised, or not.
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
	size_t head = 0;
	(void)seed;
	if (!named(data, size, &head)) {
		const struct fm_importer *format = wanted();
		head = format ? strlen(format->name) + 1 : 0;
		if (head >= max_size)
			return size;
		size = size < max_size - head ? size : max_size - head;
		memmove(data + head, data, size);
		size += head;
		if (format)
			memcpy(data, format->name, head - 1);
		if (format)
			data[head - 1] = '\n';
	}
	return head + LLVMFuzzerMutate(data + head, size - head, max_size - head);
}
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct scratch in, out;
	if (!in.path[0]) {
		in = make("in");
		out = make("out");
	}
	struct limits limits = limits_begin();
	size_t skip = 0;
	struct fm_import_options options = { .importer = named(data, size, &skip) };
	struct fm_diag diag = { "" };
	if (!options.importer)
		skip = 0;
	if (wanted() && options.importer != wanted())
		return 0;
	FUZZ_CHECK(!ftruncate(in.fd, 0) && !ftruncate(out.fd, 0));
	FUZZ_CHECK(pwrite(in.fd, data + skip, size - skip, 0) == (ssize_t)(size - skip));
	for (const struct fm_importer *i = fm_importers; i->name && !wanted(); i++)
		i->recognise(data + skip, size - skip);
	enum fm_err err = fm_import_file(in.path, out.path, &options, &diag);
	FUZZ_CHECK(!err || diag.text[0]); // whatever is wrong is said
	if (!err || err == FM_E_TRUNCATED)
		read_back(out.path);
	limits_end(&limits, size);
	return 0;
}
