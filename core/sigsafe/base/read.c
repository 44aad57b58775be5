// SPDX-License-Identifier: Apache-2.0
#include "sigsafe/base/read.h"

#include <sys/uio.h>

#include "sigsafe/base/raw.h"

#include "sigsafe/base/sigsafe.h"

__thread bool fm_sig_is_recoverable __attribute__((tls_model("initial-exec")));

FM_SIGSAFE __attribute__((noinline, cold)) bool fm_sig_read_by_kernel(uintptr_t addr, void *to, size_t len)
{
	struct iovec local = { to, len }, remote = { (void *)addr, len };
	// The number of the calling thread: a child of a bare clone() has another one than
	// fm_sig.pid.
	long tid = fm_system_call(SYS_gettid, 0, 0, 0, 0);
	return fm_system_call6(SYS_process_vm_readv, tid, (long)&local, 1, (long)&remote, 1, 0) == (long)len;
}

FM_SIGSAFE bool fm_sig_read(uintptr_t addr, void *to, size_t len)
{
	uint8_t *t = to;
	uint64_t v;
	if (len == 0)
		return true;
	if (!fm_sig_is_user_address(addr) || !fm_sig_is_user_address(addr + len - 1))
		return false;
	if (FM_UNLIKELY(!fm_sig_is_recoverable))
		return fm_sig_read_by_kernel(addr, to, len);
	for (; len >= 8; addr += 8, t += 8, len -= 8) {
		FM_SIG_LOAD(FM_SIG_LOAD_64, fm_sig_u64, addr, v, fault);
		*(fm_sig_u64 *)t = v;
	}
	for (; len; addr++, t++, len--) {
		FM_SIG_LOAD(FM_SIG_LOAD_8, uint8_t, addr, v, fault);
		*t = (uint8_t)v;
	}
	return true;
fault:
	return false;
}

FM_SIGSAFE size_t fm_sig_read_length(uintptr_t addr, size_t max)
{
	size_t n = 0;
	uint8_t byte;
	while (n < max && fm_sig_read_u8(addr + n, &byte) && byte)
		n++;
	return n;
}
