// SPDX-License-Identifier: Apache-2.0
#include "image/object.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/mem.h"

static enum fm_err open_vdso(struct fm_elf *ret, struct fm_diag *diag)
{
	_cleanup_fclose_ FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	uint64_t start = 0, end = 0;
	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, "[vdso]") && sscanf(line, "%" SCNx64 "-%" SCNx64, &start, &end) == 2)
			break;
		else
			start = end = 0;
	if (!start)
		return fm_diag_set(diag, FM_E_NOT_FOUND, "this process has no vDSO");
	return fm_elf_open_memory((void *)(uintptr_t)start, end - start, true, ret);
}

static enum fm_object_state open_main(const struct fm_object_request *request, struct fm_elf *ret, struct fm_diag *diag)
{
	enum fm_err err = request->is_vdso ? open_vdso(ret, diag) : fm_elf_open(request->path, ret, diag);
	if (err) {
		*ret = FM_ELF_NONE;
		return err == FM_E_NOT_FOUND ? FM_OBJECT_GONE : FM_OBJECT_DAMAGED;
	}
	if (request->build_id.len &&
	    !fm_str_eq(request->build_id, (struct fm_str){ (char *)ret->build_id, ret->build_id_len })) {
		fm_elf_close(ret);
		fm_diag_set(diag, FM_E_NOT_FOUND, "%s is another build now", request->path);
		return FM_OBJECT_CHANGED;
	}
	return FM_OBJECT_PRESENT;
}

enum fm_object_state fm_object_look(const struct fm_object_request *request)
{
	struct fm_elf e;
	enum fm_object_state state = open_main(request, &e, NULL);
	fm_elf_close(&e);
	return state;
}

static bool has_lines(const struct fm_elf *e)
{
	return fm_elf_has_section(e, ".debug_info") || fm_elf_has_section(e, ".zdebug_info");
}

enum fm_err fm_object_open(const struct fm_object_request *request, struct fm_object **ret, struct fm_diag *diag)
{
	struct fm_object *o = fm_alloc(sizeof(*o));
	o->main = o->debug = o->mini = FM_ELF_NONE;
	o->state = open_main(request, &o->main, diag);
	const struct fm_elf *main = o->state == FM_OBJECT_PRESENT ? &o->main : NULL;
	struct fm_str build_id = request->build_id;
	if (main && !build_id.len)
		build_id = (struct fm_str){ (char *)main->build_id, main->build_id_len };
	if (main && has_lines(main))
		o->place.origin = FM_DEBUG_OWN;
	else if (request->want_debug &&
		 fm_debug_file_find(request->path, main, build_id, request->may_ask_server, &o->debug, &o->place))
		o->debug = FM_ELF_NONE;
	if (main && !fm_elf_find_type(main, SHT_SYMTAB) && !fm_elf_find_type(&o->debug, SHT_SYMTAB) &&
	    fm_debug_file_unpack_mini(main, &o->mini))
		o->mini = FM_ELF_NONE;
	if (!main && !o->debug.elf) {
		enum fm_err err = o->state == FM_OBJECT_DAMAGED ? FM_E_CORRUPT : FM_E_NOT_FOUND;
		fm_object_close(o);
		return err;
	}
	*ret = o;
	return FM_OK;
}

void fm_object_close(struct fm_object *o)
{
	if (!o)
		return;
	fm_elf_close(&o->main);
	fm_elf_close(&o->debug);
	fm_elf_close(&o->mini);
	free(o);
}
