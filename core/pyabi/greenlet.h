// SPDX-License-Identifier: Apache-2.0
// Greenlets (gevent, eventlet, SQLAlchemy's asyncio) run on their thread's own C stack: what one
// has there is copied away while another goes on. Its stack ends at the greenlet module's function
// that began it; the return address of that leads to whatever the greenlet that began it, or yet
// another one, has there by now.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// greenlet/_greenlet.cpython-312-x86_64-linux-gnu.so; before greenlet 1.0 greenlet.cpython-38-...
static inline bool fm_py_is_greenlet_image(const char *path)
{
	static const char name[] = "greenlet.";
	const char *base = path;
	for (const char *p = path; *p; p++)
		if (*p == '/')
			base = p + 1;
	if (*base == '_')
		base++;
	uint32_t n = 0;
	while (name[n] && base[n] == name[n])
		n++;
	return !name[n];
}
