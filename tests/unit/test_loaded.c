// SPDX-License-Identifier: Apache-2.0
// The table of images that stands in for _dl_find_object: it knows what dl_iterate_phdr() and the
// loader itself say.
#include "sigsafe/unwind/loaded.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/compiler.h"
#include "faults.h"
#include "test.h"

static void start(void)
{
	mend_faults();
	// Not &_r_debug, which is this program's copy of it.
	for (const ElfW(Dyn) *dyn = _DYNAMIC; dyn->d_tag != DT_NULL; dyn++)
		if (dyn->d_tag == DT_DEBUG)
			fm_sig_loader_list = dyn->d_un.d_ptr;
	fm_sig_loaded_refill();
}

static bool is_found(const void *pc, struct fm_sig_image_info *ret)
{
	return fm_sig_loaded_find((uintptr_t)pc, ret);
}

// A program at fixed addresses has its header elsewhere: the agent knows it from its start
// (image.c).
static int compare(struct dl_phdr_info *info, size_t size, void *n)
{
	(void)size;
	uintptr_t start = UINTPTR_MAX, end = 0, hdr = 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		if (ph->p_type == PT_LOAD) {
			start = FM_MIN(start, (info->dlpi_addr + ph->p_vaddr) & ~4095ul);
			end = FM_MAX(end, info->dlpi_addr + ph->p_vaddr + ph->p_memsz);
		}
		if (ph->p_type == PT_GNU_EH_FRAME)
			hdr = info->dlpi_addr + ph->p_vaddr;
	}
	if (info->dlpi_addr == 0)
		return 0;
	const uintptr_t inside[] = { start, start + (end - start) / 2, end - 1 };
	struct fm_sig_image_info image;
	for (unsigned i = 0; i < FM_ARRAY_LEN(inside); i++) {
		CHECK(fm_sig_loaded_find(inside[i], &image));
		CHECK_EQ(image.start, start);
		CHECK_EQ(image.end, end);
		CHECK_EQ(image.eh_frame_hdr, hdr);
		CHECK_EQ(image.bias, info->dlpi_addr);
		CHECK(image.path ? !strcmp((const char *)image.path, info->dlpi_name) : !*info->dlpi_name);
	}
	++*(int *)n;
	return 0;
}

TEST(every_image_is_known_from_its_first_byte_to_its_last)
{
	start();
	int n = 0;
	dl_iterate_phdr(compare, &n);
	CHECK(n >= 3);
}

TEST(what_is_in_no_image_is_not_found)
{
	start();
	struct fm_sig_image_info image;
	void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(!is_found(page, &image));
	CHECK(!is_found((void *)16, &image));
	CHECK(!is_found((void *)UINTPTR_MAX, &image));
}

#define N_COPIES 150 // more than one sample adds

// The same library many times over, each a file of its own, which is removed when it has been
// opened.
static void *open_copy(char *path)
{
	Dl_info info;
	static char bytes[1 << 20];
	void *library = dlopen("libresolv.so.2", RTLD_NOW);
	CHECK(library && dladdr(dlsym(library, "ns_parserr"), &info));
	int from = open(info.dli_fname, O_RDONLY), to = mkstemp(path);
	ssize_t n = read(from, bytes, sizeof(bytes));
	CHECK(n > 0 && write(to, bytes, (size_t)n) == n);
	close(from);
	close(to);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	unlink(path);
	CHECK(library);
	return library;
}
#define COPY                              \
	(char[])                          \
	{                                 \
		"/tmp/fathom-test-XXXXXX" \
	}

TEST(what_was_opened_since_is_found)
{
	start();
	void *symbols[N_COPIES];
	for (int i = 0; i < N_COPIES; i++)
		symbols[i] = dlsym(open_copy(COPY), "ns_parserr");
	struct fm_sig_image_info image;
	for (int i = N_COPIES; i-- > 0;) {
		Dl_info info;
		CHECK(is_found(symbols[i], &image));
		CHECK(dladdr(symbols[i], &info) && (uintptr_t)info.dli_fbase == image.start);
		CHECK(!strcmp((const char *)image.path, info.dli_fname));
	}
	int n = 0;
	dl_iterate_phdr(compare, &n);
	CHECK(n > N_COPIES);
}

TEST(what_was_closed_is_forgotten_and_the_rest_is_not)
{
	start();
	void *libraries[8], *symbols[8];
	for (int i = 0; i < 8; i++) {
		libraries[i] = open_copy(COPY);
		symbols[i] = dlsym(libraries[i], "ns_parserr");
	}
	struct fm_sig_image_info image;
	CHECK(is_found(symbols[7], &image));
	for (int i = 0; i < 8; i += 2)
		dlclose(libraries[i]);
	dlclose(libraries[7]); // the list's last
	fm_sig_loaded_refill();
	for (int i = 0; i < 8; i++)
		CHECK_EQ(is_found(symbols[i], &image), i % 2 == 1 && i != 7);
}

// As prelink made them: linked for an address that another library had, and loaded elsewhere, an
// image's header is not at its bias. A fault would not come to us.
TEST(a_header_that_is_not_there_is_asked_of_the_kernel_where_faults_are_blocked)
{
	start();
	void *nothing = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char name[] = "prelinked.so";
	struct link_map node = { .l_addr = (uintptr_t)nothing, .l_name = name };
	struct r_debug list = { .r_version = 1, .r_map = &node, .r_state = RT_CONSISTENT };
	fm_sig_loader_list = (uintptr_t)&list;
	sigset_t faults, before;
	sigemptyset(&faults);
	sigaddset(&faults, SIGSEGV);
	pthread_sigmask(SIG_BLOCK, &faults, &before);
	fm_sig_loaded_refill();
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	struct fm_sig_image_info image;
	CHECK(!is_found(nothing, &image));
}

static _Atomic bool is_over;

static void *open_and_close(void *arg)
{
	while (!is_over) {
		dlclose(open_copy(COPY));
		fm_sig_loaded_refill();
	}
	return arg;
}

TEST(what_stays_is_found_while_others_come_and_go)
{
	start();
	pthread_t thread;
	CHECK_EQ(pthread_create(&thread, NULL, open_and_close, NULL), 0);
	struct fm_sig_image_info image, expected;
	CHECK(is_found((void *)qsort, &expected));
	for (int i = 0; i < 300000; i++) {
		CHECK(is_found((void *)qsort, &image));
		CHECK(image.start == expected.start && image.end == expected.end && image.bias == expected.bias);
	}
	is_over = true;
	pthread_join(thread, NULL);
}

static uint64_t cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double ns_per_find(bool is_by_list, const uintptr_t *pcs, unsigned n)
{
	struct fm_sig_image_info image;
	fm_sig_images_by_list = is_by_list;
	uint64_t began = cpu_ns(), sum = 0;
	for (unsigned i = 0; i < 10000; i++)
		sum += fm_sig_image_find(pcs[i % n], &image);
	uint64_t took = cpu_ns() - began;
	CHECK_EQ(sum, 10000);
	return (double)took / 10000;
}

// Both in turn, in one run; the best stretch of each is what other load on the machine has changed
// least.
TEST(a_find_costs_about_what_the_loaders_own_costs)
{
	start();
	uintptr_t pcs[N_COPIES];
	for (int i = 0; i < N_COPIES; i++)
		pcs[(i * 7) % N_COPIES] = (uintptr_t)dlsym(open_copy(COPY), "ns_parserr");
	fm_sig_loaded_refill();
	fm_sig_images_by_list = false;
	if (fm_sig_image_needs_list()) {
		printf("no _dl_find_object here: nothing to compare with\n");
		return;
	}
	double by_list = 1e9, by_libc = 1e9;
	for (int i = 0; i < 40; i++) {
		by_list = FM_MIN(by_list, ns_per_find(true, pcs, N_COPIES));
		by_libc = FM_MIN(by_libc, ns_per_find(false, pcs, N_COPIES));
	}
	printf("%d images: %.0f ns by the loader's list, %.0f ns by _dl_find_object\n", N_COPIES, by_list, by_libc);
	CHECK(by_list < 2 * by_libc);
}

TEST_MAIN()
